from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron, vstack
from scipy.stats import multivariate_normal, norm

from unlazy.checks import InputError
from unlazy.theory.diffusion.process import (
    density_rates,
    diffused_variance,
    forward_process,
    gaussian_divergence,
    gaussian_score_error,
    mixture_score,
    scaled_score_error,
    wasserstein_bound,
)


def test_the_forward_process_loses_no_digits_at_small_times():
    signal, noise = forward_process([1e-18, 1e-3, 2.0])
    np.testing.assert_allclose(noise**2, [2e-18, 1 - np.exp(-0.002), 1 - np.exp(-4.0)], rtol=1e-13)
    np.testing.assert_allclose(signal**2 + noise**2, 1, rtol=1e-15)


@pytest.mark.parametrize(
    ("variance", "model_mean", "model_variance", "time", "divergence", "integral"),
    [
        (0.5, 0.0, 0.8, 0.5, 0.0405037930, 0.0436442811),
        (0.5, 0.0, 0.8, 6.0, 0.0475018146, 0.0475018146),
        (0.3, 0.2, 0.3, 2.0, 0.0659265916, 0.0662955964),
    ],
)
def test_gaussian_score_errors_cost_what_the_note_says(
    variance, model_mean, model_variance, time, divergence, integral
):
    found = gaussian_score_error(0.0, variance, model_mean, model_variance, time)
    np.testing.assert_allclose(found.divergence, divergence, rtol=2e-9)
    np.testing.assert_allclose(found.integral, integral, rtol=2e-9)


def reverse_moments(variance, mean, model_mean, model_variance, scale, time):
    """Mean and variance of Y_T by integrating the linear equations."""

    def slopes(t, moments):
        left = time - t
        spread = diffused_variance(model_variance, left)
        rate = 1 - 2 * scale / spread
        return [rate * moments[0] + 2 * scale * np.exp(-left) * model_mean / spread, 2 * rate * moments[1] + 2]

    start = [np.exp(-time) * mean, diffused_variance(variance, time)]
    return solve_ivp(slopes, (0, time), start, rtol=1e-11, atol=1e-13).y[:, -1]


@pytest.mark.parametrize(
    ("variance", "mean", "model_mean", "model_variance"), [(0.5, 0.3, -0.4, 0.8), (2.0, 0, 1, 0.1)]
)
@pytest.mark.parametrize("time", [0.1, 1.5])
def test_the_law_of_the_reverse_process_and_the_integral_agree_with_direct_integration(
    variance, mean, model_mean, model_variance, time
):
    found = gaussian_score_error(mean, variance, model_mean, model_variance, time)
    moments = reverse_moments(variance, mean, model_mean, model_variance, 1.0, time)
    np.testing.assert_allclose([found.final_mean, found.final_variance], moments, rtol=1e-8)

    def error(t):
        v, w, m = diffused_variance(variance, t), diffused_variance(model_variance, t), np.exp(-t)
        # (x - m mean) / v - (x - m model_mean) / w is linear in x
        return v * (1 / v - 1 / w) ** 2 + (m * (model_mean - mean) / w) ** 2

    np.testing.assert_allclose(found.integral, quad(error, 0, time, epsabs=1e-13)[0], rtol=1e-9)
    assert found.divergence <= found.integral


@pytest.mark.parametrize(
    ("variance", "scale", "time"), [(0.5, 1.2, 2.0), (0.01, 0.5, 1.0), (3.0, 1.5, 0.1), (1.0, 0.2, 8)]
)
def test_a_scaled_score_costs_what_direct_integration_gives(variance, scale, time):
    found = scaled_score_error(variance, scale, time)
    moments = reverse_moments(variance, 0.0, 0.0, variance, scale, time)
    np.testing.assert_allclose(found.final_variance, moments[1], rtol=1e-7)
    integral = quad(lambda t: (scale - 1) ** 2 / diffused_variance(variance, t), 0, time, epsabs=1e-13)[0]
    np.testing.assert_allclose(found.integral, integral, rtol=1e-9)
    assert found.divergence <= found.integral


def test_the_divergence_of_normals_is_its_integral():
    p, q = norm(0.3, 0.7), norm(-0.2, 1.1)
    value = quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -8, 8)[0]
    np.testing.assert_allclose(gaussian_divergence(0.3, 0.49, -0.2, 1.21), value, rtol=1e-9)


def decimals(*numbers):
    return [Decimal(Fraction(x).numerator) / Decimal(Fraction(x).denominator) for x in numbers]


