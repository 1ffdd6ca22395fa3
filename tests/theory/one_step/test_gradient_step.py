import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.elementwise import Link, as_link
from unlazy.theory.kernels.random_features import kernel_regression_equivalent
from unlazy.theory.one_step.gradient_step import (
    best_direction_ridge,
    gradient_cosine,
    one_step_risk,
    preconditioned_cosine,
    rank_one_step,
    spiked_outlier,
)
from unlazy.theory.one_step.linear_kernels import (
    LinearPart,
    gaussian_kernel_part,
    linear_kernel_risk,
    tangent_kernel_part,
)
from unlazy.theory.one_step.moments import (
    ActivationMoments,
    LinkMoments,
    activation_moments,
    link_moments,
    wishart_resolvent,
)


def close_but_not_20_percent_off(simulated, predicted, tolerance):
    """The seeds' mean is within `tolerance` (relative) or four standard errors, which is less than 20 %."""
    mean, error = np.mean(simulated), np.std(simulated, ddof=1) / math.sqrt(len(simulated))
    allowed = max(tolerance * abs(predicted), 4 * error)
    assert abs(mean - predicted) <= allowed, (mean, error, predicted)
    for wrong in (0.8 * predicted, 1.2 * predicted):
        assert abs(mean - wrong) > max(tolerance * abs(wrong), 4 * error), (mean, error, predicted)


def test_moments_have_their_closed_forms():
    erf = activation_moments("erf")
    second = 2 / math.pi * math.asin(2 / 3)
    np.testing.assert_allclose(
        erf, [0, 2 / math.sqrt(3 * math.pi), second - 4 / (3 * math.pi), 4 / math.pi / math.sqrt(5)], atol=1e-13
    )
    relu = activation_moments("relu")
    np.testing.assert_allclose(relu, [1 / math.sqrt(2 * math.pi), 0.5, 0.25 - 1 / (2 * math.pi), 0.5], atol=1e-12)
    np.testing.assert_allclose(activation_moments("tanh")[1:3], [0.6057055096, 0.0274153260], atol=1e-10)
    np.testing.assert_allclose(link_moments("sign"), [math.sqrt(2 / math.pi), 1 - 2 / math.pi], atol=1e-12)


def test_a_callable_has_the_moments_of_the_activation_it_is():
    np.testing.assert_allclose(activation_moments(np.tanh), activation_moments("tanh"), atol=1e-9)
    # a kink that is not named costs some digits
    np.testing.assert_allclose(activation_moments(lambda x: np.maximum(x, 0)), activation_moments("relu"), atol=3e-5)


@pytest.mark.parametrize(
    "sign", [np.sign, as_link("sign"), Link("late", lambda x: np.sign(x - 0.5), breakpoints=(0.5,))]
)
def test_jumps_are_refused_where_a_gradient_is_needed_and_there_alone(sign):
    shift = 0.5 if sign(0.25) < 0 else 0.0
    found = activation_moments(sign)
    # E[z sign(z - c)] = 2 phi(c)
    linear = 2 * math.exp(-(shift**2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(found.linear, linear, rtol=1e-10)
    assert np.isfinite(one_step_risk(sign, "erf", 2.0, 1.0, 0.1, 0.1).risk)
    for call in (lambda: rank_one_step(sign, "erf", 1, 1, 1, 0.1), lambda: tangent_kernel_part(sign)):
        with pytest.raises(InputError, match=r"activation must be continuous .*jumps there is no gradient.*Link"):
            call()


def test_the_step_moves_at_least_as_far_as_its_rank_one_part():
    for activation in ("erf", "relu", np.tanh, np.abs, lambda x: np.tanh(50 * x), lambda x: np.maximum(x, 0)):
        found = rank_one_step(activation, "erf", [0.1, 1.0, 10.0], 1.0, 1.0, 0.1)
        assert (found.displacement >= found.spike).all()
    with pytest.raises(
        InputError, match=r"activation.squared_slope = E sigma'\^2 must be at least the variance, got 0.5"
    ):
        rank_one_step(ActivationMoments(0, 1, 1, 0.5), "erf", 1, 1, 1, 0)


def test_resolvents_have_their_independently_computed_values():
    found = wishart_resolvent([0.1, 1, 0.01], [2, 0.5, 1])
    np.testing.assert_allclose(found.direct, [0.844288770225, 0.780776406404, 9.512492197250], rtol=1e-12)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 4.0])
