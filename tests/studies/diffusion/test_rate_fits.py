import numpy as np
from sklearn.neighbors import KernelDensity

from unlazy.functions.rough_densities import rough_density
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import fit_histograms
from unlazy.studies.diffusion.diffusion_rate_w1 import DiffusionRateW1
from unlazy.studies.diffusion.shared.rate_fits import HISTOGRAM, fit_cells, kernel_densities, middles


def test_fits_on_merged_bins_are_those_of_all_bins_far_below_the_noise():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(4**8, rough_density(2, rng).masses(HISTOGRAM), size=2)
    fits = fit_cells(counts, 12, 2)
    exact = fit_histograms(SplineBasis(14, 2), counts)
    distance = np.abs((fits.coefficients - exact.coefficients) @ fits.tables.values.T).mean(axis=1)
    assert (distance < 0.1 * np.sqrt(14 / 4**8)).all()
    likelihood = 4**8 * (exact.log_likelihood - np.log(HISTOGRAM / 2))
    np.testing.assert_allclose(fits.aic, 2 * 13 - 2 * likelihood, atol=0.2)


def test_the_kernel_density_of_a_histogram_is_that_of_its_points():
    rng = np.random.default_rng(1)
    x = middles()[rng.integers(0, HISTOGRAM, 300)]
    counts = np.histogram(x, bins=HISTOGRAM, range=(-1, 1))[0][None]
    found = kernel_densities(counts, np.array([[0.1]]), reflect=False)[0, 0]
    expected = np.exp(KernelDensity(bandwidth=0.1).fit(x[:, None]).score_samples(middles()[:, None]))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    reflected = np.concatenate([x, 2 - x, -2 - x])
    expected = 3 * np.exp(KernelDensity(bandwidth=0.1).fit(reflected[:, None]).score_samples(middles()[:, None]))
    np.testing.assert_allclose(kernel_densities(counts, np.array([[0.1]]), reflect=True)[0, 0], expected, atol=1e-3)


def test_the_distance_of_the_empirical_measure_on_the_line_is_that_of_its_draws():
    """E W1 = int E|F_n - F| is sqrt(2/pi) int sqrt(F (1 - F)) / sqrt(n) for large n."""
    n, smoothness = 4096, 1
    study = DiffusionRateW1(smoothness=smoothness, n=(n,), draws=40)
    rng = np.random.default_rng(2)
    found = study._on_a_line(rng)[:, 1, 0]
    again = np.random.default_rng(2)
    grid = np.linspace(-1, 1, 2001)[:, None]
    expected = []
    for _ in range(40):
        f = rough_density(smoothness, again).cdf(grid)
        expected.append(np.sqrt(2 / np.pi / n) * np.sqrt(np.clip(f * (1 - f), 0, None)).mean() * 2)
    error = found.std(ddof=1) / np.sqrt(40)
    assert abs(found.mean() - np.mean(expected)) < 4 * error
    assert error < 0.1 * np.mean(expected)
