"""Static solution, line of stability and dynamical mean-field equations of random sequential message passing."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.message_passing.sequential.inference import (
    CovarianceEnsemble,
    almeida_thouless_line,
    almeida_thouless_solutions,
    covariance_ensemble,
    ensemble_of_spectra,
    matched_inverse_temperature,
    mean_field_residual,
    row_orthogonal_ensemble,
    static_solution,
    wishart_ensemble,
)
from unlazy.theory.message_passing.sequential.tilted_averages import tilt

MATCHED = math.log(9)
ENSEMBLES = {"wishart": wishart_ensemble, "row-orthogonal": row_orthogonal_ensemble}


@pytest.mark.parametrize("beta", [0.3, 3.0, 40.0, 600.0, math.inf])
@pytest.mark.parametrize("field", [-2.5, -0.2, 1.7])
def test_tilted_mean_is_the_mean_of_the_tilted_normal(field, beta):
    weight = 0.0 if math.isinf(beta) else math.exp(-beta)

    def moment(power):
        def density(theta):
            return theta**power * norm.pdf(theta, field, math.sqrt(0.4))

        above = quad(density, 0, 12, points=[max(field, 0.1)], epsabs=0, epsrel=1e-12)[0]
        return above + weight * quad(density, -12, 0, points=[min(field, -0.1)], epsabs=0, epsrel=1e-12)[0]

    mean = moment(1) / moment(0)
    value, slope = tilt(field, 1.0, 0.4, beta)
    mirrored, _ = tilt(-field, -1.0, 0.4, beta)
    assert value == pytest.approx(mean, rel=1e-8)
    assert slope == pytest.approx((moment(2) / moment(0) - mean**2) / 0.4, rel=1e-6)
    assert mirrored == pytest.approx(-mean, rel=1e-8)


def test_wishart_quadrature_has_the_moments_of_marchenko_and_pastur():
    for alpha in (0.2, 0.999, 3.0):
        k, _, weights = wishart_ensemble(alpha)
        moments = [weights @ k**power for power in (0, 1, 2, 3)]
        assert moments == pytest.approx([1, 1, 1 + alpha, 1 + 3 * alpha + alpha**2], rel=1e-12)


@pytest.mark.parametrize(
    ("ensemble", "multiple", "expected"),
    [
        (row_orthogonal_ensemble, 2, (0.2416734385, 0.8087795351, 0.6885878496, 0.4569209090)),
        (row_orthogonal_ensemble, 1, (0.3925181353, 0.6074818647, 0.6074818647, 0.1566391604)),
        (wishart_ensemble, 2, (0.2125020, 0.787498, 0.702247, 0.454346)),
        (wishart_ensemble, 1, (0.347538, 0.652461, 0.652461, 0.168105)),
    ],
)
def test_static_solution_has_its_independently_computed_values(ensemble, multiple, expected):
    found = static_solution(ensemble(3.0), multiple * MATCHED, 0.1)
    numbers = (found.cavity_variance, found.cavity_field_variance, found.cavity_field_overlap, found.stability)
    assert numbers == pytest.approx(expected, abs=2e-10 if ensemble is row_orthogonal_ensemble else 2e-6)


def test_static_solution_meets_its_equations_by_adaptive_quadrature():
    """With K != K*: every average by `quad` over the field and the sum over labels, with its own formulas."""
    k, teacher, share = np.array([2.5, 0.3]), np.array([1.0, 0.8]), np.array([0.4, 0.6])
    beta, flip = 5.0, 0.05
    found = static_solution(ensemble_of_spectra(k, teacher, share), beta, flip)
    v, tau, overlap, power = (
        found.cavity_variance,
        found.cavity_field_variance,
        found.cavity_field_overlap,
        share @ teacher,
    )
    rest = power - overlap**2 / tau

    def average(function):
        def integrand(kappa, y):
            mean = overlap / tau * kappa
            agree = norm.cdf(y * mean / math.sqrt(rest))
            z = flip + (1 - 2 * flip) * agree
            weighted = z * mean + rest * (1 - 2 * flip) * y * norm.pdf(mean, 0, math.sqrt(rest))
            eta, slope = tilt(kappa, y, v, beta)
            return norm.pdf(kappa, 0, math.sqrt(tau)) * function(kappa, float(eta), float(slope), z, weighted)

        reach = 9 * math.sqrt(tau)
        return sum(quad(integrand, -reach, reach, args=(y,), epsrel=1e-9, limit=300)[0] for y in (1.0, -1.0))

    slope = average(lambda kappa, eta, slope, z, weighted: z * slope)
    posterior = k / (1 + found.precision * k)
    chi = share @ posterior
    gain, a = v / chi, posterior / chi - 1
    teacher_part = average(lambda kappa, eta, slope, z, weighted: weighted * (gain * eta - kappa)) / power
    square = average(lambda kappa, eta, slope, z, weighted: z * (gain * eta - kappa) ** 2)
    slope_square = average(lambda kappa, eta, slope, z, weighted: z * (gain * slope - 1) ** 2)
    assert 1 / v == pytest.approx(1 / chi - found.precision, rel=1e-10)
    assert chi == pytest.approx(v * slope, rel=1e-7)
    assert overlap == pytest.approx(teacher_part * (share @ (a * teacher)), rel=1e-7)
    variance = share @ a**2
    expected = teacher_part**2 * (share @ (a**2 * teacher)) + variance * (square - teacher_part**2 * power)
    assert tau == pytest.approx(expected, rel=1e-7)
    assert found.stability == pytest.approx(variance * slope_square, rel=1e-6)
    assert found.posterior_square == pytest.approx(average(lambda kappa, eta, slope, z, weighted: z * eta**2), rel=1e-7)
    assert found.posterior_overlap == pytest.approx(
        average(lambda kappa, eta, slope, z, weighted: weighted * eta), rel=1e-7
    )


@pytest.mark.parametrize("ensemble", ENSEMBLES.values(), ids=ENSEMBLES)
def test_a_matched_student_is_on_the_nishimori_line(ensemble):
    for alpha, flip in ((1.3, 0.02), (8.0, 0.3)):
        found = static_solution(ensemble(alpha), math.log((1 - flip) / flip), flip)
        assert found.cavity_field_variance == pytest.approx(found.cavity_field_overlap, rel=1e-8)
        assert found.posterior_square == pytest.approx(found.posterior_overlap, rel=1e-8)
        assert found.cavity_variance + found.cavity_field_variance == pytest.approx(found.teacher_variance, rel=1e-8)
        assert found.stability < 1


def test_scaling_the_student_scales_its_variances_and_keeps_its_stability():
    plain, scaled = (static_solution(wishart_ensemble(4.0, student_scale=scale), 5.0, 0.1) for scale in (1.0, 1e6))
    for name in (
        "cavity_variance",
        "cavity_field_variance",
        "posterior_square",
        "posterior_variance",
        "message_square",
    ):
        assert getattr(scaled, name) == pytest.approx(1e6 * getattr(plain, name), rel=1e-9)
    assert scaled.posterior_overlap == pytest.approx(1e3 * plain.posterior_overlap, rel=1e-9)
    assert scaled.stability == pytest.approx(plain.stability, rel=1e-9)


def _label_averages(v, tau, overlap, rest, beta, flip):
    """E(1 - eta'), E(eta - kappa)^2 and E sum_y (dP/dmu)(eta - kappa) by adaptive quadrature in u = kappa/sqrt(v)."""

    def hazard(u):
        odds = -beta - math.log(-math.expm1(-beta))
        return 1 / (math.sqrt(2 * math.pi) * math.exp(min(u * u / 2 + odds, 700)) + _mills(u))

    scale = math.sqrt(v / tau)
    cliff, reach = -math.sqrt(2 * beta), 9 / scale

    def average(function):
        def integrand(u):
            h, place = hazard(u), overlap / math.sqrt(tau * rest) * scale * u
            label = flip + (1 - 2 * flip) * _cdf(place)
            return 2 * _pdf(scale * u) * scale * function(u, h, label, (1 - 2 * flip) * _pdf(place))

        marks = [
            -reach,
            *sorted({mark for mark in (cliff - 5, cliff, cliff + 5, -8.0, 0.0, 8.0) if abs(mark) < reach}),
            reach,
        ]
        return sum(
            quad(integrand, low, high, epsabs=1e-12, epsrel=1e-10, limit=400)[0] for low, high in pairwise(marks)
        )

    return (
        average(lambda u, h, label, slope: label * h * (u + h)),
        v * average(lambda u, h, label, slope: label * h * h),
        math.sqrt(v / rest) * average(lambda u, h, label, slope: slope * h),
        average(lambda u, h, label, slope: label * (h * (u + h)) ** 2),
    )


def _pdf(u):
    return math.exp(-u * u / 2) / math.sqrt(2 * math.pi)


def _cdf(u):
    return math.erfc(-u / math.sqrt(2)) / 2


def _mills(u):
    """Phi(u)/phi(u), by its continued fraction far in the tail."""
    if u > -8:
        return _cdf(u) / _pdf(u) if u < 37 else math.inf
    value = 0.0
    for k in range(40, 0, -1):
        value = k / (value - u)
    return 1 / (value - u)


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 3.0), (3.0, 9.0), (50.0, 1.0), (3.0, 2000.0), (1000.0, 4.0)])
def test_wishart_solution_meets_the_equations_of_message_passing_on_weights(alpha, beta):
    """With averages of the test's own: V = 1/(1 + Vh), m = mh V, q = (qh + mh^2) V^2."""
    found = static_solution(wishart_ensemble(alpha), beta, 0.1)
    v, tau, overlap = found.cavity_variance, found.cavity_field_variance, found.cavity_field_overlap
    loss, square, response, _ = _label_averages(v, tau, overlap, 1 - overlap**2 / tau, beta, 0.1)
    assert v == pytest.approx(1 / (1 + alpha * loss / v), rel=1e-6)
    assert overlap == pytest.approx(alpha * response, rel=1e-6)
    assert tau == pytest.approx(alpha * square + overlap**2, rel=1e-6)