def test_resolvents_are_those_of_a_drawn_matrix(ratio):
    d, t = 1200, 0.3
    rng = np.random.default_rng(0)
    squares = np.linalg.svd(rng.normal(size=(d, int(ratio * d))) / math.sqrt(d), compute_uv=False) ** 2
    direct = (np.sum(1 / (squares + t)) + (d - squares.size) / t) / d
    companion = (np.sum(1 / (squares + t)) + (ratio * d - squares.size) / t) / d
    found = wishart_resolvent(t, ratio)
    np.testing.assert_allclose([found.direct, found.companion], [direct, companion], rtol=5e-3)


def test_resolvents_keep_their_digits_at_extreme_arguments():
    from fractions import Fraction

    for t, ratio in ((1e-12, 0.5), (1e-12, 2.0), (1e-12, 1.0), (1e12, 0.5), (1e12, 3.0)):
        found = wishart_resolvent(t, ratio)
        for root, constant, sign in ((found.direct, 1, 1), (found.companion, ratio, -1)):
            x, t_, ratio_ = Fraction(float(root)), Fraction(t), Fraction(ratio)
            linear = (t_ + sign * (ratio_ - 1)) * x
            excess = t_ * x**2 + linear - Fraction(constant)
            # one Newton step in exact arithmetic: the relative error of the root
            assert abs(excess / (2 * t_ * x + t_ + sign * (ratio_ - 1)) / x) < 1e-14


def test_outlier_has_its_independently_computed_values():
    found = spiked_outlier([1.5, 0.8, 1.0], [2, 1, 1.1], [2, 0.5, 2])
    np.testing.assert_allclose(found.singular_value, [2.738612787526, 1.732050807569, 2.414213562373], rtol=1e-11)
    np.testing.assert_allclose(found.alignment, [0.39375, 0.16, 0], rtol=1e-11)


def test_outlier_is_that_of_a_drawn_matrix():
    d, neurons, spike = 500, 700, 2.0
    values, alignments = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=(d, neurons)) / math.sqrt(d)
        u, a = rng.normal(size=d), rng.normal(size=neurons)
        weights += spike * np.outer(u / np.linalg.norm(u), a / np.linalg.norm(a))
        left, singular, _ = np.linalg.svd(weights, full_matrices=False)
        values.append(singular[0])
        alignments.append((left[:, 0] @ u / np.linalg.norm(u)) ** 2)
    predicted = spiked_outlier(spike, spike, neurons / d)
    close_but_not_20_percent_off(values, predicted.singular_value, 0.02)
    close_but_not_20_percent_off(alignments, predicted.alignment, 0.05)


def test_a_drawn_gradient_step_moves_as_predicted():
    d, neurons, samples, eta, noise = 200, 300, 500, 6.0, 0.1
    predicted = rank_one_step("erf", "erf", samples / d, neurons / d, eta, noise**2)
    from scipy.special import erf

    displacements, spikes, cosines, values, alignments = [], [], [], [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(samples, d))
        y = erf(x[:, 0]) + noise * rng.normal(size=samples)
        start, a = rng.normal(size=(d, neurons)) / math.sqrt(d), rng.normal(size=neurons) / math.sqrt(neurons)
        # y itself, as the network's output at the start biases the alignment at this size
        slopes = 2 / math.sqrt(math.pi) * np.exp(-((x @ start) ** 2))
        step = eta * x.T @ (np.outer(y, a) * slopes) / samples
        left, singular, _ = np.linalg.svd(start + step, full_matrices=False)
        direction = np.linalg.svd(step, full_matrices=False)
        displacements.append(np.linalg.norm(step))
        spikes.append(direction[1][0])
        cosines.append(abs(direction[0][0, 0]))
        values.append(singular[0])
        alignments.append(left[0, 0] ** 2)
    close_but_not_20_percent_off(displacements, predicted.displacement, 0.05)
    close_but_not_20_percent_off(spikes, predicted.spike, 0.05)
    close_but_not_20_percent_off(cosines, predicted.cosine, 0.03)
    close_but_not_20_percent_off(values, predicted.singular_value, 0.03)
    close_but_not_20_percent_off(alignments, predicted.alignment, 0.08)