def precise_cost(variance, model_mean, model_variance, time, mean):
    """Divergence, integral, final divergence, mean and variance from their definitions, with 300 digits."""

    def divergence(mean, variance, other_mean, other):
        return (variance / other - 1 - (variance / other).ln() + (mean - other_mean) ** 2 / other) / 2

    with localcontext() as context:
        context.prec = 300
        v, b, w, t, a = decimals(variance, model_mean, model_variance, time, mean)
        m = (-t).exp()
        at_end, model_at_end = (m**2 * start + 1 - m**2 for start in (v, w))
        gain = m * w / model_at_end
        end = b + gain * m * (a - b), gain**2 * at_end + w * (1 - m**2) / model_at_end
        remaining = divergence(m * a, at_end, m * b, model_at_end)
        fields = (divergence(a, v, *end), divergence(a, v, b, w) - remaining, remaining, *end)
        return [float(field) for field in fields]


@pytest.mark.parametrize("time", [1e-16, 1e-9, 1e-3, 0.7, 20.0, 100.0])
@pytest.mark.parametrize(
    ("variance", "model_mean", "model_variance", "mean"),
    [
        (0.5, 0.0, 0.8, 0.0),
        (0.3, 0.2, 0.3, 0.0),
        (0.3, 0.2, 0.3 * (1 + 1e-7), 0.2),
        (1e-12, 0.0, 1.0, 3.0),
        (1e4, 1e-3, 1e-8, 0.0),
        (1e-60, 1e20, 1e40, -1e20),
    ],
)
def test_score_errors_keep_their_digits_at_every_time(variance, model_mean, model_variance, mean, time):
    found = gaussian_score_error(mean, variance, model_mean, model_variance, time)
    expected = precise_cost(variance, model_mean, model_variance, time, mean)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [1e-6, 0.7, 1 + 1e-9, 3.0, 1e4])
@pytest.mark.parametrize("variance", [1e-8, 0.5, 30.0])
@pytest.mark.parametrize("time", [1e-16, 1e-4, 1.0])
def test_a_scaled_score_keeps_its_digits_at_small_errors_and_times(variance, scale, time):
    """By the definitions with quadrature in the logarithm of time, where the kernel is smooth."""
    found = scaled_score_error(variance, scale, time)

    def kernel(logarithm):
        t = np.exp(logarithm)
        return 2 * t * np.exp(2 * t - 2 * scale * np.log1p(np.expm1(2 * t) / variance))

    marks = np.log(time) + np.linspace(-80, 0, 161)
    noise = sum(quad(kernel, *ends, epsabs=0, epsrel=1e-11)[0] for ends in pairwise(marks))
    with localcontext() as context:
        context.prec = 60
        v, c, t, extra = decimals(variance, scale, time, noise)
        end = v - 2 * (c - 1) * extra
        expected = float((v / end - 1 - (v / end).ln()) / 2)
        integral = float((c - 1) ** 2 * (1 + ((2 * t).exp() - 1) / v).ln() / 2)
    np.testing.assert_allclose(found.integral, integral, rtol=1e-12)
    # where the law narrows by orders of magnitude the difference above has fewer digits
    digits = 1e-9 * max(1.0, variance / float(end))
    np.testing.assert_allclose((found.final_variance, found.divergence), (float(end), expected), rtol=digits)


@pytest.mark.parametrize(
    ("variance", "other"), [(1e-3, 1e13), (1e-17, 1.0), (1e12, 1e-5), (1.0 + 1e-7, 1.0), (1 - 1e-12, 1.0), (0.6, 1.0)]
)
def test_the_divergence_of_normals_keeps_its_digits(variance, other):
    ratio = Fraction(variance) / Fraction(other)
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(ratio.numerator) / Decimal(ratio.denominator)
        expected = float((exact - 1 - exact.ln()) / 2)
    np.testing.assert_allclose(gaussian_divergence(0.0, variance, 0.0, other), expected, rtol=1e-13)


def test_a_scaled_score_of_a_tiny_variance_costs_what_the_scaling_limit_gives():
    # v << 1 at T = 50: near t = 0, V_t = v + 2t and the kernel (v / V)^(2c) integrates to v / (2c - 1)
    assert scaled_score_error(1e-12, 1.4, 50.0).final_variance == pytest.approx(1e-12 / 1.8, rel=1e-9)


