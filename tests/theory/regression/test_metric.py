import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from unlazy.checks import InputError
from unlazy.functions.spectra import harmful_example, misaligned_example, power_law
from unlazy.theory.regression.metric import (
    bayes_risk,
    best_kernel,
    degrees_of_freedom_criterion,
    degrees_of_freedom_criterion_infimum,
    frozen_label_noise_penalty,
    label_noise_penalty,
    mallows_cp,
    optimal_risk_bound,
)
from unlazy.theory.regression.ridge import ridge_equivalent, ridge_equivalent_matrices

ROWS, COLUMNS = np.arange(1, 7)[:, None], np.arange(1, 10)
DESIGN, TARGETS = np.sin(0.3 * ROWS * COLUMNS), np.cos(0.7 * ROWS * COLUMNS[:4])
METRIC, RIDGE, WEIGHT = 1.0 / COLUMNS, 0.1, 0.4


def drawn_kernel(rng, n, scale=1.0):
    factor = rng.standard_normal((n, rng.integers(1, 2 * n))) * 10.0 ** rng.uniform(-2, 2)
    return scale * factor @ factor.T


def hat_matrix(kernel, ridge):
    return kernel @ np.linalg.inv(kernel + len(kernel) * ridge * np.eye(len(kernel)))


def bayes_risk_of_matrices(covariance, prior, n, noise):
    """kappa and risk of ridge regression in the metric E b b^T at ridge s2/n."""
    n, noise = np.asarray(n), np.asarray(noise)
    found = ridge_equivalent_matrices(covariance, prior, n, noise / n, noise, metric=prior)
    return found.effective_ridge, found.risk


def central_difference(function, point, step=1e-5):
    slopes = np.empty(point.shape)
    for at in np.ndindex(point.shape):
        move = np.zeros(point.shape)
        move[at] = step
        slopes[at] = (function(point + move) - function(point - move)) / (2 * step)
    return slopes


def test_bayes_risk_and_bound_have_their_independently_computed_values():
    found = bayes_risk(power_law(1000, 3.0), 100, 0.25)
    np.testing.assert_allclose(found, (0.00272212565138, 0.0222125651380), rtol=1e-11)
    np.testing.assert_allclose(optimal_risk_bound(power_law(1000, 3.0), 100, 0.25), 0.0263492850976, rtol=1e-11)
    for exponent, bound in ((2.0, 0.0978), (3.0, 0.0263), (4.0, 0.0136)):
        np.testing.assert_allclose(optimal_risk_bound(power_law(1000, exponent), 100, 0.25), bound, atol=6e-5)


def test_bayes_risk_of_isotropic_data_has_its_closed_form():
    # at t = 1, with q = d/n and v = s2/n: kappa^2 - (q + v - 1) kappa = v
    n, d, noise = 50, 200, 0.5
    b = d / n + noise / n - 1
    kappa = (b + np.sqrt(b**2 + 4 * noise / n)) / 2
    found = bayes_risk(np.ones(d), n, noise)
    np.testing.assert_allclose(found, (kappa, n * kappa - noise), rtol=1e-12)


def test_bayes_risk_without_noise_is_the_limit_and_digits_do_not_cancel():
    signal = power_law(50, 2.0)
    for n in (20, 80):
        limit, tiny = bayes_risk(signal, n, 0.0), bayes_risk(signal, n, 1e-290)
        np.testing.assert_allclose(tiny, limit, rtol=1e-12, atol=1e-280)
    np.testing.assert_allclose(bayes_risk(signal, 20, 0.0).risk, 20 * bayes_risk(signal, 20, 0.0).effective_ridge)
    assert bayes_risk(signal, 80, 0.0) == (0, 0)
    # much noise: the risk is sum t, although n kappa - s2 has no digit of it left
    np.testing.assert_allclose(bayes_risk(signal, 20, 1e25).risk, signal.sum(), rtol=1e-14)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 1.0, 30.0])
