import tracemalloc

import numpy as np
import pytest
from scipy.optimize import brentq

from unlazy.checks import InputError
from unlazy.functions.spectra import power_law, two_level
from unlazy.numerics import spectral_sums
from unlazy.numerics.compress import compress
from unlazy.numerics.ridge import conditional_risk, decompose
from unlazy.theory.regression.ridge import (
    RidgeEquivalent,
    ridge_curve_by_effective_ridge,
    ridge_equivalent,
    ridge_equivalent_matrices,
)


def assert_same(first, second, **tolerances):
    for name, a, b in zip(RidgeEquivalent._fields, first, second, strict=True):
        np.testing.assert_allclose(a, b, err_msg=name, **tolerances)


@pytest.mark.parametrize("ridge", [1e-8, 0.3, 20.0])
@pytest.mark.parametrize("d", [5, 49, 50, 51, 200, 5000])
def test_isotropic_ridge_has_its_closed_form(d, ridge):
    n, noise = 50, 0.5
    b = d / n + ridge - 1
    root = np.sqrt(b**2 + 4 * ridge)
    kappa = (b + root) / 2 if b > 0 else 2 * ridge / (root - b)
    g = d / n / (1 + kappa) ** 2
    found = ridge_equivalent(np.ones(d), 1 / d, n, ridge, noise)
    np.testing.assert_allclose(found.effective_ridge, kappa, rtol=1e-11)
    np.testing.assert_allclose(found.bias, kappa**2 / (1 + kappa) ** 2 / (1 - g), rtol=1e-11)
    np.testing.assert_allclose(found.variance, noise * g / (1 - g), rtol=1e-11)


def test_isotropic_ridgeless_risk_has_its_closed_form_on_both_sides_of_the_peak():
    d, noise = 200, 0.5
    over = ridge_equivalent(np.ones(d), 1 / d, 50, 0, noise)
    np.testing.assert_allclose((over.effective_ridge, over.bias, over.variance), (3, 3 / 4, 1 / 6), rtol=1e-14)
    under = ridge_equivalent(np.ones(d), 1 / d, 800, 0, noise)
    np.testing.assert_allclose((under.effective_ridge, under.bias), 0)
    np.testing.assert_allclose(under.variance, noise * 200 / 600, rtol=1e-14)
    np.testing.assert_allclose(under.training_error, noise * 600 / 800, rtol=1e-14)


def test_equivalent_agrees_with_independently_computed_values():
    found = ridge_equivalent(np.ones(200), 1 / 200, 50, 0.3, 0.5)
    np.testing.assert_allclose(found[0], 3.38853386507, rtol=1e-11)
    np.testing.assert_allclose((found.bias, found.variance), (0.752473233731, 0.13106821691), rtol=1e-11)
    found = ridge_equivalent(power_law(400, 1.0), power_law(400, 0.5), 100, [0.01, 0.0], 0.3)
    np.testing.assert_allclose(found.effective_ridge, [0.0375678997129, 0.0231963151059], rtol=1e-11)
    np.testing.assert_allclose(found.degrees_of_freedom[0], 73.3815303053, rtol=1e-11)
    np.testing.assert_allclose(found.variance_degrees_of_freedom[0], 24.4658391356, rtol=1e-11)
    np.testing.assert_allclose(found.bias, [0.275914169007, 0.236669702718], rtol=1e-11)
    np.testing.assert_allclose(found.variance, [0.0971712885491, 0.187208190113], rtol=1e-11)
    np.testing.assert_allclose(found.training_error, [0.0476909941488, 0.0], rtol=1e-11)


def test_ridgeless_power_law_overfits_with_the_tempered_constant():
    a, n, d = 2.0, 200, 400_000
    found = ridge_equivalent(power_law(d, a), 1.0, n, 0.0, 1.0)
    np.testing.assert_allclose(found.variance, 0.99541800018, rtol=1e-10)
    np.testing.assert_allclose(found.variance, a - 1, rtol=0.01)
    np.testing.assert_allclose(found.effective_ridge, (np.pi / a / np.sin(np.pi / a) / n) ** a, rtol=0.02)