def test_step_has_its_independently_computed_displacement():
    found = rank_one_step("erf", "erf", 2.0, 2.0, 1.0, 0.01)
    np.testing.assert_allclose(found.displacement, 0.56146, atol=5e-6)
    np.testing.assert_allclose(found.cosine, found.aligned_spike / found.spike, rtol=1e-12)
    np.testing.assert_allclose(gradient_cosine("erf", [4, 1], 0.01), [0.8840429096, 0.6871021261], atol=1e-10)
    # without an outlier only the edge is left
    assert found.alignment == 0
    np.testing.assert_allclose(found.singular_value, 1 + math.sqrt(2))


def test_risk_has_its_independently_computed_values():
    found = one_step_risk(
        "erf",
        "erf",
        [3, 3, 3, 0.8, 2, 0.8, 2],
        [2, 2, 2, 1.5, 0.5, 1.5, 0.5],
        [1e-3, 1e-3, 1e-3, 1e-2, 0.1, 1e-2, 0.1],
        0.01,
        step_size=[0, 1, 3, 2, 2, 0, 0],
    )
    np.testing.assert_allclose(
        found.effective_ridge[[0, 1, 3, 4]], [0.002801649003] * 2 + [0.199769563297, 0.122282828635], rtol=1e-9
    )
    expected = [0.212445677140, 0.205739191342, 0.179223046083, 0.337378592488, 0.254216436035]
    np.testing.assert_allclose(found.risk, [*expected, 0.395292049253, 0.346300288267], rtol=1e-10)
    np.testing.assert_allclose(found.test_error - found.risk, 0.01, rtol=1e-12)


@pytest.mark.parametrize(("samples", "features"), [(3.0, 2.0), (0.5, 4.0), (6.0, 0.4), (2.0, 2.0)])
@pytest.mark.parametrize("ridge", [1e-5, 0.03, 3.0])
def test_without_a_step_it_is_the_equivalent_of_random_features(samples, features, ridge):
    """Degree 1 has d modes; higher degrees have so many that none is learned and all together act as a ridge."""
    d, many = 1000, 1e12
    activation, link = activation_moments("relu"), LinkMoments(0.7, 0.2)
    other = kernel_regression_equivalent(
        [activation.linear**2 / d, activation.nonlinear / many],
        [link.linear**2, link.nonlinear],
        samples * d,
        ridge * samples / features,
        0.05,
        width=features * d,
        multiplicities=[d, many],
    )
    found = one_step_risk(activation, link, samples, features, ridge, 0.05)
    np.testing.assert_allclose(found.risk, other.risk, rtol=1e-6)
    np.testing.assert_allclose(found.training_error, other.training_error, rtol=1e-6)


def random_problems(count):
    rng = np.random.default_rng(5)
    for _ in range(count):
        activation = ActivationMoments(0.0, rng.uniform(0.05, 2), rng.uniform(0, 1))
        link = LinkMoments(rng.uniform(0.05, 2), rng.uniform(0, 1))
        ratios = 10 ** rng.uniform(-1, 1, size=3)
        yield activation, link, ratios, 10 ** rng.uniform(-6, 2), rng.uniform(0, 1)