def test_bayes_risk_lies_in_its_bracket(noise):
    rng = np.random.default_rng(0)
    for signal in (power_law(300, 0.4), power_law(300, 3.0), rng.exponential(size=80) ** 6):
        kappa, risk = bayes_risk(signal, [5, 40, 250], noise)
        upper = np.minimum(kappa[:, None], signal).sum(axis=1)
        assert (upper / 2 <= risk * (1 + 1e-12)).all()
        assert (risk <= upper * (1 + 1e-12)).all()


def test_no_ridge_and_no_metric_beats_bayes():
    rng = np.random.default_rng(1)
    d, n, noise = 30, 20, 0.3
    covariance, prior = (drawn_kernel(rng, d) for _ in range(2))
    _, least = bayes_risk_of_matrices(covariance, prior, n, noise)
    ridges = np.geomspace(1e-6, 1e4, 60)
    for attempt in range(20):
        near = prior + 10.0 ** -rng.integers(0, 3) * np.abs(prior).max() * drawn_kernel(rng, d, 1e-2)
        metric = (None, near, drawn_kernel(rng, d) + np.eye(d))[attempt % 3]
        other = ridge_equivalent_matrices(covariance, prior, n, ridges, noise, metric=metric).risk
        assert (other >= least * (1 - 1e-9)).all()
    twice = ridge_equivalent_matrices(covariance, prior, n, noise / n * np.array([0.5, 2.0]), noise, metric=prior)
    assert (twice.risk > least * (1 + 1e-6)).all()


def test_bayes_risk_of_matrices_needs_only_the_signal_spectrum():
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    spectrum, prior = power_law(40, 1.0), np.where(np.arange(40) < 25, power_law(40, 0.5), 0.0)
    matrices = ((basis * diagonal) @ basis.T for diagonal in (spectrum, prior))
    found = bayes_risk_of_matrices(*matrices, [[10], [60]], [0.1, 1.0])
    np.testing.assert_allclose(found, bayes_risk(spectrum * prior, [[10], [60]], [0.1, 1.0]), rtol=1e-9)
    covariance, prior = drawn_kernel(rng, 12), drawn_kernel(rng, 12)
    signal = np.linalg.eigvals(covariance @ prior).real.clip(0)
    np.testing.assert_allclose(bayes_risk_of_matrices(covariance, prior, 8, 0.2), bayes_risk(signal, 8, 0.2), rtol=1e-7)


def test_bayes_risk_is_the_average_risk_of_the_posterior_mean():
    d, n, noise, draws = 120, 60, 0.5, 30
    spectrum, prior = power_law(d, 1.0), power_law(d, 1.0)
    risks = []
    for seed in range(draws):
        X = np.random.default_rng(seed).standard_normal((n, d)) * np.sqrt(spectrum)
        posterior = np.diag(prior) - (prior[:, None] * X.T) @ np.linalg.solve(
            (X * prior) @ X.T + noise * np.eye(n), X * prior
        )
        risks.append(spectrum @ np.diagonal(posterior))
    allowed = 4 * np.std(risks, ddof=1) / np.sqrt(draws) + np.mean(risks) / n
    predicted = bayes_risk(spectrum * prior, n, noise).risk
    assert abs(np.mean(risks) - predicted) <= allowed
    assert abs(np.mean(risks) - 1.2 * predicted) > allowed


def test_examples_have_their_independently_computed_risks():
    for n, ridgeless, bayes, digits in (
        (10, 1.0413640855, 0.24388988239, 1e-10),
        (20, 1.1082959966, 0.15282952371, 1e-10),
        (80, 1.1759, 0.06120, 6e-5),
        (320, 1.1953, 0.02467, 6e-5),
        (1280, 1.2004, 0.00993, 6e-5),
    ):
        example = harmful_example(n)
        copies = {"multiplicities": example.multiplicities}
        found = ridge_equivalent(example.spectrum, example.prior, n, 0.0, 1.0, **copies)
        np.testing.assert_allclose(found.risk, ridgeless, atol=digits)
        np.testing.assert_allclose(
            bayes_risk(example.spectrum * example.prior, n, 1.0, **copies).risk, bayes, atol=digits
        )
    for n, bayes, digits in (
        (20, 0.4492646479, 1e-10),
        (80, 0.19929, 6e-6),
        (320, 0.09350, 6e-6),
        (640, 0.06490, 6e-6),
    ):
        example = misaligned_example(n)
        found = bayes_risk(example.spectrum * example.prior, n, 1.0, multiplicities=example.multiplicities)
        np.testing.assert_allclose(found.risk, bayes, atol=digits)