@pytest.mark.parametrize("ridge", [0.0, 1e-7, 1e-3, 2.0])
@pytest.mark.parametrize("n", [3.5, 60.0, 299.0, 300.0, 2000.0])
def test_effective_ridge_agrees_with_brent_on_the_plain_equation(n, ridge):
    spectrum = power_law(300, 1.4)
    found = ridge_equivalent(spectrum, 1.0, n, ridge, 0.1)
    if ridge == 0 and n >= 300:
        assert found.effective_ridge == 0
        return

    def plain(log_kappa):
        kappa = np.exp(log_kappa)
        return n - np.sum(spectrum / (spectrum + kappa)) - n * ridge / kappa

    root = np.exp(brentq(plain, -40, 20, xtol=1e-15, rtol=1e-14))
    np.testing.assert_allclose(found.effective_ridge, root, rtol=1e-9)


@pytest.mark.parametrize("gap", [1e-12, 1e-9, 1e-3])
def test_digits_survive_just_below_the_interpolation_threshold(gap):
    n = 20 * (1 - gap)
    found = ridge_equivalent(np.ones(20), 1.0, n, 0.0, 0.1)
    np.testing.assert_allclose(found.effective_ridge, (20 - n) / n, rtol=1e-14)
    np.testing.assert_allclose(found.variance, 0.1 * n / (20 - n), rtol=1e-12)


def test_bayes_ridge_has_the_lowest_risk_and_its_closed_form():
    spectrum, n, noise = power_law(300, 1.2), 100, 0.4
    ridges = noise / n * np.array([1.0, 0.5, 0.9, 1.1, 2.0])
    found = ridge_equivalent(spectrum, 1.0, n, ridges, noise)
    assert np.argmin(found.risk) == 0
    np.testing.assert_allclose(found.risk[0], n * found.effective_ridge[0] - noise, rtol=1e-12)


def test_finite_designs_agree_with_the_equivalent():
    d, n, noise, seeds = 400, 200, 0.3, 12
    spectrum, prior, ridges = power_law(d, 1.0), power_law(d, 0.5), [0.0, 0.003, 0.1]
    simulated = []
    for seed in range(seeds):
        X = np.random.default_rng(seed).standard_normal((n, d)) * np.sqrt(spectrum)
        simulated.append(conditional_risk(decompose(X), spectrum, prior, noise, ridges))
    theory = ridge_equivalent(spectrum, prior, n, ridges, noise)
    for name in ("risk", "bias", "variance", "training_error", "degrees_of_freedom", "gcv"):
        samples = np.array([getattr(one, name) for one in simulated])
        mean, allowed = samples.mean(axis=0), 4 * samples.std(axis=0, ddof=1) / np.sqrt(seeds) + 1e-12
        prediction = getattr(theory, name)
        # the equivalent is a limit: it may miss the mean at size n by a relative 1/n
        allowed = allowed + np.abs(prediction) / n
        assert (np.abs(mean - prediction) <= allowed).all(), name
        assert (np.abs(mean - 1.2 * prediction) > allowed)[1:].all(), name


def test_risk_at_the_interpolation_threshold_is_infinite_with_noise_and_zero_without():
    spectrum, prior = power_law(50, 1.0), power_law(50, 0.3)
    noisy, clean = (ridge_equivalent(spectrum, prior, 50, 0.0, noise) for noise in (0.1, 0.0))
    assert noisy.risk == noisy.variance == noisy.gcv == np.inf
    assert noisy.bias == noisy.training_error == 0
    assert clean.risk == clean.gcv == clean.training_error == 0
    assert noisy.degrees_of_freedom == noisy.variance_degrees_of_freedom == 50


