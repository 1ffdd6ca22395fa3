"""What the single rows of a pool say at one effective penalty: leave-one-out errors, leverages and influences.

Everything here depends on kappa alone, not on n or penalty, and is analytic in log kappa for |Im log kappa| < pi. So a
grid of any size needs it at a few kappa only, and interpolates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_BIN_WIDTH = 3.0
# interpolation errors fall like 4.4^-nodes
_NODES_PER_BIN = 14
_FIELDS = 17
# of a block of residuals, to bound memory
_MOST_ENTRIES = 4_000_000


_ANGLES = (2 * np.arange(_NODES_PER_BIN) + 1) * np.pi / (2 * _NODES_PER_BIN)
_NODES = (1 + np.cos(_ANGLES)) / 2


class RowStatistics(NamedTuple):
    """At several kappa, each field with one entry for each."""

    loo_to_gcv: np.ndarray
    """Mean of ((G Y)_i / G_ii)^2 with G = (K + kappa)^-1, the leave-one-out error, over GCV."""
    unevenness: np.ndarray
    """The coefficient of variation of G_ii, 0 if all rows have the same leverage."""
    tail: np.ndarray
    """The mean square of the rows' squared leave-one-out errors over the square of their mean: 3 for normal ones."""
    influences: np.ndarray
    """Of shape (kappa, 14): what `relative_deviation` needs."""


