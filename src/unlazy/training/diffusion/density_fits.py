"""Densities on [-1, 1]^d fitted to fine histograms: splines by maximum likelihood, and kernel densities.

What score matching over spline scores fits is a maximum likelihood estimator. Histograms on the line have `HISTOGRAM`
bins, far finer than what any number of rows here resolves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unlazy.functions.rough_densities import rough_density
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import fit_histograms, fit_tensor_histogram

HISTOGRAM = 2048
_BINS_PER_CELL = 8
_FEWEST_BINS = 128


class Histograms(NamedTuple):
    """Masses of the bins and densities at their middles, (number, HISTOGRAM); counts (number, n, HISTOGRAM)."""

    masses: np.ndarray
    densities: np.ndarray
    counts: np.ndarray


class Fits(NamedTuple):
    """Fits to histograms: masses of the bins and densities at their middles, (rows, HISTOGRAM), and AIC (rows,)."""

    masses: np.ndarray
    densities: np.ndarray
    aic: np.ndarray


class DensityErrors(NamedTuple):
    """Total variations and Akaike's criterion, (densities, histograms, numbers of cells)."""

    error: np.ndarray
    aic: np.ndarray


def middles() -> np.ndarray:
    """The middles of the bins of the histogram on [-1, 1]."""
    return (2 * np.arange(HISTOGRAM) + 1) / HISTOGRAM - 1


def rate_cells(n: int, smoothness: int, d: int, factor: float) -> int:
    """The number of cells per axis that the minimax rate asks for, factor n^(1/(2s + d))."""
    return max(2, round(factor * n ** (1 / (2 * smoothness + d))))


@lru_cache(maxsize=64)
def _tables(cells: int, degree: int) -> tuple[SplineBasis, np.ndarray, np.ndarray]:
    """A basis with its values at the middles of the bins and its masses on them."""
    basis = SplineBasis(cells + degree, degree)
    return basis, basis.values(middles()), basis.masses(np.linspace(-1, 1, HISTOGRAM + 1))


def draw_histograms(rng: np.random.Generator, smoothness: int, n: Sequence[int], densities: int) -> Histograms:
    """Rough densities on the line, and for each of them a histogram of every n."""
    drawn = [rough_density(smoothness, rng) for _ in range(densities)]
    masses = np.stack([density.masses(HISTOGRAM) for density in drawn])
    truth = np.stack([density.pdf(middles()[:, None]) for density in drawn])
    return Histograms(masses, truth, np.stack([rng.multinomial(n, p) for p in masses]))


def fit_cells(counts: np.ndarray, cells: int, degree: int) -> Fits:
    """Fit a stack of histograms (rows, HISTOGRAM) and score each by Akaike's criterion.

    Eight bins per cell of the spline hold all that a polynomial piece can use; the likelihood is that of all bins, so
    that numbers of cells are compared on the same data.
    """
    basis, values, masses = _tables(cells, degree)
    bins = max(_FEWEST_BINS, 1 << int(np.ceil(np.log2(_BINS_PER_CELL * cells))))
    merged = counts.reshape(len(counts), min(bins, HISTOGRAM), -1).sum(axis=2)
    coefficients = fit_histograms(basis, merged).coefficients
    fitted = coefficients @ masses.T
    likelihood = (counts * np.log(fitted)).sum(axis=1)
    return Fits(fitted, coefficients @ values.T, 2 * (basis.n_basis - 1) - 2 * likelihood)


def spline_errors(
    counts: np.ndarray, truth: np.ndarray, cells: tuple[int, ...], degree: int, most: Sequence[float]
) -> DensityErrors:
    """The errors of splines with all numbers of cells, for histograms (densities, histograms, HISTOGRAM).

    `truth` has the densities at the middles of the bins, (densities, HISTOGRAM), and `most` the largest number of cells
    for each of the histograms: what is above has infinite error and criterion.
    """
    error, aic = np.full((2, *counts.shape[:2], len(cells)), np.inf)
    for index, number in enumerate(cells):
        tried = np.asarray(most) >= number
        fits = fit_cells(counts[:, tried].reshape(-1, HISTOGRAM), number, degree)
        densities = fits.densities.reshape(len(counts), -1, HISTOGRAM)
        error[:, tried, index] = np.abs(densities - truth[:, None]).mean(axis=2)
        aic[:, tried, index] = fits.aic.reshape(len(counts), -1)
    return DensityErrors(error, aic)


def tensor_fits(
    rng: np.random.Generator, smoothness: int, n: Sequence[int], d: int, bins: int, factor: float, *, merged: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Tensor-product splines for one rough density in d = 2 or 3 dimensions, with factor n^(1/(2s + d)) cells per axis.

    For every n the masses of the density and of the spline and the counts of the data, all on a histogram with `bins`
    bins per axis; the fit sees `merged` of them as one.
    """
    masses = rough_density(smoothness, rng, d=d).masses(bins)
    for size in n:
        counts = rng.multinomial(size, masses.ravel()).reshape(masses.shape)
        coarse = counts.reshape((bins // merged, merged) * d).sum(axis=tuple(range(1, 2 * d, 2)))
        basis = SplineBasis(rate_cells(size, smoothness, d, factor) + smoothness, smoothness)
        # far below the n_basis / (2n) by which likelihoods of samples differ
        weights = fit_tensor_histogram((basis,) * d, coarse, gap=0.03 * basis.n_basis**d / size).coefficients
        axis = basis.masses(np.linspace(-1, 1, bins + 1))
        product = "ab,ia,jb->ij" if d == 2 else "abc,ia,jb,kc->ijk"
        yield masses, np.einsum(product, weights, *(axis,) * d, optimize=True), counts


def kernel_densities(counts: np.ndarray, bandwidths: np.ndarray, *, reflect: bool) -> np.ndarray:
    """Gaussian kernel densities (rows, bandwidths, HISTOGRAM) of a stack of histograms on [-1, 1].

    The bandwidths (rows, bandwidths) are in units of x. With `reflect` the mass that leaves the interval comes back
    from its ends; without, it is lost.
    """
    length = 2 * HISTOGRAM
    shares = counts / counts.sum(axis=1, keepdims=True)
    padded = np.zeros((len(counts), length))
    padded[:, :HISTOGRAM] = shares
    if reflect:
        padded[:, HISTOGRAM:] = shares[:, ::-1]
    frequencies = 2 * np.pi * np.fft.rfftfreq(length, 2 / HISTOGRAM)
    damping = np.exp(-0.5 * (bandwidths[..., None] * frequencies) ** 2)
    smooth = np.fft.irfft(np.fft.rfft(padded)[:, None] * damping, n=length)
    return smooth[..., :HISTOGRAM] * HISTOGRAM / 2


def kernel_errors(counts: np.ndarray, truth: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The total variation of kernel densities with plain and with reflected ends, (2, rows).

    That of the best of the bandwidths `factors` std n^(-1/5), for histograms (rows, HISTOGRAM) of one density.
    """
    n = counts.sum(axis=1)
    shares, x = counts / n[:, None], middles()
    deviation = np.sqrt(shares @ x**2 - (shares @ x) ** 2)
    bandwidths = (deviation * n**-0.2)[:, None] * factors
    densities = (kernel_densities(counts, bandwidths, reflect=reflect) for reflect in (False, True))
    return np.array([np.abs(found - truth).mean(axis=2).min(axis=1) for found in densities])