def test_values_at_the_threshold_are_the_limits_from_all_sides():
    # with T = sum 1/l: kappa -> sqrt(n ridge/T), bias -> kappa n sum(p/l)/(2T), variance -> s2 n/(2 kappa T)
    spectrum, prior, n = power_law(50, 1.0), power_law(50, 0.3), 50
    total = np.sum(1 / spectrum)
    ridge = np.array([1e-16, 1e-20, 1e-24, 1e-300])
    near = ridge_equivalent(spectrum, prior, n, ridge, 0.1)
    kappa = np.sqrt(n * ridge / total)
    np.testing.assert_allclose(near.effective_ridge, kappa, rtol=1e-4)
    np.testing.assert_allclose(near.bias, kappa * n * np.sum(prior / spectrum) / (2 * total), rtol=1e-4)
    np.testing.assert_allclose(near.variance, 0.1 * n / (2 * kappa * total), rtol=1e-4)
    np.testing.assert_allclose(near.training_error, 0.05 * ridge / kappa, rtol=1e-4)
    sides = ridge_equivalent(spectrum, prior, n + np.array([-1e-9, 1e-9]), 0.0, [[0.0], [0.1]])
    assert (sides.risk[0] < 1e-8).all()
    assert (sides.risk[1] > 1e8).all()


@pytest.mark.parametrize("n", [20, 80])
def test_tiny_ridges_reach_the_ridgeless_limit_and_huge_ones_the_zero_predictor(n):
    spectrum, prior = power_law(50, 1.0), power_law(50, 0.3)
    limit, tiny, huge = (ridge_equivalent(spectrum, prior, n, r, 0.1) for r in (0.0, 1e-300, 1e300))
    assert_same(tiny, limit, rtol=1e-13, atol=1e-290)
    np.testing.assert_allclose(huge.risk, spectrum @ prior, rtol=1e-14)
    np.testing.assert_allclose(huge.training_error, spectrum @ prior + 0.1, rtol=1e-14)
    np.testing.assert_allclose(huge.effective_ridge, 1e300, rtol=1e-14)
    np.testing.assert_allclose(huge.degrees_of_freedom, np.sum(spectrum / 1e300), rtol=1e-13)


def test_scaling_the_inputs_scales_the_outputs():
    spectrum, prior = power_law(50, 1.0), power_law(50, 0.3)
    base = ridge_equivalent(spectrum, prior, 30, 0.01, 0.1)
    for scale in (1e-200, 1e200):
        scaled = ridge_equivalent(scale * spectrum, prior / scale, 30, scale * 0.01, 0.1)
        np.testing.assert_allclose(scaled.effective_ridge, scale * base.effective_ridge, rtol=1e-13)
        assert_same((0, *scaled[1:]), (0, *base[1:]), rtol=1e-12)


def test_zero_eigenvalues_carry_no_risk_whatever_their_prior():
    spectrum, prior = power_law(40, 1.0), power_law(40, 0.3)
    padded = np.append(spectrum, np.zeros(60)), np.append(prior, np.full(60, 1e6))
    n, ridge = [[10], [40], [50]], [0.0, 0.02]
    assert_same(ridge_equivalent(*padded, n, ridge, 0.1), ridge_equivalent(spectrum, prior, n, ridge, 0.1))
    nothing = ridge_equivalent(np.zeros(3), 1.0, 5, [0.0, 0.7], 0.1)
    np.testing.assert_array_equal(nothing.risk, 0)
    np.testing.assert_allclose(nothing.effective_ridge, [0, 0.7], rtol=1e-15)
    np.testing.assert_allclose(nothing.training_error, 0.1)


def test_multiplicities_are_repetitions():
    repeated = two_level(90, 20, 5.0, 0.2)
    grouped = ridge_equivalent([5.0, 0.2], [1.0, 3.0], [[30], [120]], [0.0, 0.1], 0.1, multiplicities=[20, 70])
    assert_same(grouped, ridge_equivalent(repeated, two_level(90, 20, 1.0, 3.0), [[30], [120]], [0.0, 0.1], 0.1))
    n = 1000
    cubic = ridge_equivalent([1.0], 1e-9, n, 0.0, 0.1, multiplicities=[n**3])
    np.testing.assert_allclose(cubic.effective_ridge, n**2 - 1, rtol=1e-12)
    np.testing.assert_allclose(cubic.variance, 0.1 / (n**2 - 1), rtol=1e-12)


