"""Averages over draws: in strata that reach where steep functions live, with control variates, over windows of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from unlazy.checks import InputError, check_array
from unlazy.functions.orthogonal import Hermite


def wide_draws(rng: np.random.Generator, n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """z ~ N(0, spread^2), one in each of n strata, and weights that make means of f(z) those of N(0, 1)."""
    from scipy.special import ndtri

    z = spread * ndtri((np.arange(n) + rng.uniform(1e-12, 1.0, n)) / n)
    return z, spread * np.exp(-(z**2) / 2 * (1 - spread**-2)) / n


def moments(values: np.ndarray, z: np.ndarray, weights: np.ndarray, powers: Sequence[int], degree: int) -> np.ndarray:
    """E[f^i h_k] / E|f^i h_k| for every power i and k = 1, ..., degree, by weighted draws; f is given at z."""
    basis = Hermite().values(z, degree)[1:]
    # as a share of its largest value no power of f overflows
    values = values / np.abs(values).max()
    factors = [weights * values**i for i in powers]
    return np.array([(basis @ each) / (np.abs(basis) @ np.abs(each)) for each in factors])


def exact_moments(function: Callable[[Any], Any], reach: float, powers: Sequence[int], degree: int) -> np.ndarray:
    """The same by the trapezoidal rule on |z| <= reach."""
    z = np.linspace(-reach, reach, 40_001)
    return moments(function(z), z, np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0]), powers, degree)


def without_controls(values: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Values (..., samples) less their regression over samples on controls (..., samples, k), whose means are 0."""
    centred = controls - controls.mean(axis=-2, keepdims=True)
    deviation = values - values.mean(axis=-1, keepdims=True)
    coefficients = np.linalg.pinv(centred) @ deviation[..., None]
    return values - (controls @ coefficients)[..., 0]


def window_shares(edges: Sequence[int]) -> np.ndarray:
    """The matrix (1 + windows, 1 + observations) that averages the observations of each window; first the start."""
    found = check_array("edges", edges, ndim=1, low=0, high=1e7, whole=True).astype(int)
    if (np.diff(found) <= 0).any():
        raise InputError("edges must increase")
    edges = found.tolist()
    shares = np.zeros((len(edges), edges[-1] + 1))
    shares[0, 0] = 1
    for row, (low, high) in enumerate(pairwise(edges), 1):
        shares[row, low + 1 : high + 1] = 1 / (high - low)
    return shares


def placed_in_cells(
    points: np.ndarray, masses: np.ndarray, side: float, which: Any, where: Any, numpy: Any = np
) -> Any:
    """Draws (count, d) from masses on points: a cell by uniform numbers `which` (count,), in it a place by `where`.

    Cells are cubes of the given side around the points. `numpy` is the module of arrays to compute with, in the
    precision of `where` (count, d): `jax.numpy` inside a traced function.
    """
    cumulative = np.cumsum(masses)
    cells = numpy.searchsorted(numpy.asarray(cumulative / cumulative[-1], where.dtype), which, side="right")
    cells = numpy.minimum(cells, len(cumulative) - 1)
    return numpy.asarray(points, where.dtype)[cells] + side * (where - 0.5)
