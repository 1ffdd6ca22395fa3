"""Averages over draws: in strata, along sorted points, with control variates, over windows of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
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


def ranked_normals(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Noise N(0, 1) for a step of points (n, ...), even over its own quantiles and the ranks of the points at once.

    Each column of the points has a step of its own. Averages over points that diffuse on a line have then errors of
    about 1/n, where independent noise leaves n^(-1/2); those of one step are without bias. Source: L'Ecuyer, Lecot &
    Tuffin (2008), with the sequence of van der Corput and a random shift.
    """
    from scipy.special import ndtri

    points = np.asarray(points)
    shift = rng.random(points.shape[1:])
    strata = (_mixed(len(points)).reshape(-1, *[1] * shift.ndim) + shift) % 1.0
    noise = np.empty_like(points)
    np.put_along_axis(noise, points.argsort(axis=0), ndtri(np.maximum(strata, 1e-12)), axis=0)
    return noise


@lru_cache(maxsize=8)
def _mixed(n: int) -> np.ndarray:
    """The multiples of 1/n below 1, in the order of their binary digits read backwards."""
    digits = np.arange(n)[:, None] >> np.arange(max(n - 1, 1).bit_length()) & 1
    return (digits @ 0.5 ** np.arange(1, digits.shape[1] + 1)).argsort().argsort() / n


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