def test_large_spectra_are_processed_in_bounded_memory():
    spectrum = power_law(100_000, 1.5)
    n, ridge = np.geomspace(10, 1e4, 10)[:, None], np.geomspace(1e-6, 1, 6)
    tracemalloc.start()
    found = ridge_equivalent(spectrum, 1.0, n, ridge, 0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6
    one = ridge_equivalent(spectrum, 1.0, n[7, 0], ridge[3], 0.1)
    np.testing.assert_allclose(found.risk[7, 3], one.risk, rtol=1e-12)
    used = found.degrees_of_freedom + n * ridge / found.effective_ridge
    np.testing.assert_allclose(used, np.broadcast_to(n, used.shape), rtol=1e-12)


def large_spectra():
    rng = np.random.default_rng(11)
    size = 4000
    return {
        "power law": (power_law(size, 1.4), power_law(size, 0.7)),
        "slow": (power_law(size, 0.3), 1.0),
        "uniform": (rng.random(size), rng.random(size) ** 300),
        "log-normal": (np.exp(3 * rng.standard_normal(size)), rng.random(size)),
        "two clusters": (rng.choice([1e-9, 1.0], size) * (1 + 0.2 * rng.random(size)), 1.0),
        "huge range": (10 ** rng.uniform(-30, 30, 3 * size), 10 ** rng.uniform(-40, 40, 3 * size)),
        "isotropic": (np.ones(size), 1.0),
        "with zeros": (np.maximum(rng.random(size) - 0.3, 0), rng.random(size)),
        "top of the range": (1e293 * (1 + 100 * rng.random(size)), 1e-293),
        "bottom of the range": (1e-303 * (1 + 100 * rng.random(size)), 1e300),
    }


@pytest.mark.parametrize("kind", list(large_spectra()))
def test_compressed_spectra_give_what_the_eigenvalues_give(kind, monkeypatch):
    spectrum, prior = large_spectra()[kind]
    rank = np.count_nonzero(spectrum)
    scale = np.median(spectrum[spectrum > 0])
    n = rank * np.array([1e-3, 0.1003, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 3.0])[:, None]
    ridge = np.minimum(scale, 1e269) * np.array([0, 1e-30, 1e-12, 1e-6, 1e-2, 1, 1e2, 1e30])
    calls = []
    monkeypatch.setattr(spectral_sums, "compress", lambda *a: calls.append(1) or compress(*a))
    found = ridge_equivalent(spectrum, prior, n, ridge, 0.1)
    least = ridge_equivalent(spectrum, prior, n, 0.0, 0.1).effective_ridge
    # away from the kappa of ridge 0, where ridge(kappa) is a difference of equal numbers
    kappa = least.max() * np.linspace(1.5, 3, 90)[:, None] + min(scale, 1e290) * np.array([1e-6, 1, 1e6])
    curve = ridge_curve_by_effective_ridge(spectrum, prior, n[0, 0], kappa, 0.1)
    assert len(calls) == 2
    monkeypatch.setattr(spectral_sums, "_LEAST_GAIN", np.inf)
    plain = ridge_equivalent(spectrum, prior, n, ridge, 0.1)
    assert_same(found, plain, rtol=1e-11)
    plain_curve = ridge_curve_by_effective_ridge(spectrum, prior, n[0, 0], kappa, 0.1)
    np.testing.assert_allclose(curve.ridge, plain_curve.ridge, rtol=1e-11)
    assert_same(curve.equivalent, plain_curve.equivalent, rtol=1e-11)
    assert len(calls) == 2


def test_many_pairs_share_a_table_and_agree_with_each_pair_alone():
    spectrum, prior = power_law(2000, 1.2), power_law(2000, 0.4)
    n, ridge = np.geomspace(3, 3e4, 60)[:, None], np.append(0, np.geomspace(1e-250, 1e4, 49))
    found = ridge_equivalent(spectrum, prior, n, ridge, 0.1)
    for row, column in [(0, 0), (0, 49), (17, 0), (30, 20), (45, 48), (59, 0), (59, 49)]:
        alone = ridge_equivalent(spectrum, prior, n[row, 0], ridge[column], 0.1)
        assert_same([field[row, column] for field in found], alone, rtol=1e-12)


def test_sums_beyond_the_largest_number_are_refused():
    with pytest.raises(InputError, match=r"the sum of multiplicities \* spectrum \* prior must be <= 1e\+306, got inf"):
        ridge_equivalent([1e300, 1.0], 1e10, 10, 0.1, 0.1)
    with pytest.raises(InputError, match=r"the sum of multiplicities \* spectrum must be <= 1e\+306, got 1e\+307"):
        ridge_equivalent([1e300], 0.0, 10, 0.1, 0.1, multiplicities=1e7)


def test_curve_by_effective_ridge_is_the_inverse_of_the_solver():
    spectrum, prior, n = power_law(60, 1.0), power_law(60, 0.3), np.array([[20.0], [60.0], [90.0]])
    least = ridge_equivalent(spectrum, prior, n, 0.0, 0.2).effective_ridge
    kappa = least + np.array([0.0, 1e-3, 0.1, 10.0, 1e200])
    curve = ridge_curve_by_effective_ridge(spectrum, prior, n, kappa, 0.2)
    np.testing.assert_allclose(curve.ridge[:, 0], 0, atol=1e-15)
    assert (np.diff(curve.ridge, axis=1) > 0).all()
    assert_same(curve.equivalent, ridge_equivalent(spectrum, prior, n, curve.ridge, 0.2), rtol=1e-7, atol=1e-12)
    with pytest.raises(InputError, match=f"effective_ridge must be >= {least[0, 0]:g}.* n = 20; got 0.001"):
        ridge_curve_by_effective_ridge(spectrum, prior, n, 1e-3, 0.2)


def test_every_field_has_the_broadcast_shape_and_scalars_stay_scalars():
    spectrum = power_law(10, 1.0)
    for n, ridge, noise, shape in (
        (5, 0.1, 0.2, ()),
        ([5, 6], 0.1, 0.2, (2,)),
        (5, 0.1, [0.2, 0.3, 0.4], (3,)),
        ([[5], [6]], [0.0, 0.1, 1.0], 0.2, (2, 3)),
        ([5, 6], 0.1, [[0.2]] * 4, (4, 2)),
    ):
        results = (
            ridge_equivalent(spectrum, 1.0, n, ridge, noise),
            ridge_equivalent_matrices(np.diag(spectrum), np.eye(10), n, ridge, noise),
            ridge_curve_by_effective_ridge(spectrum, 1.0, n, np.add(ridge, 1.0), noise).equivalent,
        )
        for result in results:
            assert [np.shape(field) for field in result] == [shape] * 8
            assert all(isinstance(field, float | np.ndarray) for field in result)
            np.testing.assert_allclose(result.risk, result.bias + result.variance, rtol=1e-15)
            np.testing.assert_allclose(result.gcv, result.risk + noise, rtol=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spectrum": [[1.0]]}, r"spectrum must have 1 dimension\(s\), got shape \(1, 1\)"),
        ({"spectrum": [1.0, -2.0]}, "spectrum must be >= 0 and <= 1e\\+300, got -2"),
        (
            {"prior": [1.0, 2.0, 3.0]},
            r"prior must be a number or have shape \(2,\) like spectrum, got \(3,\)",
        ),
        ({"n": 0}, "n must be > 0, got 0"),
        ({"n": "many"}, "n must be numeric, got 'many'"),
        ({"ridge": -1e-9}, "ridge must be >= 0 and <= 1e\\+300, got -1e-09"),
        ({"ridge": np.inf}, "ridge must be finite"),
        ({"noise_variance": np.nan}, "noise_variance must be finite"),
        ({"multiplicities": [1.0]}, r"multiplicities must be a number or have shape \(2,\)"),
        ({"n": [1, 2], "ridge": [1, 2, 3]}, "n has 2 values and ridge 3: give arrays that broadcast"),
    ],
)
def test_wrong_input_is_named(change, message):
    legal = {"spectrum": [1.0, 2.0], "prior": 1.0, "n": 5, "ridge": 0.1, "noise_variance": 0.1}
    with pytest.raises(InputError, match=message):
        ridge_equivalent(**legal | change)


