"""Spline fits of all sample sizes and numbers of cells of a rate study, from histograms drawn as counts."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import fit_histograms

HISTOGRAM = 2048
_BINS_PER_CELL = 8
_FEWEST_BINS = 128


class Tables(NamedTuple):
    """A basis with its values at the middles of the bins and its masses and distribution functions on them."""

    basis: SplineBasis
    values: np.ndarray
    masses: np.ndarray


class Fits(NamedTuple):
    """Fits with `cells` cells of every histogram of a stack."""

    coefficients: np.ndarray
    aic: np.ndarray
    tables: Tables


def middles() -> np.ndarray:
    """The middles of the bins of the histogram on [-1, 1]."""
    return (2 * np.arange(HISTOGRAM) + 1) / HISTOGRAM - 1


@lru_cache(maxsize=64)
def tables(cells: int, degree: int) -> Tables:
    basis = SplineBasis(cells + degree, degree)
    return Tables(basis, basis.values(middles()), basis.masses(np.linspace(-1, 1, HISTOGRAM + 1)))


def fit_cells(counts: np.ndarray, cells: int, degree: int) -> Fits:
    """Fit a stack of histograms (rows, HISTOGRAM) and score each by Akaike's criterion.

    Eight bins per cell of the spline hold all that a polynomial piece can use; the likelihood is that of all bins, so
    that numbers of cells are compared on the same data.
    """
    found = tables(cells, degree)
    bins = max(_FEWEST_BINS, 1 << int(np.ceil(np.log2(_BINS_PER_CELL * cells))))
    merged = counts.reshape(len(counts), min(bins, HISTOGRAM), -1).sum(axis=2)
    coefficients = fit_histograms(found.basis, merged).coefficients
    likelihood = (counts * np.log(coefficients @ found.masses.T)).sum(axis=1)
    return Fits(coefficients, 2 * (found.basis.n_basis - 1) - 2 * likelihood, found)


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
