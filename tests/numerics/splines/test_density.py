import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import kstest

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.numerics.splines.density import SplineDensity, fit_spline_density
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import fit_histograms, fit_tensor_histogram


def likelihood(masses, weights, coefficients):
    return weights @ np.log(masses @ coefficients)


@pytest.mark.parametrize("n", [3, 40, 5000])
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_the_fit_is_the_maximum_that_a_general_optimiser_finds(n, degree):
    rng = np.random.default_rng(n + degree)
    basis = SplineBasis(9 + degree, degree)
    counts = np.histogram(2 * rng.beta(0.7, 2, n) - 1, bins=128, range=(-1, 1))[0]
    fit = fit_histograms(basis, counts)
    masses, weights = basis.masses(np.linspace(-1, 1, 129)), counts / n
    kept = weights > 0
    masses, weights = masses[kept], weights[kept]

    def loss(a):
        expected = masses @ a + 1e-12
        return a.sum() - weights @ np.log(expected), 1 - (weights / expected) @ masses

    start = np.full(basis.n_basis, 1 / basis.n_basis)
    other = minimize(
        loss, start, jac=True, bounds=[(0, None)] * basis.n_basis, options={"ftol": 1e-14, "maxiter": 5000}
    )
    best = likelihood(masses, weights, other.x / other.x.sum())
    own = likelihood(masses, weights, fit.coefficients)
    assert own >= best - 1e-8
    assert own + fit.gap >= best
    assert fit.log_likelihood == pytest.approx(own + np.log(64), abs=1e-10)
    assert fit.coefficients.min() >= 0
    assert fit.coefficients.sum() == pytest.approx(1, abs=1e-12)


def test_a_stack_of_histograms_is_fitted_like_each_alone_also_the_extreme_ones():
    rng = np.random.default_rng(0)
    counts = np.concatenate(
        [np.eye(256)[[0, 100, 255]], np.ones((1, 256)), rng.poisson(0.02, (4, 256)) + np.eye(256)[:4]]
    )
    basis = SplineBasis(40, 3)
    stack = fit_histograms(basis, counts)
    assert (stack.gap <= 1e-8).all()
    for i in (0, 3, 5):
        np.testing.assert_allclose(stack.log_likelihood[i], fit_histograms(basis, counts[i]).log_likelihood, atol=1e-8)
    # all data at the left end: the first basis function is the best density there
    np.testing.assert_allclose(stack.coefficients[0, 0], 1, atol=1e-4)


@pytest.mark.parametrize("d", [2, 3])
def test_the_tensor_fit_is_within_its_gap_of_longer_plain_em(d):
    rng = np.random.default_rng(d)
    basis, cells, n = SplineBasis(4, 2), 10, 600
    counts = np.histogramdd(2 * rng.beta(1, 2, (n, d)) - 1, bins=cells, range=[(-1, 1)] * d)[0]
    fit = fit_tensor_histogram((basis,) * d, counts, gap=1e-3)
    masses = basis.masses(np.linspace(-1, 1, cells + 1))
    full = masses
    for _ in range(d - 1):
        full = np.kron(full, masses)
    weights = counts.ravel() / n
    a = np.full(full.shape[1], 1 / full.shape[1])
    for _ in range(1000):
        a = a * (full.T @ (weights / (full @ a)))
    kept = weights > 0
    best = likelihood(full[kept], weights[kept], a)
    own = likelihood(full[kept], weights[kept], fit.coefficients.ravel())
    assert 0 < fit.gap <= 1e-3
    assert own <= best + 1e-6
    assert own + fit.gap >= best
    assert fit.log_likelihood == pytest.approx(own + d * np.log(cells / 2), abs=1e-9)


def test_an_independent_pair_is_fitted_by_the_product_of_its_margins():
    rng = np.random.default_rng(3)
    margins = [np.histogram(2 * rng.beta(2, 3, 500) - 1, bins=32, range=(-1, 1))[0] / 500 for _ in range(2)]
    basis = SplineBasis(6, 2)
    fit = fit_tensor_histogram((basis, basis), np.outer(*margins) * 500, gap=1e-7)
    lines = [fit_histograms(basis, margin).coefficients for margin in margins]
    masses = basis.masses(np.linspace(-1, 1, 33))
    found, expected = masses @ fit.coefficients @ masses.T, np.outer(masses @ lines[0], masses @ lines[1])
    np.testing.assert_allclose(found, expected, atol=2e-3 * expected.max())


def test_aic_takes_few_functions_for_a_flat_density_and_many_for_a_narrow_peak():
    rng = np.random.default_rng(4)
    flat = fit_spline_density(rng.uniform(-1, 1, (2000, 1)), [[-1, 1]])
    peak = fit_spline_density(np.clip(0.03 * rng.standard_normal((2000, 1)), -1, 1), [[-1, 1]])
    assert flat.n_basis <= 8 < 20 < peak.n_basis
    assert peak.aic.min() == peak.aic[list(peak.tried).index(peak.n_basis)]


def test_a_fitted_density_integrates_to_one_and_its_draws_follow_it():
    rng = np.random.default_rng(5)
    points = 3 + 4 * rng.beta(2, 0.8, (400, 1))
    density = fit_spline_density(points, [[3, 7]], n_basis=9).density
    assert quad(lambda x: density.pdf([[x]])[0], 3, 7, limit=200)[0] == pytest.approx(1, abs=1e-7)
    draws = density.sample(rng, 5000)[:, 0]
    assert kstest(draws, density.cdf).pvalue > 1e-3
    assert kstest(draws, lambda x: np.clip((x - 3) / 4, 0, 1)).pvalue < 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fit_spline_density([[0.5], [1.5]], [[-1, 1]]),
            r"points must be in bounds \[-1, 1\] in column 0, got 1.5",
        ),
        (lambda: fit_spline_density(np.zeros((0, 1)), [[-1, 1]]), "points must not be empty"),
        (lambda: fit_spline_density([[np.nan]], [[-1, 1]]), "points must be finite"),
        (lambda: fit_spline_density(np.zeros((5, 4)), [[-1, 1]] * 4), "points must have at most 3 columns, got 4"),
        (lambda: fit_spline_density([[0.0]], [[1, -1]]), "bounds must increase"),
        (lambda: fit_spline_density([[0.0]], [[-1, 1]], n_basis=4), "n_basis must be an integer >= 5"),
        (lambda: fit_spline_density([[0.0]], [[-1, 1]], n_basis="bic"), 'n_basis must be "aic"'),
        (lambda: fit_histograms(SplineBasis(9), -np.ones(64)), "counts must be >= 0, got -1"),
        (lambda: fit_histograms(SplineBasis(9), np.zeros(64)), "counts must have a positive sum"),
        (lambda: fit_histograms(SplineBasis(9), np.ones(5)), "counts must have at least n_basis = 9 cells"),
        (lambda: SplineDensity((SplineBasis(9),), np.full(9, 0.2)), "coefficients must sum to 1.*got 1.8"),
        (lambda: SplineDensity((SplineBasis(9),), np.r_[-0.1, 1.1, np.zeros(7)]), "coefficients must be >= 0"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_em_that_runs_out_of_steps_says_how_far_it_came():
    counts = np.random.default_rng(6).poisson(0.3, (24, 24))
    with pytest.raises(ConvergenceError, match=r"no convergence in 3 EM steps: log-likelihood at most .* below"):
        fit_tensor_histogram((SplineBasis(8),) * 2, counts, gap=1e-9, max_iterations=3)