def random_matrices(d, seed):
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    factor = rng.standard_normal((d, d)) / np.sqrt(d)
    return rotation, rotation @ np.diag(power_law(d, 0.8)) @ rotation.T, factor @ factor.T


def test_only_the_diagonal_of_the_prior_in_the_eigenbasis_matters():
    rotation, covariance, prior = random_matrices(30, 0)
    diagonal = np.diag(rotation.T @ prior @ rotation)
    n, ridge = [[10], [30], [40]], [0.0, 0.02]
    full = ridge_equivalent_matrices(covariance, prior, n, ridge, 0.1)
    assert_same(full, ridge_equivalent(power_law(30, 0.8), diagonal, n, ridge, 0.1), rtol=1e-9, atol=1e-12)


def test_a_metric_is_a_change_of_coordinates():
    _, covariance, prior = random_matrices(30, 1)
    factor = np.random.default_rng(2).standard_normal((30, 30))
    inverse = np.linalg.inv(factor)
    metric = ridge_equivalent_matrices(covariance, prior, 20, 0.1, 0.2, metric=factor @ factor.T)
    moved = ridge_equivalent_matrices(factor.T @ covariance @ factor, inverse @ prior @ inverse.T, 20, 0.1, 0.2)
    assert_same(metric, moved, rtol=1e-8)
    ones = ridge_equivalent_matrices(covariance, prior, 20, 0.1, 0.2, metric=np.eye(30))
    assert_same(ones, ridge_equivalent_matrices(covariance, prior, 20, 0.1, 0.2), rtol=1e-10)


