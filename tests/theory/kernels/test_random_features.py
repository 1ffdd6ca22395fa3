import math

import numpy as np
import pytest
from scipy.optimize import brentq

from unlazy.checks import InputError
from unlazy.functions.elementwise import as_activation
from unlazy.functions.orthogonal import Gegenbauer, Hermite, Krawtchouk
from unlazy.functions.spectra import power_law
from unlazy.theory.kernels.blocks import activation_blocks, kernel_blocks
from unlazy.theory.kernels.random_features import KernelEquivalent, kernel_regression_equivalent
from unlazy.theory.regression.ridge import ridge_equivalent

RELU = as_activation("relu")
EIGENVALUES, ENERGIES = power_law(1000, 1.5), power_law(1000, 2.0)


def assert_same(first, second, **tolerances):
    for name, a, b in zip(KernelEquivalent._fields, first, second, strict=True):
        np.testing.assert_allclose(a, b, err_msg=name, **tolerances)


def on_blocks(blocks, energies, *args, **options):
    return kernel_regression_equivalent(
        blocks.spectrum, blocks.energies(energies), *args, multiplicities=blocks.multiplicities, **options
    )


def written_out(values, energies, n, p, ridge, noise):
    """The formulas as in the literature, with their differences, for finite n and p and a positive ridge."""

    def learned(nu, power=1):
        return np.sum((values / (values + nu)) ** power)

    def equation(log_nu):
        nu = math.exp(log_nu)
        z = learned(nu)
        return -1.0 if z >= min(n, p) else (n - z) * (p - z) * nu - ridge * p

    nu = math.exp(brentq(equation, math.log(ridge / n), math.log(max(2 * values.sum(), 4 * ridge)), xtol=1e-15))
    z, q, r = learned(nu), learned(nu, 2), values / (values + nu)
    upsilon, x = (q * (p - 2 * z) + z**2) / (n * (p - q)), (z - q) / (p - q)
    bias = (energies @ (1 - r) ** 2 + x * energies @ (r * (1 - r))) / (1 - upsilon)
    variance = noise * upsilon / (1 - upsilon)
    training = (ridge / (n * nu * (1 - z / p))) ** 2 * (bias + variance + noise)
    return nu, nu * (1 - z / p), bias + variance, bias, variance, training, z, n * upsilon


@pytest.mark.parametrize(("n", "p"), [(50, 80), (80, 50), (60, 60), (3, 400), (1500, 900)])
@pytest.mark.parametrize("ridge", [1e-4, 0.1, 30.0])
def test_equivalent_is_the_formula_of_the_literature(n, p, ridge):
    found = kernel_regression_equivalent(EIGENVALUES, ENERGIES, n, ridge, 0.05, width=p)
    assert_same(found, written_out(EIGENVALUES, ENERGIES, n, p, ridge, 0.05), rtol=1e-9)


def test_risks_have_their_independently_computed_values():
    isotropic = kernel_regression_equivalent([1.0], [1.0], [200, 200, 50], [10, 0, 0], 0.5, multiplicities=[100])
    np.testing.assert_allclose(isotropic.effective_ridge[0], 0.0922144385112, rtol=1e-12)
    np.testing.assert_allclose(isotropic.risk, [0.3730573288907, 0.5, 1.0], rtol=1e-12)
    found = kernel_regression_equivalent(
        EIGENVALUES, ENERGIES, [50, 50, 50, 80], [1e-3, 1e-3, 0, 0], 0.05, width=[math.inf, 80, 80, 50]
    )
    np.testing.assert_allclose(found.effective_ridge[0], 0.00856840048, rtol=1e-9)
    np.testing.assert_allclose(
        found.risk, [0.0823851157222, 0.3043385459865, 0.3117124090889, 0.3168130298123], rtol=1e-11
    )
    exponential = kernel_blocks(np.exp, Gegenbauer(30))
    np.testing.assert_allclose(
        exponential.degree_masses[:4], [1.0167975155, 1.0157404234, 0.4904907537, 0.1531533266], rtol=1e-9
    )
    found = on_blocks(exponential, [0, 1, 0.5, 0.2], [30, 465, 465, 2000], [0.1, 0.1, 0, 1e-3], 0.1)
    np.testing.assert_allclose(found.risk, [1.3184773800, 0.5072416238, 0.5144054462, 0.2370325280], rtol=1e-9)
    relu = activation_blocks(RELU, Gegenbauer(30))
    found = on_blocks(relu, [0, 1, 0.5], [300, 300, 100, 300], [0.01, 0.01, 0.01, 0], 0.1, width=[300, 100, 300, 200])
    np.testing.assert_allclose(found.effective_ridge[0], 3.534880131e-4, rtol=1e-9)
    np.testing.assert_allclose(found.risk, [0.7579286080, 0.8308124015, 0.8507831661, 1.3652156483], rtol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1e-8, 0.3])
