"""Sums over the eigenvalues of a covariance, and the effective ridge that solves an equation in them.

Many effective ridges and many eigenvalues meet in them, so here it is decided what is summed over: see
`unlazy.numerics.compress`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.numerics.compress import NODES_PER_BIN, compress, most_bins
from unlazy.numerics.roots import increasing_root

# an array of this size stays in the cache between two operations
_CHUNK_BYTES = 1e6
_BRACKET_MARGIN = 1e-9
_TABLE_SIZE = 2048
SOLVER_EVALUATIONS = 12
"""Effective ridges at which `effective_ridge` evaluates the sums for one pair of n and ridge, about."""
# the price of a compression in terms that could be summed instead: for each eigenvalue, and for each bin
_PRICE_OF_EIGENVALUE = 32
_PRICE_OF_BIN = 20_000
# fewer terms than this take a few milliseconds anyway
_LEAST_GAIN = 300_000


class Spectrum(NamedTuple):
    """The positive eigenvalues l_i with multiplicities, and what the target puts on them."""

    eigenvalues: np.ndarray
    multiplicities: np.ndarray
    signal: np.ndarray
    """Variance of the target along all copies of l_i: multiplicity l_i p_i."""
    unexplained: float
    """Variance of the target that no direction of the estimator reaches."""

    @property
    def rank(self) -> float:
        return float(self.multiplicities.sum())

    def nodes(self, evaluations: int) -> SpectralNodes:
        """The compressed spectrum where it saves more than it costs, for sums at so many effective ridges."""
        eigenvalues, multiplicities, signal, _ = self
        size = eigenvalues.size
        if evaluations * size > _LEAST_GAIN:
            bins = most_bins(eigenvalues)
            gain = evaluations * (size - NODES_PER_BIN * bins) - _PRICE_OF_EIGENVALUE * size - _PRICE_OF_BIN * bins
            if gain > _LEAST_GAIN:
                nodes, weights, lower, totals = compress(eigenvalues, np.stack([multiplicities, signal]))
                return SpectralNodes(nodes, weights[0], weights[1], lower, totals[0])
        return SpectralNodes(eigenvalues, multiplicities, signal, eigenvalues, multiplicities)


class SpectralNodes(NamedTuple):
    """What sums run over: the eigenvalues, or the fewer nodes of their compression."""

    values: np.ndarray
    multiplicities: np.ndarray
    signal: np.ndarray
    large_above: np.ndarray
    """A node counts as larger than kappa if this is: its value, or the least eigenvalue of its bin."""
    counts: np.ndarray
    """The multiplicities, or the exact ones of a bin at one of its nodes."""

    def summed(
        self, sums: Callable[[SpectralNodes, np.ndarray], tuple[np.ndarray, ...]], kappa: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """`sums` over the nodes at every effective ridge, which it gets as a column of bounded length."""
        column = kappa.reshape(-1, 1)
        rows = max(1, int(_CHUNK_BYTES / (8 * max(1, self.values.size))))
        if len(column) <= rows:
            found = sums(self, column)
        else:
            pieces = [sums(self, column[i : i + rows]) for i in range(0, len(column), rows)]
            found = tuple(np.concatenate(part) for part in zip(*pieces, strict=True))
        return tuple(part.reshape(kappa.shape) for part in found)

    def learned(self, kappa: np.ndarray) -> tuple[np.ndarray, ...]:
        """df1 in two parts whose difference from n cancels no digits.

        They are the number of eigenvalues above kappa, and the rest, from the smaller of l/(l + kappa) and
        kappa/(l + kappa).
        """
        return self.summed(_learned_parts, kappa)


def spectral_sums(nodes: SpectralNodes, kappa: np.ndarray) -> tuple[np.ndarray, ...]:
    """df1, df2, df1 - df2 and the variance of the target that is missed, for a column of effective ridges."""
    total = nodes.values + kappa
    learned, missed = nodes.values / total, kappa / total
    mixed = learned * missed
    learned_twice, missed_twice = np.square(learned), np.square(missed)
    weights = nodes.multiplicities
    return learned @ weights, learned_twice @ weights, mixed @ weights, missed_twice @ nodes.signal


def _learned_parts(nodes: SpectralNodes, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    large = nodes.large_above > kappa
    smaller = np.where(large, -kappa, nodes.values)
    smaller /= nodes.values + kappa
    return large @ nodes.counts, smaller @ nodes.multiplicities


def effective_ridge(spectrum: Spectrum, nodes: SpectralNodes, n: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """kappa > 0 between the bounds that l_i/kappa and l_min/(l_min + kappa) put on every term of df1."""
    smallest = spectrum.eigenvalues.min(initial=np.inf) if spectrum.rank else 0.0
    low = np.maximum(ridge, smallest * np.maximum(spectrum.rank - n, 0.0) / n)
    high = ridge + spectrum.eigenvalues @ spectrum.multiplicities / n
    if n.size > _TABLE_SIZE:
        low, high = _tabulated_bracket(nodes, low, high, n, ridge)

    def excess(kappa: np.ndarray, n: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        large, learned = nodes.learned(kappa)
        return ((n - large) - learned) - n * (ridge / kappa)

    return increasing_root(excess, low * (1 - _BRACKET_MARGIN), high * (1 + _BRACKET_MARGIN), n, ridge)


def _tabulated_bracket(
    nodes: SpectralNodes, low: np.ndarray, high: np.ndarray, n: np.ndarray, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The part of each bracket between two neighbours of one table of effective ridges: df1 knows no n."""
    table = np.geomspace(low.min(), high.max(), _TABLE_SIZE)
    large, learned = nodes.learned(table)
    below, above = np.zeros(n.shape, dtype=int), np.full(n.shape, _TABLE_SIZE - 1)
    while (above - below > 1).any():
        middle = (below + above) // 2
        left_of_root = (n - large[middle]) - learned[middle] < n * (ridge / table[middle])
        below, above = np.where(left_of_root, middle, below), np.where(left_of_root, above, middle)
    return np.maximum(low, table[below]), np.minimum(high, table[above])