def best_and_ridgeless_risk_of_misaligned_directions(n):
    """By minimisation over kappa, with every direction written out."""
    j = np.arange(1.0, n**2 + 1)
    spectrum, signal = 1 / j, np.where(j == n, 1.0, j**-2)

    def risk(kappa):
        share = np.sum((spectrum / (spectrum + kappa)) ** 2) / n
        return (kappa**2 * np.sum(signal / (spectrum + kappa) ** 2) + share) / (1 - share)

    least = brentq(lambda kappa: n - np.sum(spectrum / (spectrum + kappa)), 1e-9, 10, xtol=1e-16)
    best = minimize_scalar(risk, bounds=(least, 20 * least), method="bounded", options={"xatol": 1e-9})
    return best.fun, risk(least)


@pytest.mark.parametrize(("n", "separately"), [(20, 1.3166), (80, 1.1391), (320, 1.0570), (640, 1.0362)])
def test_best_ridge_of_the_misaligned_example_agrees_with_minimisation_over_all_directions(n, separately):
    spectrum, prior, copies = misaligned_example(n)
    ridges = np.append(0, np.geomspace(1e-3, 1, 400))
    found = ridge_equivalent(spectrum, prior, n, ridges, 1.0, multiplicities=copies).risk
    best, ridgeless = best_and_ridgeless_risk_of_misaligned_directions(n)
    np.testing.assert_allclose(found[0], ridgeless, rtol=1e-10)
    np.testing.assert_allclose(found.min(), best, rtol=1e-5)
    assert found.min() >= best * (1 - 1e-10)
    np.testing.assert_allclose(best, separately, atol=6e-5)
    if n == 20:
        np.testing.assert_allclose(found[0], 1.3266939352, atol=1e-10)


def test_the_bound_has_the_rates_of_the_examples():
    # t = j^-3: n^(1/3) directions at s2/n, and the tail 1/2 n^(-2/3)
    n = 1e9
    example = harmful_example(2000)
    found = optimal_risk_bound(power_law(100_000, 3.0), n, 1.0)
    np.testing.assert_allclose(found, 1.5 * n ** (-2 / 3), rtol=1e-3)
    n = 2000
    found = optimal_risk_bound(example.spectrum * example.prior, n, 1.0, multiplicities=example.multiplicities)
    np.testing.assert_allclose(found, 1.5 * n ** (-2 / 3), rtol=0.05)
    n = 10_000
    example = misaligned_example(n)
    found = optimal_risk_bound(example.spectrum * example.prior, n, 1.0, multiplicities=example.multiplicities)
    np.testing.assert_allclose(found, 2 * n**-0.5, rtol=0.02)


def test_the_bound_is_the_plain_sum_of_minima():
    rng = np.random.default_rng(4)
    signal, copies = rng.exponential(size=30) ** 4, rng.integers(0, 4, 30)
    signal[:3] = 0.125
    n, noise = np.array([[8.0], [100.0]]), np.array([0.0, 1.0, 50.0])
    plain = np.minimum((noise / n)[..., None], np.repeat(signal, copies)).sum(axis=-1)
    np.testing.assert_allclose(optimal_risk_bound(signal, n, noise, multiplicities=copies), plain, rtol=1e-13)
    assert np.shape(optimal_risk_bound(signal, 5, 1.0)) == ()


