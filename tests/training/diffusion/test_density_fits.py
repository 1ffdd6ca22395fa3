import numpy as np
from sklearn.neighbors import KernelDensity

from unlazy.functions.rough_densities import rough_density
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import fit_histograms
from unlazy.training.diffusion.density_fits import HISTOGRAM, fit_cells, kernel_densities, middles


def test_fits_on_merged_bins_are_those_of_all_bins_far_below_the_noise():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(4**8, rough_density(2, rng).masses(HISTOGRAM), size=2)
    fits = fit_cells(counts, 12, 2)
    basis = SplineBasis(14, 2)
    exact = fit_histograms(basis, counts)
    distance = np.abs(fits.densities - exact.coefficients @ basis.values(middles()).T).mean(axis=1)
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