def test_infinitely_many_features_are_ridge_regression(ridge):
    n = np.array([5.0, 30, 80, 200])
    values, copies, energies = power_law(50, 1.0), np.arange(1.0, 51) % 4 + 1, power_law(50, 0.7)
    values[40:] = values[40]
    found = kernel_regression_equivalent(values, energies, n, ridge, 0.2, multiplicities=copies)
    ridge_found = ridge_equivalent(values, energies / copies / values, n, ridge / n, 0.2, multiplicities=copies)
    for name in ("effective_ridge", "risk", "bias", "variance", "training_error", "degrees_of_freedom"):
        np.testing.assert_allclose(getattr(found, name), getattr(ridge_found, name), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(found.variance_degrees_of_freedom, ridge_found.variance_degrees_of_freedom, rtol=1e-12)
    np.testing.assert_array_equal(found.feature_ridge, found.effective_ridge)


def test_infinitely_many_samples_leave_the_approximation_error():
    for p in (1, 10, 300):
        found = kernel_regression_equivalent(EIGENVALUES, ENERGIES, math.inf, [0, 0.1, 9.0], 0.3, width=p)
        nu = brentq(lambda nu, p=p: np.sum(EIGENVALUES / (EIGENVALUES + nu)) - p, 1e-12, 10, xtol=1e-16, rtol=1e-14)
        np.testing.assert_allclose(found.effective_ridge, nu, rtol=1e-11)
        np.testing.assert_allclose(found.risk, ENERGIES @ (nu / (EIGENVALUES + nu)), rtol=1e-11)
        assert (found.variance == 0).all()
        np.testing.assert_allclose(found.training_error, found.risk + 0.3, rtol=1e-12)
    both = kernel_regression_equivalent([1.0, 0.0], [1.0, 0.25], math.inf, 1.0, 0.3)
    assert (both.risk, both.effective_ridge, both.training_error) == (0.25, 0, 0.55)


def test_infinity_is_the_limit_of_large_sizes():
    options = {"width": [math.inf, 70.0, math.inf], "multiplicities": None}
    at_infinity = kernel_regression_equivalent(EIGENVALUES, ENERGIES, [70, math.inf, math.inf], 0.01, 0.1, **options)
    options["width"] = [1e14, 70.0, 1e15]
    close = kernel_regression_equivalent(EIGENVALUES, ENERGIES, [70, 1e14, 1e15], 0.01, 0.1, **options)
    for name in ("risk", "training_error", "degrees_of_freedom"):
        np.testing.assert_allclose(
            getattr(close, name), getattr(at_infinity, name), rtol=1e-9, atol=1e-12, err_msg=name
        )


@pytest.mark.parametrize(("n", "p"), [(40, 60), (60, 40), (40, math.inf), (math.inf, 40), (2000, 1500), (1500, 2000)])
def test_no_ridge_is_the_limit_of_a_small_one(n, p):
    none, small = (
        kernel_regression_equivalent(EIGENVALUES, ENERGIES, n, ridge, 0.1, width=p) for ridge in (0.0, 1e-12)
    )
    assert_same(small, none, rtol=1e-6, atol=1e-9)


def test_training_error_is_that_of_the_feature_ridge():
    ridge = np.geomspace(1e-6, 10, 8)
    found = kernel_regression_equivalent(EIGENVALUES, ENERGIES, 90, ridge, 0.2, width=120)
    np.testing.assert_allclose(
        found.training_error, (ridge / 90 / found.feature_ridge) ** 2 * (found.risk + 0.2), rtol=1e-11
    )
    np.testing.assert_allclose(
        found.variance, 0.2 * found.variance_degrees_of_freedom / (90 - found.variance_degrees_of_freedom), rtol=1e-11
    )


def test_least_squares_with_few_features_has_the_variance_of_least_squares():
    found = kernel_regression_equivalent(EIGENVALUES, 0.0, 100, 0.0, 0.7, width=40)
    np.testing.assert_allclose(found.variance, 0.7 * 40 / 60, rtol=1e-11)


def test_samples_equal_to_features_without_ridge_have_infinite_risk():
    found = kernel_regression_equivalent(EIGENVALUES, ENERGIES, 50, 0.0, [0.0, 0.1], width=50)
    assert np.isposinf(found.risk).all()
    nothing = kernel_regression_equivalent(EIGENVALUES, 0.0, 50, 0.0, 0.0, width=50)
    assert (nothing.risk, nothing.training_error) == (0, 0)
    near = kernel_regression_equivalent(EIGENVALUES, ENERGIES, 50, [1e-20, 1e-10, 1e-4], 0.1, width=50).risk
    assert np.isfinite(near).all()
    assert (np.diff(near) < 0).all()
    assert near[0] > 1e5


@pytest.mark.parametrize(("n", "p"), [(5, 5), (5, 9), (9, 5), (7, 8), (5, math.inf), (9, math.inf)])
def test_a_finite_rank_is_learned_by_least_squares(n, p):
    found = kernel_regression_equivalent([2.0, 1.0], [1.0, 3.0], n, 0.0, [0.0, 0.1], width=p, multiplicities=[2, 3])
    assert (found.effective_ridge == 0).all()
    np.testing.assert_array_equal(found.bias, 0)
    np.testing.assert_array_equal(found.degrees_of_freedom, 5)
    np.testing.assert_allclose(found.variance, [0, 0.1 * 5 / (n - 5) if n > 5 else math.inf], rtol=1e-14)


def test_energy_on_zero_eigenvalues_acts_as_noise():
    n, p, ridge = [20, 60, 60], [30, 45, math.inf], [0.1, 0.0, 1.0]
    with_energy = kernel_regression_equivalent([*EIGENVALUES, 0.0], [*ENERGIES, 0.4], n, ridge, 0.1, width=p)
    with_noise = kernel_regression_equivalent(EIGENVALUES, ENERGIES, n, ridge, 0.5, width=p)
    np.testing.assert_allclose(with_energy.risk, with_noise.risk + 0.4, rtol=1e-12)
    np.testing.assert_allclose(with_energy.training_error, with_noise.training_error, rtol=1e-12)
    nothing = kernel_regression_equivalent([0.0], [2.0], [1, math.inf], [1.0, 0.0], 0.3, width=[4, math.inf])
    np.testing.assert_allclose(nothing.risk, 2)
    np.testing.assert_allclose(nothing.training_error, 2.3)


def test_multiplicities_are_repeated_entries():
    values, copies, energies = np.array([2.0, 0.5, 0.1]), np.array([3, 10, 40]), np.array([1.0, 0.5, 0.2])
    for p in (15, math.inf):
        short = kernel_regression_equivalent(values, energies, 20, [0, 0.3], 0.1, width=p, multiplicities=copies)
        long = kernel_regression_equivalent(
            np.repeat(values, copies), np.repeat(energies / copies, copies), 20, [0, 0.3], 0.1, width=p
        )
        assert_same(short, long, rtol=1e-12)


def test_grids_of_sizes_agree_with_single_sizes():
    # the grid is summed over a compressed spectrum, single sizes over the eigenvalues
    rng = np.random.default_rng(0)
    values, energies = rng.lognormal(0, 3, 3000), rng.exponential(size=3000)
    n, p, ridge = (
        np.array([10.0, 300, 3000])[:, None, None],
        np.array([20.0, 300, math.inf])[:, None],
        np.geomspace(1e-8, 100, 25),
    )
    grid = kernel_regression_equivalent(values, energies, n, ridge, 0.1, width=p)
    assert grid.risk.shape == (3, 3, 25)
    for i, j, k in ((0, 0, 0), (0, 2, 7), (1, 0, 12), (1, 1, 3), (2, 1, 20), (2, 2, 0), (1, 2, 24)):
        alone = kernel_regression_equivalent(values, energies, n[i, 0, 0], ridge[k], 0.1, width=p[j, 0])
        assert_same([field[i, j, k] for field in grid], alone, rtol=1e-9)


def test_every_field_has_the_broadcast_shape_and_scalars_stay_scalars():
    assert all(np.shape(f) == () for f in kernel_regression_equivalent([1.0], [1.0], 5, 0.1, 0.2, width=4))
    found = kernel_regression_equivalent([1.0], 1.0, [[5], [6]], 0.1, [0.1, 0.2, 0.3], width=4)
    assert all(f.shape == (2, 3) for f in found)


def test_extreme_sizes_stay_numbers():
    values = np.geomspace(1e-200, 1e200, 60)
    n, p = (
        np.array([1, 30, 60, 1e6, 1e100, math.inf])[:, None, None],
        np.array([1, 30, 60, 1e6, 1e100, math.inf])[:, None],
    )
    found = kernel_regression_equivalent(values, 1.0, n, [0, 1e-300, 1e-30, 1, 1e30, 1e300], 0.0, width=p)
    for name, field in zip(KernelEquivalent._fields, found, strict=True):
        assert not np.isnan(field).any(), name
        assert (field >= 0).all(), name
    # the zero predictor is best known
    np.testing.assert_allclose(found.risk[0, 5, 5], 60, rtol=1e-9)


def draw_gaussian_modes(rng, values, target, n, p, ridge, noise):
    """Features that are Gaussian combinations of Gaussian modes: exact risk of one draw, and its training error."""
    d = values.size
    modes = rng.standard_normal((n, d))
    mixing = np.sqrt(values)[:, None] * rng.standard_normal((d, p)) / math.sqrt(p)
    labels = modes @ target + math.sqrt(noise) * rng.standard_normal(n)
    design = modes @ mixing
    weights = np.linalg.solve(design.T @ design + ridge * np.eye(p), design.T @ labels)
    return np.sum((target - mixing @ weights) ** 2), np.mean((labels - design @ weights) ** 2)


@pytest.mark.parametrize(("n", "p", "ridge"), [(100, 60, 0.05), (60, 100, 0.05), (80, 80, 0.5)])
def test_equivalent_agrees_with_simulated_random_features(n, p, ridge):
    rng = np.random.default_rng(n)
    values, energies = power_law(200, 1.0), power_law(200, 1.2)
    draws = []
    for _ in range(300):
        target = np.sqrt(energies) * rng.choice([-1, 1], 200)
        draws.append(draw_gaussian_modes(rng, values, target, n, p, ridge, 0.2))
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / math.sqrt(len(draws))
    found = kernel_regression_equivalent(values, energies, n, ridge, 0.2, width=p)
    for simulated, deviation, predicted in zip(mean, error, (found.risk, found.training_error), strict=True):
        tolerance = 4 * deviation + 0.01 * predicted
        assert abs(simulated - predicted) < tolerance
        assert tolerance < 0.15 * predicted


def sphere(rng, n, d):
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(("features", "n", "ridge"), [(None, 120, 0.05), (90, 120, 0.3)])
def test_blocks_predict_regression_on_the_sphere(features, n, ridge):
    d, noise, energies = 15, 0.1, (0.0, 1.0, 0.5)
    family = Gegenbauer(d)

    def sigma(t):
        return np.tanh(t) + 0.3 * (t**2 - 1)

    rng = np.random.default_rng(3)
    errors = []
    for _ in range(40):
        # new generic targets of degrees 1 and 2
        x, new = sphere(rng, n, d), sphere(rng, 500, d)
        linear, quadratic = rng.standard_normal(d), rng.standard_normal((d, d))
        quadratic += quadratic.T - np.eye(d) * 2 * np.trace(quadratic) / d

        def target(x, linear=linear, quadratic=quadratic):
            # E <x, b>^2 = |b|^2 / d and E (x.Qx)^2 = 2 |Q|^2 / (d (d+2)) for a traceless Q
            first = x @ linear / np.linalg.norm(linear) * math.sqrt(d * energies[1])
            second = np.sum((x @ quadratic) * x, axis=1) / np.linalg.norm(quadratic)
            return first + second * math.sqrt(d * (d + 2) / 2 * energies[2])

        labels = target(x) + math.sqrt(noise) * rng.standard_normal(n)
        if features is None:
            gram, cross = np.exp(x @ x.T), np.exp(new @ x.T)
            predicted = cross @ np.linalg.solve(gram + ridge * np.eye(n), labels)
        else:
            w = sphere(rng, features, d)
            design, cross = (sigma(math.sqrt(d) * a @ w.T) / math.sqrt(features) for a in (x, new))
            predicted = cross @ np.linalg.solve(design.T @ design + ridge * np.eye(features), design.T @ labels)
        errors.append(np.mean((predicted - target(new)) ** 2))
    blocks = kernel_blocks(np.exp, family) if features is None else activation_blocks(sigma, family)
    expected = on_blocks(blocks, energies, n, ridge, noise, width=features or math.inf).risk
    # 4% for the small dimension
    tolerance = 4 * np.std(errors, ddof=1) / math.sqrt(len(errors)) + 0.04 * expected
    assert abs(np.mean(errors) - expected) < tolerance
    assert tolerance < 0.2 * expected


def polynomial_blocks(d, masses):
    copies = np.array(Gegenbauer(d).multiplicities(len(masses) - 1), dtype=float)
    return np.array(masses) / copies, copies


def limit_unlearned(theta, psi):
    """c: the degree that is being learned has the unlearned part c / (1 + c)."""
    return ((1 + psi - theta) + math.sqrt((1 + psi - theta) ** 2 + 4 * theta * psi)) / (2 * theta)


LIMITS = [
    # theta, psi, energy of the degree, energy above, noise; c, kernel risk, approximation error
    (0.7, 0.5, 0.5, 0.3, 0.3, 1.5916326326, 0.7016253376, 0.6070714214),
    (1.0, 0.01, 1.0, 0.0, 0.1, None, 0.5018106672, 0.0951249220),
    (3.0, 0.2, 1.0, 0.1, 0.0, None, 0.1490082570, 0.1874342087),
]


@pytest.mark.parametrize(("theta", "psi", "energy", "above", "noise", "c", "kernel", "approximation"), LIMITS)
def test_polynomial_regimes_have_their_limits(theta, psi, energy, above, noise, c, kernel, approximation):
    found = limit_unlearned(theta, psi)
    if c:
        np.testing.assert_allclose(found, c, rtol=1e-10)
    u = 1 / (1 + found)
    limit = ((1 - u) ** 2 * energy + above + noise) / (1 - u**2 / theta) - noise
    np.testing.assert_allclose(limit, kernel, rtol=1e-9)
    np.testing.assert_allclose(energy * found / (1 + found) + above, approximation, rtol=1e-8)
    # degree 2 is learned at n = theta N_2; degree 0 and 1 are known, degree 3 acts as noise and ridge
    values, copies = polynomial_blocks(10**6, [1.0, 1.0, 1.0, psi / 2])
    energies = [0.5, 2.0, energy, above]
    at = kernel_regression_equivalent(values, energies, theta * copies[2], psi / 2, noise, multiplicities=copies)
    np.testing.assert_allclose(at.risk, limit, rtol=2e-4)
    # p << n does not see the ridge; n << p is the kernel
    values, copies = polynomial_blocks(10**6, [1.0, 1.0, 1.0, psi])
    size = theta * copies[2]
    few = kernel_regression_equivalent(values, energies, 1e5 * size, 1e-3, noise, width=size, multiplicities=copies)
    np.testing.assert_allclose(few.risk, approximation, rtol=2e-4)
    many = kernel_regression_equivalent(values, energies, size, 0.0, noise, width=1e5 * size, multiplicities=copies)
    np.testing.assert_allclose(many.risk, limit, rtol=2e-4)


@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.5])
def test_between_integer_exponents_features_have_a_double_descent(ratio):
    above, noise, mass = 0.4, 0.2, 0.7
    values, copies = polynomial_blocks(10**8, [1.0, 1.0, mass])
    n = 1e12
    for ridge in (0.0, 0.5):
        found = kernel_regression_equivalent(
            values, [0.0, 1.0, above], n, ridge, noise, width=ratio * n, multiplicities=copies
        )
        p = ratio * n
        a, b, c = mass, -mass * (n + p) - ridge * p, mass * n * p
        z = (-b - math.sqrt(b**2 - 4 * a * c)) / (2 * a)
        np.testing.assert_allclose(found.risk, (above + noise) / (1 - z**2 / (n * p)) - noise, rtol=1e-3)


