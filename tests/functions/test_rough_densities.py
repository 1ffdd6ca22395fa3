import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.stats import kstest

from unlazy.checks import InputError
from unlazy.functions.rough_densities import RoughDensity, rough_density


def test_the_density_agrees_with_an_independent_computation():
    density = rough_density(2, np.random.default_rng(0))
    np.testing.assert_allclose(density.pdf([[0.5]]), 0.5219698001, rtol=1e-9)
    np.testing.assert_allclose(density.cdf([[0.5]]), 0.6364634530, rtol=1e-9)


def test_distribution_function_and_masses_are_integrals_of_the_density():
    density = rough_density(1, np.random.default_rng(1), terms=7)
    integral = quad(lambda x: density.pdf([[x]])[0], -1, 0.3, epsabs=1e-12)[0]
    np.testing.assert_allclose(density.cdf([[0.3]])[0], integral, rtol=1e-10)
    np.testing.assert_allclose(density.cdf([[-1.0], [1.0]]), [0, 1], atol=1e-14)
    plane = rough_density(2, np.random.default_rng(2), d=2, terms=4)
    cell = dblquad(lambda y, x: plane.pdf([[x, y]])[0], -0.5, 0.0, 0.5, 1.0, epsabs=1e-10)[0]
    np.testing.assert_allclose(plane.masses(4)[1, 3], cell, rtol=1e-8)
    np.testing.assert_allclose(plane.cdf([[1.0, 1.0]]), 1, rtol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_densities_are_positive_and_masses_of_fine_cells_sum_to_those_of_coarse_ones(d):
    density = rough_density(1.5, np.random.default_rng(d), d=d)
    points = np.random.default_rng(9).uniform(-1, 1, (2000, d))
    assert density.pdf(points).min() >= 0.15 / density.normaliser
    fine, coarse = density.masses(8), density.masses(4)
    pairs = sum(((4, 2) for _ in range(d)), ())
    np.testing.assert_allclose(fine.reshape(pairs).sum(axis=tuple(range(1, 2 * d, 2))), coarse, rtol=1e-12)
    assert coarse.sum() == pytest.approx(1, abs=1e-13)


@pytest.mark.parametrize("smoothness", [0.7, 1.0, 1.5])
def test_increments_have_the_exponent_of_the_smoothness_at_every_scale(smoothness):
    """Second differences, which see exponents up to 2."""
    points = np.linspace(-0.9, 0.9, 1001)
    steps = 2.0 ** -np.arange(4.0, 13.0)
    sizes = np.zeros(len(steps))
    for seed in range(4):
        density = rough_density(smoothness, np.random.default_rng(seed))
        for i, h in enumerate(steps):
            values = [density.pdf((points + k * h)[:, None]) for k in (-1, 0, 1)]
            sizes[i] += np.log(np.abs(values[0] - 2 * values[1] + values[2]).mean())
    local = np.diff(sizes / 4) / np.diff(np.log(steps))
    np.testing.assert_allclose(local, smoothness, atol=0.15)


def test_quantiles_invert_the_distribution_function_and_draws_follow_it():
    density = rough_density(1, np.random.default_rng(3))
    u = np.r_[0.0, np.random.default_rng(4).random(500), 1.0]
    np.testing.assert_allclose(density.cdf(density.quantile(u)[:, None]), u, atol=2e-15)
    draws = density.sample(np.random.default_rng(5), 20_000)[:, 0]
    assert kstest(draws, lambda x: density.cdf(np.asarray(x)[:, None])).pvalue > 1e-3
    assert kstest(draws, lambda x: (x + 1) / 2).pvalue < 1e-6


def test_draws_in_the_plane_fill_the_cells_by_their_masses():
    density = rough_density(1, np.random.default_rng(6), d=2)
    n = 20_000
    counts = np.histogramdd(density.sample(np.random.default_rng(7), n), bins=4, range=[(-1, 1)] * 2)[0]
    masses = density.masses(4)
    chi_square = ((counts - n * masses) ** 2 / (n * masses)).sum()
    assert chi_square < 45  # 15 degrees of freedom, p about 1e-4
    assert ((counts - n / 16) ** 2 / (n / 16)).sum() > 200


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rough_density(0.0, np.random.default_rng(0)), "smoothness must be > 0, got 0"),
        (lambda: rough_density(1.0, np.random.default_rng(0), d=4), "d must be an integer >= 1 and <= 3, got 4"),
        (lambda: RoughDensity(1.0, np.zeros(4)), r"phases must have 2 dimension\(s\)"),
        (
            lambda: rough_density(1.0, np.random.default_rng(0)).pdf([[1.2]]),
            r"points must be in the support .* got 1.2",
        ),
        (lambda: rough_density(1.0, np.random.default_rng(0)).quantile([1.2]), "u must be >= 0 and <= 1, got 1.2"),
        (lambda: rough_density(1.0, np.random.default_rng(0), d=2).quantile([0.2]), "quantile needs a density of one"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
