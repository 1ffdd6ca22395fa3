"""Few nodes for many points: sums over positive points of functions that are smooth in their logarithm.

Every sum of ridge theory has the form sum_i w_i f(log l_i - log kappa) with f(t) a product of 1 / (1 + e^t) and
1 / (1 + e^-t), one function of the points for each kappa.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

NODES_PER_BIN = 20
_BIN_WIDTH = 2.0
# below this half-width in log l the local coordinate would be rounding error only
_LEAST_HALF_WIDTH = 1e-2
# nodes below it would lose digits as denormal numbers
_SMALLEST = 1e-300
# a block of points stays in the cache while the Chebyshev recurrence passes over it
_BLOCK = 8192


class Compressed(NamedTuple):
    """Measures on ascending nodes; the nodes of one bin follow each other."""

    nodes: np.ndarray
    weights: np.ndarray
    """One row per measure; weights of both signs occur."""
    lower: np.ndarray
    """The smallest point of the bin of each node."""
    totals: np.ndarray
    """The sums of the measures over each bin, which stand at one node of the bin; 0 at its other nodes."""


def compress(points: np.ndarray, weights: np.ndarray) -> Compressed:
    """Nodes and weights that give sums over positive points l_i of functions analytic in log l.

        sum_i w_ai f(l_i) = sum_k W_ak f(x_k) (1 + error),    W_ak = sum_i w_ai L_k(log l_i)

    log l is cut into bins at most 2 wide; in each the x_k are the 20 Chebyshev points and L_k their Lagrange
    basis, so that the sum becomes that of the interpolant of f. Bins with at most 20 distinct points keep
    these, and points below 1e-300 are kept too. Rows of `weights` (non-negative) are measures on the same
    points and share the nodes.

    Where f is analytic and at most M inside the ellipse with foci at the ends of a bin and semi-axes summing
    to r, the interpolant is within 4 M r^-19 / (r - 1) of f (Trefethen 2013, Theorem 8.2). The poles of
    f = (l / (l + kappa))^a (kappa / (l + kappa))^b lie at log l = log kappa +- i pi: r = 6.44 and less than 1e-13
    relative error for 1 <= a + b <= 2, rounding included, for every kappa and each bin alone. Sums of positive
    terms so keep 12 digits.
    """
    order = np.argsort(points, kind="stable")
    points, weights = points[order], weights[:, order]
    edges = _bins(points)
    parts = [_bin(points[a:b], weights[:, a:b]) for a, b in pairwise(edges)]
    return Compressed(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))


def most_bins(points: np.ndarray) -> float:
    """A bound on the number of bins of `compress` for positive points of at least 1e-300."""
    return 1 + (np.log(points.max()) - np.log(points.min())) / _BIN_WIDTH


def _bins(points: np.ndarray) -> list[int]:
    """The first index of each bin of the ascending points, and their number."""
    edges = [0]
    while edges[-1] < points.size:
        start = points[edges[-1]]
        end = np.searchsorted(points, start * np.exp(_BIN_WIDTH), side="right") if start >= _SMALLEST else edges[-1] + 1
        edges.append(int(end))
    return edges


def _bin(points: np.ndarray, weights: np.ndarray) -> Compressed:
    first = np.flatnonzero(np.diff(points, prepend=-np.inf))
    if first.size <= NODES_PER_BIN:
        kept, sums = points[first], np.add.reduceat(weights, first, axis=1)
        return Compressed(kept, sums, kept, sums)
    smallest, largest = points[0], points[-1]
    centre = np.sqrt(smallest) * np.sqrt(largest)
    half_width = max(0.5 * np.log(largest / smallest), _LEAST_HALF_WIDTH)
    angles = (2 * np.arange(NODES_PER_BIN)[::-1] + 1) * np.pi / (2 * NODES_PER_BIN)
    basis = 2 / NODES_PER_BIN * np.cos(np.outer(np.arange(NODES_PER_BIN), angles))
    basis[0] /= 2
    totals = np.zeros((len(weights), NODES_PER_BIN))
    totals[:, 0] = weights.sum(axis=1)
    return Compressed(
        centre * np.exp(half_width * np.cos(angles)),
        _chebyshev_moments(np.log(points / centre) / half_width, weights) @ basis,
        np.full(NODES_PER_BIN, smallest),
        totals,
    )


def _chebyshev_moments(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum_i w_ai T_j(x_i) for j below the number of nodes."""
    moments = np.zeros((NODES_PER_BIN, len(weights)))
    for begin in range(0, x.size, _BLOCK):
        block, rows = x[begin : begin + _BLOCK], np.ascontiguousarray(weights[:, begin : begin + _BLOCK])
        previous, current, twice = np.ones(block.size), block, 2 * block
        moments[0] += rows.sum(axis=1)
        for j in range(1, NODES_PER_BIN):
            moments[j] += rows @ current
            previous, current = current, twice * current - previous
    return moments.T