def test_the_mixture_score_is_that_of_the_diffused_mixture():
    rng = np.random.default_rng(0)
    weights, means, variances = [0.2, 0.5, 0.3], rng.standard_normal((3, 2)), rng.uniform(0.1, 1, (3, 2))
    x, t = rng.standard_normal((6, 2)), 0.4
    m, s = np.exp(-t), 1 - np.exp(-2 * t)
    density = sum(
        w * multivariate_normal(m * mu, np.diag(m**2 * v + s)).pdf(x)
        for w, mu, v in zip(weights, means, variances, strict=True)
    )
    found = mixture_score(weights, means, variances, x, t)
    np.testing.assert_allclose(found.log_density, np.log(density), rtol=1e-12)
    for axis, h in enumerate(1e-5 * np.eye(2)):
        up, down = (mixture_score(weights, means, variances, x + sign * h, t).log_density for sign in (1, -1))
        np.testing.assert_allclose(found.score[:, axis], (up - down) / 2e-5, rtol=1e-6)
    far = mixture_score([1.0], [[0.0, 0.0]], [0.0], [[1e6, 0.0]], t)
    np.testing.assert_allclose(far.score[0], [-1e6 / s, 0])


def test_rates_are_corrected_where_the_theorem_beats_the_parametric_limit():
    found = density_rates([1, 2, 3], 10, [1, 2, 3])
    np.testing.assert_allclose(found.total_variation, [1 / 3, 2 / 6, 3 / 9])
    np.testing.assert_allclose(found.wasserstein_as_stated, [2 / 3, 1 / 2, 4 / 9])
    np.testing.assert_allclose(found.wasserstein, [1 / 2, 1 / 2, 4 / 9])
    np.testing.assert_allclose(found.wasserstein_empirical, [1 / 2, 1 / 2, 1 / 3])
    assert found.wasserstein_logarithm.tolist() == [False, True, False]
    np.testing.assert_allclose(density_rates(2, 4).total_variation, 2 / 8)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_dyadic_bound_is_above_exact_transport_and_within_its_diameter(d):
    rng = np.random.default_rng(d)
    cells = {1: 32, 2: 8, 3: 4}[d]
    p, q = rng.dirichlet(np.full(cells**d, 0.5), 2).reshape(2, *(cells,) * d)
    axis = (2 * np.arange(cells) + 1) / cells - 1
    centres = np.stack(np.meshgrid(*(axis,) * d, indexing="ij"), axis=-1).reshape(-1, d)
    cost = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    size = cells**d
    margins = vstack([kron(eye_array(size), np.ones((1, size))), kron(np.ones((1, size)), eye_array(size))])
    exact = linprog(cost.ravel(), A_eq=margins.tocsr(), b_eq=np.r_[p.ravel(), q.ravel()], method="highs").fun
    bound = wasserstein_bound(p, q)
    assert exact <= bound <= 6 * exact
    assert wasserstein_bound(p, p) == 0
    np.testing.assert_allclose(wasserstein_bound(p, q, side=1.0), bound / 2)


def test_the_dyadic_bound_of_two_far_points_is_the_diameter():
    p, q = np.zeros((2, 8, 8))
    p[0, 0] = q[-1, -1] = 1
    np.testing.assert_allclose(wasserstein_bound(p, q), 2 * np.sqrt(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: forward_process(0.0), "time must be (> 0|>= 1e-100), got 0"),
        (lambda: density_rates(0.0, 3), "smoothness must be > 0, got 0"),
        (lambda: density_rates(1.0, 2, 3), "support_dimension must be at most d = 2, got 3"),
        (lambda: density_rates(1.0, 2.5), "d must be whole"),
        (lambda: gaussian_score_error(0, 0.0, 0, 1, 1), "data_variance must be >= 1e-150 and <= 1e.150, got 0"),
        (lambda: gaussian_score_error(0, 1.0, 0, 1, -1), "time must be > 0, got -1"),
        (lambda: scaled_score_error(1.0, 0.0, 1.0), "score_scale must be > 0 and <= 1e.06, got 0"),
        (lambda: mixture_score([1.0], [[0.0]], [1.0], [[0.0]], 0.0), "time must be (> 0|>= 1e-100), got 0"),
        (
            lambda: mixture_score([0.7], [[0.0]], [1.0], [[0.0]], 1.0),
            "component_weights must be 1 numbers that sum to 1.*0.7",
        ),
        (lambda: mixture_score([1.0], [[0.0]], [1.0], [[0.0, 1.0]], 1.0), r"x must have 1 column\(s\)"),
        (lambda: wasserstein_bound(np.full(6, 1 / 6), np.full(6, 1 / 6)), "a power of 2"),
        (lambda: wasserstein_bound(np.full(4, 0.3), np.full(4, 0.25)), "masses must sum to 1, got 1.2"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
