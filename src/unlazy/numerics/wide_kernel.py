"""The kernels of an infinitely wide two-layer network with standard normal weights, for any activation."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.orthogonal import Hermite

_DEGREE = 12
_ROWS = 32


class HermiteHalf(NamedTuple):
    """A rule on z > 0 for products of two functions that are both even or both odd in a standard normal z."""

    points: np.ndarray
    weights: np.ndarray
    """E f = weights @ f(points) for even f."""
    basis: np.ndarray
    """weights h_k(points) for k of the functions' parity, (degrees, points)."""
    first: int
    """The least k, 0 or 1; the others follow in steps of two."""


@cache
def hermite_halves(degree: int) -> tuple[HermiteHalf, HermiteHalf]:
    """The rules for even and for odd functions, with Hermite polynomials up to the degree.

    512 points, denser towards 0: for functions with a kink, a jump or a steep slope at 0, and others that are smooth
    over a distance of about .1.
    """
    points, weights = Hermite().grid(0, (0.0,))
    positive = points > 0
    points, weights = points[positive], weights[positive] / weights[positive].sum()
    basis = Hermite().values(points, degree) * weights
    return HermiteHalf(points, weights, basis[::2], 0), HermiteHalf(points, weights, basis[1::2], 1)


def wide_kernel(function: Any, points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """E f(w.x) f(w.y), w ~ N(0, I), for rows x of `points` (p, d) and y of `others` (q, d): shape (p, q).

        sum_k c_k(|x|) c_k(|y|) cos^k,      c_k(r) = E[f(r z) h_k(z)] with Hermite polynomials h_k, E h_k^2 = 1.

    Beyond k = 12 the odd and the even terms are closed by their sums at cos = 1, times cos^13 and cos^14: exact for
    rows on one line, and elsewhere to |cos|^13 of what is left of E f(|x| z) f(|y| z), where cosines are small in high
    dimension. f may have a kink, a jump or a steep slope at 0, at any |x|; if it has them elsewhere or oscillates,
    f(|x| z) must be smooth over distances of .1 in z.
    """
    norms = np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(others, axis=1)
    cosine = np.clip(points @ others.T / np.maximum(norms, np.finfo(np.float64).tiny), -1, 1)
    found = np.zeros_like(cosine)
    sides = zip(hermite_halves(_DEGREE), _parts(function, points), _parts(function, others), strict=True)
    # An odd f has no even part and an even one no odd part.
    halves = [
        (half, left * half.weights, right, left @ half.basis.T, right @ half.basis.T)
        for half, left, right in sides
        if left.any() and right.any()
    ]
    # A few rows at a time stay in the processor's cache over all powers.
    for first in range(0, len(points), _ROWS):
        rows = slice(first, first + _ROWS)
        square = cosine[rows] ** 2
        for half, left, right, a, b in halves:
            part = left[rows] @ right.T - a[rows] @ b.T
            for c, d in zip(a[rows].T[::-1], b.T[::-1], strict=True):
                part *= square
                part += np.outer(c, d)
            found[rows] += part * cosine[rows] if half.first else part
    return found


def wide_tangent_kernel(function: Any, slope: Any, points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The tangent kernel of both layers, E f(w.x) f(w.y) + x.y E f'(w.x) f'(w.y); Jacot, Gabriel & Hongler (2018)."""
    return wide_kernel(function, points, others) + (points @ others.T) * wide_kernel(slope, points, others)


def _parts(function: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The even and the odd part of f(|x| z) at the points of the rules, each (rows, points)."""
    places = np.linalg.norm(rows, axis=1)[:, None] * hermite_halves(_DEGREE)[0].points
    right, left = function(places), function(-places)
    return (right + left) / 2, (right - left) / 2