def test_risk_falls_with_the_step_but_never_below_the_nonlinear_part_of_the_target():
    steps = np.append(0, np.geomspace(0.01, 1e4, 30))
    for activation, link, (samples, features, step_samples), ridge, noise in random_problems(200):
        found = one_step_risk(
            activation, link, samples, features, ridge, noise, step_size=steps, step_samples_per_dimension=step_samples
        )
        assert (np.diff(found.risk) <= 1e-10 * found.test_error[0]).all()
        assert (found.risk >= link.nonlinear * (1 - 1e-10)).all()
        assert found.risk[-1] < found.risk[0]


def test_risk_has_one_minimum_in_the_ridge():
    ridges = np.geomspace(1e-10, 1e4, 120)
    for activation, link, (samples, features, _), _, noise in random_problems(100):
        risk = one_step_risk(activation, link, samples, features, ridges, noise, step_size=1.0).risk
        changes = np.diff(risk)
        signs = np.sign(changes[np.abs(changes) > 1e-9 * risk[1:]])
        assert np.count_nonzero(np.diff(signs)) <= 1


def test_extreme_ridges_have_their_limits():
    link = link_moments("erf")
    found = one_step_risk("erf", "erf", 3.0, 2.0, [1e-12, 1e9], 0.01, step_size=1.0)
    # nothing is learned
    np.testing.assert_allclose(found.risk[1], link.variance, rtol=1e-6)
    np.testing.assert_allclose(found.training_error[1], link.variance + 0.01, rtol=1e-6)
    # everything is interpolated if there are more features than samples
    assert one_step_risk("erf", "erf", 1.0, 2.0, 1e-12, 0.01).training_error < 1e-20
    assert found.training_error[0] > 1e-3


def written_risk(activation, link, samples, features, ridge, noise, step):
    """The formulas of `one_step_risk` as they are written, in 250 digits, with n0 = n."""
    with localcontext() as context:
        context.prec = 250
        mu1, rest = Decimal(activation.linear) ** 2, Decimal(activation.nonlinear)
        signal, nonlinear = Decimal(link.linear) ** 2, Decimal(link.nonlinear)
        psi1, psi2, ridge, noise, step = (Decimal(x) for x in (samples, features, ridge, noise, step))

        def at(kappa):
            t = (rest + kappa) / mu1
            linear = t + psi2 - 1
            root = (linear**2 + 4 * t).sqrt()
            m = (root - linear) / (2 * t)
            u = m + (psi2 - 1) / t
            return t, m, u, -m * (1 + m) / root, -u * (1 + u) / root

        low, high = ridge.log10(), (ridge + psi2 / psi1 * (rest + mu1)).log10()
        for _ in range(240):
            kappa = 10 ** ((low + high) / 2)
            s = at(kappa)[2] / (psi2 * mu1)
            if kappa * (1 - psi2 / psi1 * (1 - kappa * s)) < ridge:
                low = (low + high) / 2
            else:
                high = (low + high) / 2
        t, m, u, m_slope, u_slope = at(kappa)
        s, s2 = u / (psi2 * mu1), -u_slope / (psi2 * mu1**2)
        gamma = psi2 / psi1 * (1 - 2 * kappa * s + kappa**2 * s2)
        aligned = step**2 * mu1 * signal
        whole = aligned + step**2 * mu1 * (signal + nonlinear + noise) / psi1
        total = 1 + (1 + whole) * m
        q = t * m * (1 - aligned * m / total)
        q_slope = (m + t * m_slope) * (1 - aligned * m / total) - t * m * aligned * m_slope / total**2
        test = (signal * (q - kappa / mu1 * q_slope) + noise + nonlinear) / (1 - gamma)
        return [float(x) for x in (kappa, test - noise, test, (ridge / kappa) ** 2 * test)]