def test_criterion_has_its_independently_computed_values():
    found = degrees_of_freedom_criterion((DESIGN * METRIC) @ DESIGN.T, TARGETS, RIDGE, WEIGHT)
    np.testing.assert_allclose(found.criterion, 0.41299847950246, rtol=1e-12)
    np.testing.assert_allclose(found.degrees_of_freedom, 3.8813021186310, rtol=1e-12)
    np.testing.assert_allclose(degrees_of_freedom_criterion_infimum(TARGETS, WEIGHT), 0.21363718997429, rtol=1e-12)


def test_data_fit_is_the_minimum_of_the_ridge_objective():
    n = len(DESIGN)
    features = DESIGN * np.sqrt(METRIC)
    coefficients = np.linalg.solve(features.T @ features + n * RIDGE * np.eye(9), features.T @ TARGETS)
    objective = np.mean((TARGETS - features @ coefficients) ** 2) + RIDGE * np.mean(np.sum(coefficients**2, axis=0))
    found = degrees_of_freedom_criterion(features @ features.T, TARGETS, RIDGE, [[0.0], [WEIGHT]])
    np.testing.assert_allclose(found.data_fit, [[objective]] * 2, rtol=1e-12)
    np.testing.assert_allclose(found.criterion[0], objective, rtol=1e-12)
    hat = hat_matrix(features @ features.T, RIDGE)
    np.testing.assert_allclose(found.criterion[1], objective + WEIGHT / n * np.trace(hat), rtol=1e-12)
    assert [np.shape(field) for field in degrees_of_freedom_criterion(np.eye(6), TARGETS[:, 0], RIDGE, WEIGHT)] == [
        ()
    ] * 3


def test_criterion_depends_on_the_metric_over_the_ridge_only():
    kernel = (DESIGN * METRIC) @ DESIGN.T
    first, second = (
        degrees_of_freedom_criterion(kernel, TARGETS, RIDGE, WEIGHT),
        degrees_of_freedom_criterion(1e6 * kernel, TARGETS, 1e6 * RIDGE, WEIGHT),
    )
    np.testing.assert_allclose(second, first, rtol=1e-12)


def test_singular_kernels_keep_their_rank_under_tiny_ridges():
    direction = np.linspace(1, 2, 6)[:, None]
    found = degrees_of_freedom_criterion(direction @ direction.T, TARGETS, [1e-30, 1e-300], WEIGHT)
    np.testing.assert_allclose(found.degrees_of_freedom, 1, rtol=1e-12)
    unit = direction / np.linalg.norm(direction)
    outside = TARGETS - unit @ (unit.T @ TARGETS)
    np.testing.assert_allclose(found.data_fit, np.mean(outside**2), rtol=1e-12)


@pytest.mark.parametrize("tasks", [1, 4, 30])
def test_no_kernel_goes_below_the_infimum_and_bang_bang_kernels_reach_it(tasks):
    rng = np.random.default_rng(6)
    n = 8
    targets = rng.standard_normal((n, tasks)) * rng.uniform(0.2, 2, (n, 1))
    infimum = degrees_of_freedom_criterion_infimum(targets, WEIGHT)
    variances, vectors = np.linalg.eigh(targets @ targets.T / tasks)
    for _ in range(200):
        shared = (vectors * rng.exponential(size=n) ** 8) @ vectors.T
        for kernel in (drawn_kernel(rng, n), shared):
            assert degrees_of_freedom_criterion(kernel, targets, RIDGE, WEIGHT).criterion >= infimum * (1 - 1e-12)
    kept = vectors * (variances > WEIGHT)
    gaps = [
        degrees_of_freedom_criterion(scale * kept @ kept.T, targets, RIDGE, WEIGHT).criterion - infimum
        for scale in (1e3, 1e6, 1e9)
    ]
    assert 0 < gaps[2] < gaps[1] < gaps[0]
    assert gaps[2] < 1e-7