def test_masses_of_a_polynomial_kernel_are_exact():
    d = 30
    # u^2 = 1/d + (u^2 - 1/d), u^3 = 3u/(d+2) + harmonic
    expected = [0.5 / d, 0.5 + 0.02 * 3 / (d + 2), 0.5 * (1 - 1 / d), 0.02 * (1 - 3 / (d + 2)), *[0.0] * 7]
    for kernel in (lambda u: 0.5 * u + 0.5 * u**2 + 0.02 * u**3, [0, 0.5, 0.5, 0.02]):
        found = kernel_blocks(kernel, Gegenbauer(d))
        np.testing.assert_allclose(found.degree_masses, expected, rtol=1e-10)
        # what is 0 is exactly 0, so that the rank is that of polynomials of degree 3
        assert found.multiplicities[found.spectrum > 0].sum() == 1 + 30 + 464 + 4930
    for family in (Gegenbauer(5), Gegenbauer(200), Gegenbauer(2000), Krawtchouk(30), Krawtchouk(2000)):
        for taylor in ([1.0], [0, 0, 1.0], [0, 0.5, 0.5, 0.02], [1.0, 1.0, 1.0]):
            found = kernel_blocks(np.polynomial.Polynomial(taylor), family)
            assert (found.degree_masses[len(taylor) :] == 0).all()
    cube = kernel_blocks([0, 0, 0, 1.0], Krawtchouk(5))
    np.testing.assert_allclose(cube.degree_masses, [0, (3 * 5 - 2) / 25, 0, 12 / 25, 0, 0], atol=1e-14)
    assert cube.multiplicities.tolist() == [1, 5, 10, 10, 5, 1]


