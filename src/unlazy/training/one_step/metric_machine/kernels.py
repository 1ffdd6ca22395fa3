"""Laplace kernels of rows in a metric, with a linear part, and the gradients of what is fitted with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

SUM, DISTANCE = "sum", "distance"
"""exp(-sum_j |z_j - z'_j| / L), a product over columns, and exp(-(|z - z'| / L)^power)."""
_TINY = 1e-12
_MEDIAN_ROWS = 500
_SIGN_ROWS = 64


class LaplaceKernel(NamedTuple):
    """exp(-(D / bandwidth)^power) + linear z.z' / mean |z|^2 of rows that a root of the metric has been applied to.

    D is the distance in units of its median over the training rows; `power` is 1 for sums, which would else not be
    positive.
    """

    kind: str
    bandwidth: float
    power: float = 1.0
    linear: float = 0.0

    def matrix(self, distances: np.ndarray, products: np.ndarray | None) -> np.ndarray:
        """From distances and, if there is a linear part, scaled inner products."""
        scaled = distances / self.bandwidth
        matrix = np.exp(-scaled if self.power == 1 else -(scaled**self.power))
        return matrix if products is None or not self.linear else matrix + self.linear * products


class MetricRows(NamedTuple):
    """Rows in a metric: those that others are compared with."""

    kind: str
    root: np.ndarray
    """(d,) for columns, (d, d) for directions; the metric is its square."""
    rows: np.ndarray
    """z root / unit."""
    unit: float
    """The median distance of the rows."""
    square: float
    """Their mean squared length."""

    def at(self, rows: np.ndarray) -> MetricRows:
        """The same metric with other rows to compare with."""
        return self._replace(rows=self.placed(rows))

    def placed(self, rows: np.ndarray) -> np.ndarray:
        return _rooted(rows, self.root) / self.unit

    def distances(self, placed: np.ndarray) -> np.ndarray:
        return _distances(self.kind, placed, self.rows)

    def products(self, placed: np.ndarray) -> np.ndarray:
        return placed @ self.rows.T / self.square


def in_metric(kind: str, rows: np.ndarray, root: np.ndarray) -> MetricRows:
    rooted = _rooted(rows, root)
    some = rooted[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MEDIAN_ROWS)).astype(int))]
    between = _distances(kind, some, some)[np.triu_indices(len(some), 1)]
    # of rows that mostly agree the median is 0
    unit = float(np.median(between)) or float(between.mean()) or 1.0
    rooted /= unit
    return MetricRows(kind, root, rooted, unit, float(np.mean(np.sum(rooted**2, axis=1))) or 1.0)


def gradient_outer_product(
    metric: MetricRows, kernel: LaplaceKernel, rows: np.ndarray, distances: np.ndarray, dual: np.ndarray
) -> np.ndarray:
    """The mean over rows and the sum over outputs of grad f grad f^T, f = sum_i dual_i k(., z_i): (d,) or (d, d).

    In z itself. Where two rows agree, the kernel has a kink, and its gradient is taken for 0.
    """
    n, d = rows.shape
    nonlinear = kernel._replace(linear=0.0).matrix(distances, None)
    slopes = kernel.linear * (metric.rows.T @ dual) / metric.square
    if kernel.kind == SUM:
        squares = np.zeros(d)
        for j, pulls in enumerate(_signed_sums(nonlinear, metric.rows, dual)):
            squares[j] = np.sum((slopes[j] - pulls / kernel.bandwidth) ** 2) / n
        return squares * (metric.root / metric.unit) ** 2
    scaled = np.maximum(distances / kernel.bandwidth, _TINY)
    pull = nonlinear * kernel.power * scaled ** (kernel.power - 2) / kernel.bandwidth**2
    pull[distances <= _TINY] = 0.0
    total = np.zeros((d, d))
    for output, slope in zip(dual.T, slopes.T, strict=True):
        weighted = pull * output
        inside = weighted @ metric.rows - weighted.sum(axis=1)[:, None] * metric.rows + slope
        gradient = _rooted(inside, metric.root.T) / metric.unit
        total += gradient.T @ gradient / n
    return total


def _signed_sums(weights: np.ndarray, rows: np.ndarray, dual: np.ndarray) -> Iterator[np.ndarray]:
    """For each column z of the rows, sum_j weights_ij sign(z_i - z_j) dual_j, (n, outputs)."""
    n = len(rows)
    total = weights @ dual
    signs = np.empty((_SIGN_ROWS, n))
    for column in rows.T:
        low, high = column.min(), column.max()
        above = column == high
        if np.all(above | (column == low)):
            # only rows of the other value pull
            upper = weights @ (dual * above[:, None])
            yield np.where(above[:, None], total - upper, -upper)
            continue
        found = np.empty(dual.shape)
        # in blocks that stay in the processor's cache
        for start in range(0, n, _SIGN_ROWS):
            here = slice(start, min(start + _SIGN_ROWS, n))
            block = signs[: here.stop - start]
            np.subtract(column[here, None], column, out=block)
            np.sign(block, out=block)
            block *= weights[here]
            found[here] = block @ dual
        yield found


def _rooted(rows: np.ndarray, root: np.ndarray) -> np.ndarray:
    return rows * root if root.ndim == 1 else rows @ root


def _distances(kind: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    if kind == SUM:
        low, high = right.min(axis=0), right.max(axis=0)
        two = np.all((right == low) | (right == high), axis=0) & np.all((left == low) | (left == high), axis=0)
        between = cdist(left[:, ~two], right[:, ~two], "cityblock")
        # |a - b| of two values is a square, and squares are products of matrices
        units = np.sqrt((high - low)[two])
        return between + _squares((left > low)[:, two] * units, (right > low)[:, two] * units)
    return np.sqrt(_squares(left, right))


def _squares(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Squared distances."""
    squares = left @ (-2 * right.T)
    squares += np.sum(left**2, axis=1)[:, None]
    squares += np.sum(right**2, axis=1)
    return np.maximum(squares, 0.0, out=squares)