def test_infimum_of_the_criterion_follows_the_optimal_risk_bound_for_many_tasks():
    rng = np.random.default_rng(7)
    n, d, tasks, noise = 60, 600, 1200, 0.25
    spectrum, prior = power_law(d, 1.0), power_law(d, 2.0)
    X = rng.standard_normal((n, d)) * np.sqrt(spectrum)
    signal = X @ (np.sqrt(prior)[:, None] * rng.standard_normal((d, tasks)))
    targets = signal + np.sqrt(noise) * rng.standard_normal((n, tasks))
    ratio = (degrees_of_freedom_criterion_infimum(targets, 2 * noise) - noise) / optimal_risk_bound(
        spectrum * prior, n, noise
    )
    assert 0.7 <= ratio <= 1.05


def balanced_targets(signal, noise):
    """Targets f +- sqrt(n s2) e_i: averages of quadratics over these 2 n are expectations over y = f + noise."""
    n = len(signal)
    steps = np.sqrt(n * noise) * np.eye(n)
    return np.concatenate([signal[:, None] + steps, signal[:, None] - steps], axis=1)


def test_criterion_bounds_the_in_sample_risk_in_expectation():
    rng = np.random.default_rng(8)
    n, noise = 7, 0.3
    for _ in range(30):
        kernel, signal = drawn_kernel(rng, n), rng.standard_normal(n)
        hat = hat_matrix(kernel, RIDGE)
        residual = np.eye(n) - hat
        risk = (signal @ residual @ residual @ signal + noise * np.trace(hat @ hat)) / n
        targets = balanced_targets(signal, noise)
        bound = degrees_of_freedom_criterion(kernel, targets, RIDGE, 2 * noise).criterion - noise
        stated = (signal @ residual @ signal + noise * np.trace(hat)) / n
        np.testing.assert_allclose(bound, stated, rtol=1e-8, atol=1e-12)
        assert bound >= risk - 1e-12
        np.testing.assert_allclose(mallows_cp(kernel, targets, RIDGE, noise), risk, rtol=1e-8, atol=1e-12)
    projection = np.linalg.qr(rng.standard_normal((n, 3)))[0]
    risk = (np.sum((signal - projection @ (projection.T @ signal)) ** 2) + 3 * noise) / n
    kernel = 1e12 * projection @ projection.T
    bound = degrees_of_freedom_criterion(kernel, balanced_targets(signal, noise), RIDGE, 2 * noise).criterion - noise
    np.testing.assert_allclose(bound, risk, rtol=1e-10)


def test_mallows_cp_is_minimal_at_the_best_kernel():
    rng = np.random.default_rng(9)
    n, noise = 6, 0.5
    targets = rng.standard_normal((n, 20)) * np.linspace(0.3, 2, n)[:, None]
    kernel = best_kernel(targets, n * RIDGE, noise)
    covariance = targets @ targets.T / 20
    variances = np.linalg.eigvalsh(covariance)
    assert (variances < noise).any()
    lowest = mallows_cp(kernel, targets, RIDGE, noise)
    # per eigenvector of T the least of (1 - h)^2 s + 2 s2 h over h in [0, 1] is at h = (1 - s2/s)_+
    kept = variances > noise
    least = np.sum(np.where(kept, 2 * noise - noise**2 / variances, variances)) / n - noise
    np.testing.assert_allclose(lowest, least, rtol=1e-12)
    for _ in range(200):
        other = (1 - (weight := rng.uniform(0, 0.3))) * kernel + weight * drawn_kernel(rng, n)
        assert mallows_cp(other, targets, RIDGE, noise) >= lowest - 1e-13


def test_best_kernel_tends_to_the_kernel_of_the_bayes_metric():
    rng = np.random.default_rng(10)
    n, noise = 5, 0.4
    signal = drawn_kernel(rng, n) + np.eye(n)
    # targets whose T is exactly signal + s2 I
    targets = np.linalg.cholesky(signal + noise * np.eye(n)) * np.sqrt(n)
    np.testing.assert_allclose(best_kernel(targets, 3.0, noise), 3.0 / noise * signal, rtol=1e-9, atol=1e-9)