@pytest.mark.parametrize("family", [Gegenbauer(5), Gegenbauer(40), Krawtchouk(15)], ids=str)
def test_functions_and_taylor_series_have_the_same_masses(family):
    series = kernel_blocks([1 / math.factorial(j) for j in range(25)], family)
    found = kernel_blocks(np.exp, family)
    np.testing.assert_allclose(
        found.degree_masses, series.degree_masses, atol=4e-15 * math.sqrt(family.multiplicity(9)) * math.e * 4
    )
    np.testing.assert_allclose(series.degree_masses.sum(), math.e, rtol=1e-14)


def test_taylor_series_keep_their_digits_in_high_dimension():
    d = 10**8
    found = kernel_blocks([1 / math.factorial(j) for j in range(20)], Gegenbauer(d))
    np.testing.assert_allclose(found.degree_masses[:10], [1 / math.factorial(k) for k in range(10)], rtol=1e-6)
    # from values of the function high degrees are hidden by rounding, but no mass is lost
    seen = kernel_blocks(np.exp, Gegenbauer(d))
    np.testing.assert_allclose(seen.degree_masses[:3], found.degree_masses[:3], rtol=1e-6)
    np.testing.assert_allclose(seen.degree_masses.sum(), math.e, rtol=1e-12)
    assert (seen.degree_masses >= 0).all()