@pytest.mark.parametrize("rank", [60, 120])
@pytest.mark.parametrize("ridge", [0.0, 0.02])
def test_finite_designs_agree_with_the_equivalent_under_a_metric(rank, ridge):
    d, n, noise, seeds = 120, 90, 0.2, 30
    _, covariance, prior = random_matrices(d, 3)
    factor = np.random.default_rng(4).standard_normal((d, rank)) * power_law(rank, 0.3)
    theory = ridge_equivalent_matrices(covariance, prior, n, ridge, noise, metric=factor @ factor.T)
    root = np.linalg.cholesky(covariance)
    samples = []
    for seed in range(seeds):
        X = np.random.default_rng(100 + seed).standard_normal((n, d)) @ root.T
        Z = X @ factor
        smoother = (
            factor @ np.linalg.solve(Z.T @ Z + n * ridge * np.eye(rank), Z.T) if ridge else factor @ np.linalg.pinv(Z)
        )
        Q, residual = np.eye(d) - smoother @ X, np.eye(n) - X @ smoother
        labels = X @ prior @ X.T + noise * np.eye(n)
        bias = np.trace(covariance @ Q @ prior @ Q.T)
        variance = noise * np.trace(covariance @ smoother @ smoother.T)
        samples.append((bias, variance, np.trace(residual @ labels @ residual.T) / n))
    mean, error = np.mean(samples, axis=0), 4 * np.std(samples, axis=0, ddof=1) / np.sqrt(seeds) + 1e-12
    prediction = np.array([theory.bias, theory.variance, theory.training_error])
    error = error + prediction / n
    assert (np.abs(mean - prediction) <= error).all()
    assert (np.abs(mean - 1.2 * prediction) > error)[:2].all()


def test_a_metric_that_misses_the_target_has_the_whole_target_as_noise():
    covariance, prior = np.diag(power_law(6, 1.0)), np.diag([0, 0, 0, 1.0, 1.0, 1.0])
    metric = np.diag([1.0, 1.0, 1.0, 0, 0, 0])
    lost = np.trace(prior @ covariance)
    found = ridge_equivalent_matrices(covariance, prior, 12, 0.05, 0.2, metric=metric)
    noise_only = ridge_equivalent(power_law(3, 1.0), 0.0, 12, 0.05, 0.2 + lost)
    np.testing.assert_allclose(found.risk, noise_only.risk + lost, rtol=1e-12)
    np.testing.assert_allclose(found.gcv, noise_only.gcv, rtol=1e-12)
    np.testing.assert_allclose(found.training_error, noise_only.training_error, rtol=1e-12)
    threshold = ridge_equivalent_matrices(covariance, prior, 3, 0.0, 0.0, metric=metric)
    assert threshold.risk == np.inf