def test_label_noise_adds_the_penalty_exactly():
    # neurons h_k, second layer fitted to y + eps, judged on y; second moments by eps = +-sqrt(n v) e_i
    rng = np.random.default_rng(11)
    n, neurons, ridge, noise = 6, 9, 0.05, 0.7
    hidden, clean = np.tanh(rng.standard_normal((n, neurons))), rng.standard_normal(n)
    kernel = hidden @ hidden.T / neurons

    def fitted(h, labels):
        return h.T @ np.linalg.solve(h @ h.T / neurons + n * ridge * np.eye(n), labels)

    def objective(h, second):
        return np.mean((clean - h @ second / neurons) ** 2) + ridge * np.mean(second**2)

    labels = balanced_targets(clean, noise).T
    average = np.mean([objective(hidden, fitted(hidden, y)) for y in labels])
    penalty = label_noise_penalty(kernel, ridge, noise)
    np.testing.assert_allclose(average - objective(hidden, fitted(hidden, clean)), penalty, rtol=1e-10)

    def noise_part(loss):
        return np.mean([loss(y) for y in labels], axis=0) - loss(clean)

    through = noise_part(lambda y: central_difference(lambda h: objective(h, fitted(h, y)), hidden))
    frozen = noise_part(lambda y: central_difference(lambda h: objective(h, fitted(hidden, y)), hidden))
    slopes = [
        central_difference(lambda h, p=p: p(h @ h.T / neurons, ridge, noise), hidden)
        for p in (label_noise_penalty, frozen_label_noise_penalty)
    ]
    np.testing.assert_allclose(through, slopes[0], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(frozen, slopes[1], rtol=1e-5, atol=1e-8)
    assert np.linalg.norm(frozen - slopes[0]) > 0.2 * np.linalg.norm(slopes[0])
    # the gradients in K that the docstrings state
    inverse = np.linalg.inv(kernel + n * ridge * np.eye(n))
    stated = (noise * ridge * inverse @ inverse, noise / n * inverse @ kernel @ inverse)
    for slope, gradient in zip(slopes, stated, strict=True):
        np.testing.assert_allclose(slope, 2 / neurons * gradient @ hidden, rtol=1e-5, atol=1e-8)


def test_penalties_agree_with_determinant_and_trace_and_keep_digits_for_weak_kernels():
    kernel = (DESIGN * METRIC) @ DESIGN.T
    hat = hat_matrix(kernel, RIDGE)
    found = label_noise_penalty(kernel, RIDGE, [0.5, 1.0]), frozen_label_noise_penalty(kernel, RIDGE, [0.5, 1.0])
    log_determinant = np.linalg.slogdet(np.eye(6) + kernel / (6 * RIDGE))[1]
    np.testing.assert_allclose(found[0], np.trace(hat) / 6 * np.array([0.5, 1.0]), rtol=1e-12)
    np.testing.assert_allclose(found[1], (log_determinant - np.trace(hat)) / 6 * np.array([0.5, 1.0]), rtol=1e-12)
    # log(1 + x) - x/(1 + x) = x^2/2 - 2 x^3/3 + ...
    np.testing.assert_allclose(frozen_label_noise_penalty(np.eye(4), 0.25e12, 1.0), 0.5e-24, rtol=1e-11)
    x = np.array([0.04, 0.0526, 0.0527, 0.06])
    expected = np.log1p(x) - x / (1 + x)
    np.testing.assert_allclose(frozen_label_noise_penalty(np.eye(4), 0.25 / x, 1.0), expected, rtol=1e-12)
    extreme = frozen_label_noise_penalty(1e200 * np.eye(2), 0.5e-200, 1.0)
    np.testing.assert_allclose(extreme, 400 * np.log(10) - 1, rtol=1e-13)


KERNEL_CALLS = {
    "degrees_of_freedom_criterion": lambda **c: degrees_of_freedom_criterion(
        **{"kernel_matrix": np.eye(6), "targets": TARGETS, "ridge": 1, "degrees_of_freedom_weight": 1} | c
    ),
    "mallows_cp": lambda **c: mallows_cp(
        **{"kernel_matrix": np.eye(6), "targets": TARGETS, "ridge": 1, "noise_variance": 1} | c
    ),
    "penalty": lambda **c: label_noise_penalty(
        **{"kernel_matrix": np.eye(6), "ridge": 1, "label_noise_variance": 1} | c
    ),
    "frozen": lambda **c: frozen_label_noise_penalty(
        **{"kernel_matrix": np.eye(6), "ridge": 1, "label_noise_variance": 1} | c
    ),
}


@pytest.mark.parametrize("call", KERNEL_CALLS.values(), ids=KERNEL_CALLS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0}, "ridge must be > 0 and <= 1e\\+280, got 0"),
        ({"ridge": -1}, "ridge must be > 0 and <= 1e\\+280, got -1"),
        ({"kernel_matrix": np.ones((6, 5))}, r"kernel_matrix must be a square matrix, got shape \(6, 5\)"),
        ({"kernel_matrix": np.ones(6)}, r"kernel_matrix must have 2 dimension\(s\)"),
        ({"kernel_matrix": np.triu(np.ones((6, 6)))}, "kernel_matrix must be symmetric, got differences up to 1"),
        ({"kernel_matrix": -np.eye(6)}, "kernel_matrix must be positive semi-definite, got the eigenvalue -1"),
        ({"kernel_matrix": np.full((6, 6), np.nan)}, "kernel_matrix must be finite"),
    ],
)
def test_wrong_kernels_are_named(call, change, message):
    with pytest.raises(InputError, match=message):
        call(**change)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bayes_risk([1.0, -1.0], 5, 0.1), "signal_spectrum must be >= 0 and <= 1e\\+280, got -1"),
        (lambda: bayes_risk([[1.0]], 5, 0.1), r"signal_spectrum must have 1 dimension\(s\)"),
        (lambda: bayes_risk([1.0], 0, 0.1), "n must be > 0, got 0"),
        (lambda: bayes_risk([1.0], 5, -0.1), "noise_variance must be >= 0 and <= 1e\\+280, got -0.1"),
        (lambda: bayes_risk([1.0], [5, 6], [1, 2, 3]), "n has 2 values and noise_variance 3"),
        (lambda: bayes_risk([1.0], 5, 0.1, multiplicities=[1, 2]), "multiplicities must be a number or have shape"),
        (lambda: optimal_risk_bound([1.0, np.nan], 5, 0.1), "signal_spectrum must be finite"),
        (lambda: optimal_risk_bound([1.0], 5, 0.1, multiplicities=[1, 2]), "multiplicities must be a number or have"),
        (
            lambda: degrees_of_freedom_criterion(np.eye(6), TARGETS[:5], 1, 1),
            r"targets must have shape \(6,\) or \(6, tasks\), got",
        ),
        (
            lambda: degrees_of_freedom_criterion(np.eye(6), 1.0, 1, 1),
            r"targets must have shape \(6,\) or \(6, tasks\), got shape \(\)",
        ),
        (
            lambda: degrees_of_freedom_criterion(np.eye(6), TARGETS, 1, -1),
            "degrees_of_freedom_weight must be >= 0, got -1",
        ),
        (
            lambda: degrees_of_freedom_criterion(np.eye(6), TARGETS, [1, 2], [1, 2, 3]),
            "ridge has 2 values and degrees_of_freedom_weight 3",
        ),
        (
            lambda: degrees_of_freedom_criterion_infimum(np.ones((2, 2, 2)), 1),
            r"targets must have shape \(2,\) or \(2, tasks\)",
        ),
        (
            lambda: degrees_of_freedom_criterion_infimum(3.0, 1),
            r"targets must have shape \(n,\) or \(n, tasks\), got shape \(\)",
        ),
        (lambda: best_kernel(TARGETS, 1.0, 0.0), "noise_variance must be > 0, got 0"),
        (lambda: best_kernel(TARGETS, 0.0, 1.0), "penalty must be > 0"),
        (lambda: mallows_cp(np.eye(6), TARGETS, 1.0, np.inf), "noise_variance must be finite"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