@pytest.mark.parametrize(
    ("samples", "features"),
    [(1, 1e15), (1e-10, 1e10), (1e-12, 1e-12), (1e15, 1e-12), (1e15, 1e15), (3.0, 3.0), (1e-12, 1e15), (1e3, 2.0)],
)
def test_risk_keeps_its_digits_at_extreme_sizes(samples, features):
    activation, link = activation_moments("tanh"), link_moments("tanh")
    for ridge, noise, step in ((1e-3, 0.1, 0.0), (1e-15, 0.0, 3.0), (1e9, 1e-12, 1e6)):
        found = one_step_risk(activation, link, samples, features, ridge, noise, step_size=step)
        np.testing.assert_allclose(
            found, written_risk(activation, link, samples, features, ridge, noise, step), rtol=1e-11
        )


def test_a_risk_far_below_the_noise_keeps_its_digits():
    activation, link = ActivationMoments(0.0, 1.0, 0.0), LinkMoments(1e-9, 0.0)
    found = one_step_risk(activation, link, 1e12, 2.0, 1e-3, 1.0)
    np.testing.assert_allclose(found.risk, written_risk(activation, link, 1e12, 2.0, 1e-3, 1.0, 0)[1], rtol=1e-11)


@pytest.mark.parametrize(("samples", "features"), [(0.5, 2.0), (2.0, 0.5), (2.0, 1.9), (1.0, 3.0), (1e-9, 1e-8)])
def test_no_ridge_is_the_limit_of_small_ones(samples, features):
    link = link_moments("tanh")
    for activation in (activation_moments("tanh"), ActivationMoments(0.0, 2.0, 0.0)):
        found = one_step_risk(activation, link, samples, features, 0.0, 0.1, step_size=2.0)
        limit = written_risk(activation, link, samples, features, "1e-60", 0.1, 2.0)
        if samples == 1.0 and activation.nonlinear == 0:
            assert found.risk == np.inf
        else:
            np.testing.assert_allclose(found, limit, rtol=1e-10, atol=1e-40)


def test_no_ridge_at_as_many_features_as_samples_is_an_infinite_risk():
    found = one_step_risk("tanh", "tanh", [1.0, 2.0], [1.0, 2.0], 0.0, 0.0)
    assert (found.risk == np.inf).all()
    assert (found.effective_ridge == 0).all()
    assert (found.training_error == 0).all()


@pytest.mark.parametrize("samples", [1e-9, 0.5, 1.0, 3.0])
def test_infinite_width_is_the_kernel(samples):
    """The kernel of tanh features is linear up to its diagonal."""
    activation, d = activation_moments("tanh"), 10**12
    found = one_step_risk("tanh", "tanh", samples, np.inf, [0.0, 1e-3, 1.0], 0.1, step_size=1.0)
    part = LinearPart(activation.linear**2, activation.nonlinear)
    expected = linear_kernel_risk(part, "tanh", samples * d, d, 1e-200, 0.1)
    np.testing.assert_allclose(found.risk, expected, rtol=1e-10)
    assert (found.effective_ridge == np.inf).all()
    assert (found.training_error == 0).all()


def test_infinite_width_without_nonlinear_part_is_least_squares():
    """On n = 3 d samples: risk noise / (3 - 1), training error noise (1 - 1/3)."""
    found = one_step_risk("identity", "identity", 3.0, np.inf, [0.0, 0.1], 0.2)
    np.testing.assert_allclose(found.risk, 0.1, rtol=1e-12)
    np.testing.assert_allclose(found.training_error, 0.2 * 2 / 3, rtol=1e-12)
    np.testing.assert_allclose(found.effective_ridge, [0, 0.15], rtol=1e-12)


def test_infinitely_many_samples_find_the_best_readout():
    """With t = mu*^2 / mu1^2 the best readout misses b1^2 t m of the linear part."""
    moments, link = activation_moments("tanh"), link_moments("tanh")
    t = moments.nonlinear / moments.linear**2
    b = t + 2 - 1
    m = 2 / (b + math.sqrt(b**2 + 4 * t))
    found = one_step_risk("tanh", "tanh", np.inf, 2.0, 0.0, 0.3)
    np.testing.assert_allclose(found.risk, link.linear**2 * t * m + link.nonlinear, rtol=1e-12)
    np.testing.assert_allclose(found.training_error, found.test_error, rtol=1e-12)