def test_kernels_with_kinks_need_their_breakpoints_only_inside():
    d = 10

    # the arc-cosine kernel of degree 1 is that of relu features, up to a factor
    def arc_cosine(u):
        return (np.sqrt(1 - u**2) + u * (np.pi - np.arccos(u))) / (2 * np.pi)

    kernel = kernel_blocks(arc_cosine, Gegenbauer(d))
    features = activation_blocks(RELU, Gegenbauer(d))
    np.testing.assert_allclose(kernel.degree_masses, features.degree_masses, atol=1e-11)
    assert features.degree_masses[3] == features.degree_masses[5] == 0
    with pytest.raises(InputError, match="smooth between breakpoints"):
        kernel_blocks(lambda u: np.maximum(0, 1 - 3 * np.abs(u - 0.21)), Gegenbauer(d))


@pytest.mark.parametrize("kernel", [np.cos, lambda u: u**2 - 0.1, [0.0, 1.0, -0.5, 0.2], [-0.1, 1.0]])
def test_functions_that_are_no_kernels_are_refused(kernel):
    with pytest.raises(InputError, match=r"kernel must be positive definite, got the mass -\d.* at degree"):
        kernel_blocks(kernel, Gegenbauer(30))


def test_a_negative_mass_beyond_the_last_degree_is_refused():
    with pytest.raises(InputError, match=r"got the mass -0.0\d+ at all degrees from 3"):
        kernel_blocks([0.01, 1.0, 0.1, 0.0, -0.1], Gegenbauer(30), last_degree=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spectrum": [1.0, -2.0]}, r"spectrum must be >= 0 and <= 1e\+300, got -2"),
        ({"spectrum": [1.0, np.nan]}, "spectrum must be finite"),
        ({"energies": [1.0]}, r"energies must be a number or have shape \(2,\) like spectrum, got \(1,\)"),
        ({"energies": [-1.0, 0.0]}, "energies must be >= 0, got -1"),
        ({"n": 0.5}, "n must be >= 1, got 0.5"),
        ({"n": np.nan}, "n must be >= 1, got nan"),
        ({"width": 0}, "width must be >= 1, got 0"),
        ({"penalty": -1e-9}, r"penalty must be >= 0 and <= 1e\+300, got -1e-09"),
        ({"penalty": np.inf}, "penalty must be finite"),
        ({"noise_variance": np.nan}, "noise_variance must be finite"),
        ({"multiplicities": [0.0, 1.0]}, "multiplicities must be > 0, got 0"),
        ({"n": [1, 2], "width": [1, 2, 3]}, "n has 2 values and width 3: give arrays that broadcast"),
        ({"energies": 1e306}, r"the sum of energies must be <= 1e\+306, got 2e\+306"),
    ],
)
def test_wrong_input_is_named(change, message):
    legal = {"spectrum": [1.0, 2.0], "energies": 1.0, "n": 5, "penalty": 0.1, "noise_variance": 0.1}
    with pytest.raises(InputError, match=message):
        kernel_regression_equivalent(**legal | change)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernel_blocks(np.exp, Hermite()), r"family must be Gegenbauer\(d\) or Krawtchouk\(d\), got Hermite"),
        (lambda: kernel_blocks(lambda u: u * 0.0, Gegenbauer(5)), r"kernel\(1\) must be > 0, got 0"),
        (lambda: kernel_blocks([1.0, np.nan], Gegenbauer(5)), "kernel must be finite, got nan"),
        (
            lambda: kernel_blocks(np.exp, Gegenbauer(5), last_degree=-1),
            "last_degree must be an integer >= 0 and <= 1000, got -1",
        ),
        (lambda: activation_blocks(lambda t: t * 0.0, Gegenbauer(5)), "activation must not be 0 everywhere"),
        (lambda: kernel_blocks(np.exp, Gegenbauer(10**40)), "degree must be lower for d = "),
        (
            lambda: kernel_blocks(np.exp, Krawtchouk(2)).energies([1.0] * 5),
            "energies must be at most 3 numbers, got 5",
        ),
    ],
)
def test_wrong_blocks_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