@pytest.mark.parametrize("small", [1e-8, 1e-16, 1e-28])
@pytest.mark.parametrize("turned", [False, True])
def test_units_of_the_coordinates_do_not_matter_to_matrices(small, turned):
    """x -> U x, b -> U^-1 b and the penalty with it leave the problem; variances of any size are kept."""
    _, covariance, prior = random_matrices(4, 5)
    covariance, prior = (covariance, prior) if turned else (np.diag(np.diag(covariance)), np.diag(np.diag(prior)))
    units = np.array([1.0, 1.0, np.sqrt(small), np.sqrt(small)])
    n, ridge = np.array([2.5, 3.0, 9.0]), 0.2
    plain = ridge_equivalent_matrices(covariance, prior, n, ridge, 0.1)
    moved = ridge_equivalent_matrices(
        covariance * np.outer(units, units), prior / np.outer(units, units), n, ridge, 0.1, metric=np.diag(units**-2.0)
    )
    assert_same(moved, plain, rtol=1e-9)
    if not turned:
        graded = np.diag(covariance) * units**2
        found = ridge_equivalent_matrices(np.diag(graded), prior / np.outer(units, units), n, 0.0, 0.1)
        assert_same(found, ridge_equivalent(graded, np.diag(prior) / units**2, n, 0.0, 0.1), rtol=1e-9)


def test_direction_of_little_variance_and_large_coefficient_is_kept():
    """Two directions of the same signal 1, at n = 3/2 without ridge: kappa = l_2, and the bias is (1/4) / (1/6)."""
    found = ridge_equivalent_matrices(np.diag([1.0, 1e-16]), np.diag([1.0, 1e16]), 1.5, 0.0, 0.0)
    assert found.effective_ridge == pytest.approx(1e-16, rel=1e-9, abs=0)
    assert found.bias == pytest.approx(1.5)


def test_small_singular_value_of_a_coupled_metric_has_its_digits():
    """S^(1/2) M S^(1/2) of S = diag(1, e), M = [[2, 1], [1, 2]] has determinant 3 e and trace 2 (1 + e)."""
    covariance, metric = np.diag([1.0, 1e-20]), np.array([[2.0, 1.0], [1.0, 2.0]])
    found = ridge_equivalent_matrices(covariance, np.eye(2), 1.5, 0.0, 0.1, metric=metric)
    assert found.effective_ridge == pytest.approx(1.5e-20, rel=1e-9, abs=0)


def test_columns_that_vary_by_rounding_only_do_not_count():
    covariance = np.diag([2.0, 1.0, 1e-33])
    found = ridge_equivalent_matrices(covariance, np.eye(3), 2.5, 0.0, 0.1)
    assert_same(found, ridge_equivalent([2.0, 1.0], 1.0, 2.5, 0.0, 0.1), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariance": np.ones((2, 3))}, r"covariance must be a square matrix, got shape \(2, 3\)"),
        ({"covariance": [[1.0, 2.0], [0.0, 1.0]]}, "covariance must be symmetric, got differences up to 2"),
        ({"prior": np.diag([1.0, -1.0])}, "prior must be positive semi-definite, got the eigenvalue -1"),
        ({"metric": np.eye(3)}, r"metric must have shape \(2, 2\), got \(3, 3\)"),
    ],
)
def test_wrong_matrices_are_named(change, message):
    legal = {"covariance": np.eye(2), "prior": np.eye(2), "n": 5, "ridge": 0.1, "noise_variance": 0.1}
    with pytest.raises(InputError, match=message):
        ridge_equivalent_matrices(**legal | change)