class RowTable:
    """`RowStatistics` of a pool with eigenvectors U, computed where asked for and kept.

    With an intercept U (N, N - 1) is orthogonal to the constant vector, and G = U diag(1/(l + kappa)) U^T.
    """

    def __init__(self, eigenvalues: np.ndarray, vectors: np.ndarray, projections: np.ndarray):
        self._scale = eigenvalues.max()
        self._eigenvalues, self._vectors, self._projections = eigenvalues / self._scale, vectors, projections
        self._bins: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_bins": {}}

    def loo_errors(self, kappa: np.ndarray) -> np.ndarray:
        """Leave-one-out errors alone, for long lists of kappa."""
        logs = np.log(kappa / self._scale)
        bins = np.floor(logs / _BIN_WIDTH).astype(int)
        numbers = np.unique(bins)
        nodes = self._loo_errors(np.concatenate([_BIN_WIDTH * (number + _NODES) for number in numbers]))
        found = np.empty(kappa.shape)
        for number, values in zip(numbers, nodes.reshape(numbers.size, -1), strict=True):
            here = bins == number
            found[here] = _interpolation(logs[here] / _BIN_WIDTH - number) @ values
        return found

    def _loo_errors(self, logs: np.ndarray) -> np.ndarray:
        squares, (size, outputs) = np.square(self._vectors), self._projections.shape
        rows = len(squares)
        found = np.empty(logs.size)
        count = max(_MOST_ENTRIES // (rows * outputs), 1)
        for begin in range(0, logs.size, count):
            kappa = np.exp(logs[begin : begin + count])
            missed = kappa / (self._eigenvalues[:, None] + kappa)
            parts = (missed[:, :, None] * self._projections[:, None]).reshape(size, -1)
            residuals = np.square(self._vectors @ parts).reshape(rows, kappa.size, outputs).sum(axis=2)
            found[begin : begin + count] = np.mean(residuals / np.square(squares @ missed), axis=0)
        return found

    def statistics(self, kappa: np.ndarray) -> RowStatistics:
        """At kappa > 0, a list; NaN stays NaN."""
        logs = np.log(kappa / self._scale)
        values = np.full((kappa.size, _FIELDS), np.nan)
        known = np.flatnonzero(np.isfinite(logs))
        distinct, where = np.unique(logs[known], return_inverse=True)
        bins = np.floor(distinct / _BIN_WIDTH).astype(int)
        found = np.empty((distinct.size, _FIELDS))
        for number in np.unique(bins):
            here = bins == number
            if number not in self._bins and np.count_nonzero(here) < _NODES_PER_BIN:
                found[here] = self._exact(distinct[here])
            else:
                found[here] = self._interpolated(number, distinct[here])
        values[known] = found[where]
        return RowStatistics(values[:, 0], values[:, 1], values[:, 2], values[:, 3:])

    def _interpolated(self, number: int, logs: np.ndarray) -> np.ndarray:
        if number not in self._bins:
            self._bins[number] = self._exact(_BIN_WIDTH * (number + _NODES))
        return _interpolation(logs / _BIN_WIDTH - number) @ self._bins[number]

    def _exact(self, logs: np.ndarray) -> np.ndarray:
        missed = np.exp(logs) / (self._eigenvalues[:, None] + np.exp(logs))
        rows = len(self._vectors)
        # (kappa G)^power on the diagonal; negative rounding errors of the third are harmless
        first, second, third = (
            part.T for part in np.split(np.square(self._vectors) @ np.hstack([missed, missed**2, missed**3]), 3, axis=1)
        )
        found = np.empty((logs.size, _FIELDS))
        for k, (h, h2, h3) in enumerate(zip(first, second, third, strict=True)):
            once, twice = (self._vectors @ (missed[:, k, None] ** power * self._projections) for power in (1, 2))
            squares, products = np.sum(once**2, axis=1), np.sum(once * twice, axis=1)
            energy = squares.sum()
            left_out = squares / h**2
            gcv, loo = squares.mean() / h.mean() ** 2, left_out.mean()
            tail = np.mean((left_out / loo) ** 2) if loo > 0 else 1.0
            # K without row j has the resolvent G - G e_j e_j^T G / G_jj
            changes = np.stack(
                [np.ones(rows), -h2 / h, (h2 / h) ** 2 - 2 * h3 / h, (squares * h2 / h - 2 * products) / h / energy]
            )
            sums = h.sum(), (missed[:, k] * (1 - missed[:, k])).sum(), h3.sum(), products.sum() / energy
            gram = changes @ changes.T
            found[k] = loo / gcv, h.std() / h.mean(), tail, *sums, *gram[np.triu_indices(4)]
        return found


def _interpolation(position: np.ndarray) -> np.ndarray:
    """The matrix that takes values at the Chebyshev nodes of [0, 1] to values at these positions."""
    basis = 2 / _NODES_PER_BIN * np.cos(np.outer(np.arange(_NODES_PER_BIN), _ANGLES))
    basis[0] /= 2
    return np.cos(np.outer(np.arccos(np.clip(2 * position - 1, -1, 1)), np.arange(_NODES_PER_BIN))) @ basis


def relative_deviation(part: np.ndarray, influences: np.ndarray) -> np.ndarray:
    """The standard deviation of log E over pools, from the change of E when row j is left out (jackknife).

    With a = kappa tr G, b = kappa^2 tr G^2 and A = kappa^2 |G Y|^2 the curve is

        E = n A / (a^2 - (N-n) b),            (1 - t) a = N - n,          t = penalty / kappa (`part`).

    Leaving out row j changes a, b and A at fixed kappa by amounts that a rank-one update of G gives exactly; E and
    kappa follow to first order. d log E is then a combination of 1 and of these three changes whose coefficients
    depend on kappa and t, so its squares sum to a quadratic form in their Gram matrix. Source: Quenouille (1956) and
    Efron (1981) for the jackknife; the changes are this project's.
    """
    a, mixed, c, slope = (influences[:, i, None] for i in range(4))
    b = a - mixed
    gram = np.empty((len(influences), 4, 4))
    upper = np.triu_indices(4)
    gram[:, upper[0], upper[1]] = gram[:, upper[1], upper[0]] = influences[:, 4:]
    part = part[:, None]
    one, a_change, b_change, energy_change = np.eye(4)
    remaining = part * a + (1 - part) * mixed
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kappa = -(one + (1 - part) * a_change) / remaining
        below = 2 * (a_change + mixed * kappa) + b / a * one - (1 - part) * (b_change + 2 * (b - c) * kappa)
        total = energy_change + 2 * (1 - slope) * kappa - below / remaining
        rows = gram[:, 0, 0]
        mean = np.sum(total * gram[:, 0], axis=1) / rows
        squares = np.einsum("ki,kij,kj->k", total, gram, total) - rows * mean**2
        return np.sqrt(np.maximum(squares, 0.0) * (rows - 1) / rows)