def test_outliers_do_not_overflow():
    found = spiked_outlier([1e100, 5e99, 1e-100, 1e-120], [1e100, 1e100, 1e-100, 1e-120], [1.0, 1e40, 1e-40, np.inf])
    # (theta1 / theta)^2 for a spike far above the bulk, 0 below
    np.testing.assert_allclose(found.alignment, [1, 0.25, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(found.singular_value, [1e100, 1e100, 1 + 1e-20, np.inf], rtol=1e-12)
    step = rank_one_step("erf", "erf", 1e-40, np.inf, 1e100, 1e100)
    assert np.isfinite(step.displacement)
    assert step.kernel_alignment_growth == 1
    # just above the transition the alignment is 4 (theta - 1) / 2 to leading order
    np.testing.assert_allclose(spiked_outlier(1 + 1e-12, 1 + 1e-12, 1.0).alignment, 2e-12, rtol=1e-3)


@pytest.mark.parametrize("samples", [0.25, 4.0, 1 + 1e-9])
def test_least_squares_directions_have_their_closed_form(samples):
    """v = pinv(X) y: for n > d, v = beta + noise of |.|^2 s2 / (psi0 - 1); for n < d a projection of beta as well."""
    link, noise = LinkMoments(0.8, 0.1), 0.2
    unexplained = noise + link.nonlinear
    if samples > 1:
        along, norm = link.linear, link.linear**2 + unexplained / (samples - 1)
    else:
        along = link.linear * samples
        norm = link.linear**2 * samples + unexplained * samples / (1 - samples)
    found = preconditioned_cosine(link, samples, 0.0, noise)
    np.testing.assert_allclose(found, along / math.sqrt(norm), rtol=1e-7 if samples < 1.1 else 1e-12)
    assert preconditioned_cosine(link, 1.0, 0.0, noise) == 0
    assert preconditioned_cosine(link, np.inf, 0.0, noise) == 1


def test_preconditioned_cosine_has_its_independently_computed_value():
    np.testing.assert_allclose(preconditioned_cosine(LinkMoments(0.65, 0.05), 4, 0.03, 0), 0.981070951340, rtol=1e-11)


@pytest.mark.parametrize("samples", [0.5, 1.0, 4.0])
def test_preconditioned_cosine_joins_the_gradient_and_is_highest_at_its_best_ridge(samples):
    best = best_direction_ridge("tanh", samples, 0.1)
    ridges = best * np.array([1e-6, 0.5, 0.99, 1.0, 1.01, 2.0, 1e12])
    found = preconditioned_cosine("tanh", samples, ridges, 0.1)
    assert np.argmax(found) == 3
    np.testing.assert_allclose(found[-1], gradient_cosine("tanh", samples, 0.1), rtol=1e-9)


@pytest.mark.parametrize("samples", [0.7, 3.0])
def test_preconditioned_cosine_is_that_of_drawn_data(samples):
    d, ridge, noise = 400, 0.2, 0.3
    sines = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(int(samples * d), d))
        y = np.tanh(3 * x[:, 0]) + noise * rng.normal(size=len(x))
        v = np.linalg.solve(x.T @ x / len(x) + ridge * np.eye(d), x.T @ y)
        sines.append(1 - (v[0] / np.linalg.norm(v)) ** 2)
    predicted = preconditioned_cosine(lambda x: np.tanh(3 * x), samples, ridge, noise**2)
    close_but_not_20_percent_off(sines, 1 - predicted**2, 0.05)


def test_scalars_give_scalars_and_arrays_broadcast():
    assert np.shape(one_step_risk("erf", "erf", 3.0, 2.0, 0.1, 0.0).risk) == ()
    assert rank_one_step("erf", "erf", np.ones(2), 1.0, np.ones((3, 1)), 0.1).spike.shape == (3, 2)
    assert one_step_risk("erf", "erf", [[1.0], [2.0]], 2.0, [0.1, 0.2, 0.3], 0.0).risk.shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: one_step_risk(lambda x: x**2 - 1, "erf", 1, 1, 0.1, 0), r"linear coefficient mu1 = E\[z sigma"),
        (lambda: one_step_risk("erf", "erf", 1, 1, -1e-9, 0), "ridge must be .*>= 0 .*got -1e-09"),
        (lambda: one_step_risk("erf", "erf", np.inf, np.inf, 0.1, 0), "must not both be inf"),
        (
            lambda: one_step_risk("erf", "erf", 1, 1e50, 0.1, 0),
            "width_per_dimension must be from 1e-40 to 1e.40 or inf",
        ),
        (lambda: one_step_risk("erf", "erf", 0, 1, 0.1, 0), "samples_per_dimension must be > 0"),
        (lambda: one_step_risk("erf", "erf", [1, 2], 1, [0.1] * 3, 0), "values and .*: give arrays that broadcast"),
        (lambda: one_step_risk("erff", "erf", 1, 1, 0.1, 0), "activation must be one of .*did you mean erf"),
        (lambda: one_step_risk("erf", "erff", 1, 1, 0.1, 0), "link must be one of .*did you mean erf"),
        (lambda: one_step_risk("erf", "erf", 1, 1, 0.1, -1), "noise_variance must be >= 0"),
        (lambda: one_step_risk("erf", "erf", 1, 1, 0.1, 0, step_size=-1), "step_size must be >= 0"),
        (lambda: rank_one_step(ActivationMoments(0, 1, 1), "erf", 1, 1, 1, 0), "slope = E sigma'"),
        (lambda: rank_one_step("erf", lambda x: 0 * x, 1, 1, 1, 0), "link must not be constant without noise"),
        (lambda: best_direction_ridge(lambda x: x**2, 1, 0), r"linear coefficient b1 = E\[z g"),
        (lambda: spiked_outlier(2, 1, 1), "aligned_spike must not exceed spike"),
        (lambda: preconditioned_cosine("erf", 1, -1, 0), "direction_ridge must be >= 0"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("bandwidth", [0.05, 1.0, 1e4, 1e9])
def test_gaussian_kernels_have_their_parts_also_where_they_are_wide(bandwidth):
    with localcontext() as context:
        context.prec = 60
        x = 1 / Decimal(bandwidth)
        expected = float(x * (-x).exp()), float(1 - (-x).exp() * (1 + x))
    np.testing.assert_allclose(gaussian_kernel_part(bandwidth), expected, rtol=1e-12)


def test_kernels_without_ridge_are_the_limit_of_small_ones():
    part = LinearPart(0.5, 0.1)
    found, small = (linear_kernel_risk(part, "tanh", [50, 200], 100, ridge, 0.1) for ridge in (0.0, 1e-14))
    np.testing.assert_allclose(found, small, rtol=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"linear_part": 3}, r"linear_part must be a LinearPart\(linear, diagonal\), got 3"),
        (
            {"linear_part": LinearPart(0.0, 1.0)},
            "linear_part.linear must be finite and > 0|linear_part.linear must be > 0",
        ),
        ({"n": 0}, "n must be >= 1, got 0"),
        ({"n": "many"}, "n must be numeric, got 'many'"),
        ({"d": 2.5}, "d must be an integer >= 1, got 2.5"),
        ({"noise_variance": -1}, "noise_variance must be >= 0, got -1"),
        ({"n": [1, 2, 3], "ridge": [1, 2]}, "n has 3 values and ridge 2: give arrays"),
    ],
)
def test_wrong_kernels_are_named(changes, message):
    arguments = {
        "linear_part": LinearPart(1.0, 0.1),
        "link": "tanh",
        "n": 100,
        "d": 50,
        "ridge": 0.1,
        "noise_variance": 0.1,
    }
    with pytest.raises(InputError, match=message):
        linear_kernel_risk(**(arguments | changes))