@pytest.mark.parametrize("beta", [300.0, 1000.0, 1e4])
@pytest.mark.parametrize("alpha", [3.0, 30.0])
def test_cavity_and_field_of_a_cold_perceptron_share_the_prior_variance(alpha, beta):
    """v + tau = 1 for Wishart covariances, K = K*, whatever the labels: weights N(0, I/p) have norm 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = static_solution(wishart_ensemble(alpha), beta, 0.1)
    assert found.cavity_variance + found.cavity_field_variance == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("alpha", [250.0])
def test_students_of_many_labels_have_the_scaling_of_the_line(alpha):
    """v falls as alpha^-2 and beta of the line has a limit, to which it comes as 1/alpha^2."""
    found = [static_solution(wishart_ensemble(ratio), 4.0, 0.1) for ratio in (alpha, 2 * alpha)]
    for solution in found:
        assert solution.cavity_variance + solution.cavity_field_variance == pytest.approx(1, abs=1e-8)
    assert found[0].cavity_variance / found[1].cavity_variance == pytest.approx(4, rel=5 / alpha)
    lines = [almeida_thouless_line(row_orthogonal_ensemble(ratio), 0.1) for ratio in (alpha, 2 * alpha, 4 * alpha)]
    assert lines[2] == pytest.approx(lines[1], rel=0.1 / alpha)
    assert abs(lines[2] - lines[1]) < abs(lines[1] - lines[0])


@pytest.mark.parametrize("beta", [1e-4, 1e-7])
def test_stability_of_a_warm_student_is_that_of_the_expansion(beta):
    """To leading order f = y h with h = beta/sqrt(2 pi), f' = h (y kappa - E y kappa)/v, a_j = k_j - 1 and v = 1."""
    alpha, flip, hazard = 3.0, 0.1, beta / math.sqrt(2 * math.pi)
    seen = (1 - 2 * flip) * math.sqrt(2 / math.pi)
    found = static_solution(wishart_ensemble(alpha), beta, flip)
    assert found.cavity_field_variance == pytest.approx(hazard**2 * (alpha + alpha**2 * seen**2), rel=10 * beta)
    assert found.cavity_field_overlap == pytest.approx(alpha * hazard * seen, rel=10 * beta)
    expected = alpha**2 * hazard**4 * (1 + alpha * seen**2 - alpha * seen**4)
    assert found.stability == pytest.approx(expected, rel=10 * beta)


def test_only_ratios_of_weights_matter():
    plain = static_solution(ensemble_of_spectra([1.0, 2.0]), 2.0, 0.1)
    doubled = CovarianceEnsemble(np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    assert static_solution(doubled, 2.0, 0.1) == pytest.approx(plain, rel=1e-12)


def test_lines_have_their_independently_computed_values_and_are_those_of_message_passing_on_weights():
    assert almeida_thouless_line(row_orthogonal_ensemble(3.0), 0.1) == pytest.approx(10.20607699, abs=1e-8)
    line = almeida_thouless_line(wishart_ensemble(3.0), 0.1)
    assert line == pytest.approx(10.42898, abs=1e-5)
    found = static_solution(wishart_ensemble(3.0), line, 0.1)
    v, tau, overlap = found.cavity_variance, found.cavity_field_variance, found.cavity_field_overlap
    # alpha V^2 E g'^2
    loss_square = _label_averages(v, tau, overlap, 1 - overlap**2 / tau, line, 0.1)[3]
    assert 3 * loss_square == pytest.approx(1.0, abs=1e-7)
    assert almeida_thouless_line(wishart_ensemble(0.5), 0.1) == math.inf


def test_independent_latent_variables_have_no_messages():
    found = static_solution(ensemble_of_spectra([2.0, 2.0]), 3.0, 0.1)
    assert found.stability == pytest.approx(0.0, abs=1e-12)
    assert found.cavity_variance == pytest.approx(2.0)
    assert found.cavity_field_variance == pytest.approx(0.0, abs=1e-10)
    assert mean_field_residual(found, 0.5, 5) == pytest.approx(np.zeros(5), abs=1e-10)


def test_residuals_have_their_independently_computed_values():
    two, four, six = (static_solution(wishart_ensemble(3.0), m * MATCHED, 0.1) for m in (2, 4, 6))
    parallel, sequential = mean_field_residual(two, [1.0, 0.25], 21)
    assert sequential[[0, 5, 12, 20]] == pytest.approx([0.589, 0.168, 0.0374, 0.0084], rel=6e-3)
    assert parallel[[1, 5]] == pytest.approx([0.119, 0.0035], rel=6e-3)
    parallel, sequential = mean_field_residual(four, [1.0, 0.25], 26)
    assert parallel[[5, 12]] == pytest.approx([0.0396, 0.0092], rel=6e-3)
    assert sequential[[12, 25]] == pytest.approx([0.0709, 0.0174], rel=6e-3)
    assert mean_field_residual(six, 1.0, 40)[39] == pytest.approx(0.027, rel=2e-2)


def test_first_residuals_are_gaussian_integrals():
    """r(0) and, for parallel updates, r(1) from a two-dimensional integral over two fields that share only theta*."""
    found = static_solution(row_orthogonal_ensemble(3.0), 6.0, 0.1)
    v, power = found.cavity_variance, found.teacher_variance
    slope, noise = (
        found.cavity_field_overlap / power,
        found.cavity_field_variance - found.cavity_field_overlap**2 / power,
    )
    gain = v / found.posterior_variance

    def message(theta, y):
        """E f(kappa) given theta* and y."""
        g = np.linspace(-9, 9, 721)
        kappa = slope * theta + math.sqrt(noise) * g
        density = norm.pdf(g) * (g[1] - g[0])
        return density @ (gain * tilt(kappa, y, v, found.inverse_temperature)[0] - kappa)

    def squared(theta):
        return norm.pdf(theta, 0, math.sqrt(power)) * (0.9 * message(theta, 1.0) ** 2 + 0.1 * message(theta, -1.0) ** 2)

    product = 2 * quad(squared, 0, 9 * math.sqrt(power), epsrel=1e-8)[0]
    expected = 2 * found.spectral_variance * (found.message_square - product)
    residual = mean_field_residual(found, 1.0, 2)
    assert residual[0] == pytest.approx(2 * noise, rel=1e-12)
    assert residual[1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("ensemble", ENSEMBLES.values(), ids=ENSEMBLES)
def test_residuals_finally_decay_by_the_stability_factor(ensemble):
    found = static_solution(ensemble(3.0), 2 * MATCHED, 0.1)
    for rate, steps in ((1.0, 60), (0.5, 240), (0.2, 300)):
        residual = mean_field_residual(found, rate, steps)
        assert residual[-1] / residual[-2] == pytest.approx(1 - rate * (1 - found.stability), abs=2e-6)


def test_above_the_line_the_residual_does_not_vanish():
    found = static_solution(wishart_ensemble(3.0), 14.0, 0.1)
    assert found.stability > 1.15
    assert mean_field_residual(found, [1.0, 0.3], 300)[:, -1].min() > 1e-3


@pytest.mark.parametrize("beta", [1e-3, 1e4])
@pytest.mark.parametrize("alpha", [1.001, 20.0])
def test_extreme_students_give_finite_numbers(alpha, beta):
    found = static_solution(wishart_ensemble(alpha), beta, 0.0)
    assert np.isfinite(found[1:]).all()
    assert found.cavity_variance > 0
    assert found.cavity_field_overlap**2 <= found.cavity_field_variance * found.teacher_variance * (1 + 1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: static_solution(wishart_ensemble(3.0), 0.0, 0.1), r"inverse_temperature must be > 0, got 0"),
        (lambda: static_solution(wishart_ensemble(3.0), 1.0, 0.5), r"flip_probability must be >= 0 and < 0.5, got 0.5"),
        (
            lambda: static_solution(wishart_ensemble(3.0), 1.0, -0.1),
            r"flip_probability must be >= 0 and < 0.5, got -0.1",
        ),
        (lambda: row_orthogonal_ensemble(1.0), r"aspect_ratio must be > 1 .*got 1"),
        (lambda: wishart_ensemble(0.0), r"aspect_ratio must be > 0 .*got 0"),
        (lambda: ensemble_of_spectra([0.0, 0.0]), r"spectrum must have a positive trace, got 0"),
        (lambda: ensemble_of_spectra([1.0, 2.0], [0.0, 0.0]), r"teacher_spectrum must have a positive trace, got 0"),
        (lambda: ensemble_of_spectra([1.0, -2.0]), r"spectrum must be >= 0 .*got -2"),
        (lambda: ensemble_of_spectra([1.0, 2.0], [1.0]), r"teacher_spectrum must have shape \(2,\)"),
        (
            lambda: mean_field_residual(static_solution(wishart_ensemble(3.0), 1.0, 0.1), 0.0, 5),
            r"update_probability must be > 0",
        ),
        (
            lambda: mean_field_residual(static_solution(wishart_ensemble(3.0), 1.0, 0.1), 1.1, 5),
            r"update_probability must be .*<= 1",
        ),
        (lambda: static_solution("wishart", 1.0, 0.1), r"ensemble must be a CovarianceEnsemble.*'wishart'"),
        (lambda: static_solution([1, 2, 3], 1.0, 0.1), r"ensemble must be a CovarianceEnsemble.*\[1, 2, 3\]"),
        (
            lambda: static_solution(CovarianceEnsemble(np.ones(2), np.ones(2), np.array([2.0, -1.0])), 1.0, 0.1),
            r"ensemble.multiplicities must be >= 0 where an eigenvalue is not 0, got -1",
        ),
        (
            lambda: mean_field_residual(static_solution(wishart_ensemble(3.0), 1e4, 0.1), 1.0, 5),
            r"solution must be of a warmer student: inverse_temperature = 10000",
        ),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.slow
def test_labels_that_no_student_explains_have_no_solution():
    with pytest.raises(ConvergenceError, match=r"inverse_temperature = inf, flip_probability = 0.1"):
        static_solution(wishart_ensemble(12.0), math.inf, 0.1)


@pytest.mark.parametrize("ensemble", ["wishart", "row-orthogonal"])
@pytest.mark.parametrize("flip", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("alpha", [1e3, 1e5, 1e6])
def test_a_student_that_knows_the_model_and_has_very_many_labels_errs_as_one_over_their_number(ensemble, flip, alpha):
    found = static_solution(
        covariance_ensemble(ensemble, alpha), matched_inverse_temperature(flip) if flip else math.inf, flip
    )

    # only fields of the order sqrt(v) teach: 1/alpha = E h^2 = sqrt(v/2 pi) 2 int (1 - 2e)^2 phi^2/(e + (1 - 2e) Phi)
    def taught(u):
        return ((1 - 2 * flip) * math.exp(-u * u / 2)) ** 2 / (2 * math.pi) / (flip + (1 - 2 * flip) * norm.cdf(u))

    slope = 2 / math.sqrt(2 * math.pi) * quad(taught, -30, 12)[0]
    np.testing.assert_allclose(found.cavity_variance, (alpha * slope) ** -2, rtol=20 / alpha)
    # who knows the model has fields as correlated with the truth as with themselves
    np.testing.assert_allclose(found.cavity_field_variance, found.cavity_field_overlap, rtol=1e-12)
    np.testing.assert_allclose(found.cavity_field_variance + found.cavity_variance, 1, rtol=1e-12)
    np.testing.assert_allclose(found.posterior_square, found.posterior_overlap, rtol=1e-12)


def test_ensembles_with_very_many_labels_differ_by_their_inverse_number_also_for_a_student_who_is_too_sure():
    one, other = (static_solution(covariance_ensemble(name, 1e6), 4.0, 0.1) for name in ("wishart", "row-orthogonal"))
    np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ensemble: ensemble_of_spectra([[1, 2], [3]]), "spectrum must be numeric"),
        (
            lambda ensemble: static_solution(ensemble, 1.0, 0.1, nearby_solution=3),
            "nearby_solution must be a StaticSolution, .* got 3",
        ),
        (lambda ensemble: mean_field_residual((1, 2), 0.5, 3), "solution must be a StaticSolution"),
        (
            lambda ensemble: almeida_thouless_solutions("wishart", [3.0], (1.0,), 0.1),
            "aspect_ratio must have 0 dimension",
        ),
        (lambda ensemble: almeida_thouless_solutions(["wishart"], 3.0, (1.0,), 0.1), "ensemble must be one of"),
        (
            lambda ensemble: almeida_thouless_solutions("wishart", 3.0, 1.0, 0.1),
            "relative_inverse_temperature must have 1 dimension",
        ),
        (
            lambda ensemble: almeida_thouless_solutions("wishart", 3.0, ("a",), 0.1),
            "relative_inverse_temperature must be numeric",
        ),
        (
            lambda ensemble: almeida_thouless_solutions("wishart", 3.0, [-1.0], 0.1),
            "relative_inverse_temperature must be > 0, got -1",
        ),
    ],
)
def test_what_is_no_solution_spectrum_or_multiple_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message):
        call(wishart_ensemble(3.0))
