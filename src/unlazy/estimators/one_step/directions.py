"""Directions that one step on a data set finds: the ridge direction, its refinements, those of the second moment."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.elementwise import Link
from unlazy.numerics.index_directions import Factors, refined_directions

_RIDGES = np.logspace(-9, 4, 40)
_ROUNDING = 1e-13
_SMOOTHING_RIDGES = np.logspace(-7, 1, 17)
_SMOOTHING_SPIKE = 2.0
_SMOOTHING_FEATURES = 100
_MOST_NUMBERS = 2e8


class LinearFit(NamedTuple):
    """Ridge regression of y on rows Z, both centred, with the ridge of least GCV."""

    factors: Factors
    ridge: float
    coefficients: np.ndarray
    """(Z^T Z / n + ridge)^-1 Z^T y / n."""


def linear_fit(rows: np.ndarray, labels: np.ndarray, ridges: np.ndarray = _RIDGES) -> LinearFit:
    """Ridge regression with the ridge of least generalised cross-validation; rows and labels have mean 0.

    `ridges` are relative to the largest eigenvalue. They are far above the rounding errors of a Gram matrix, so the
    smaller one is enough and no d x d matrix is made for n < d.
    """
    n, d = rows.shape
    if n < d:
        values, vectors = np.linalg.eigh(rows @ rows.T / n)
    else:
        values, vectors = np.linalg.eigh(rows.T @ rows / n)
    kept = values > max(values[-1], 0.0) * _ROUNDING
    values, vectors = values[kept], vectors[:, kept]
    right = rows.T @ (vectors / np.sqrt(n * values)) if n < d else vectors
    factors = Factors(values, right, right.T @ (rows.T @ labels / n) / np.sqrt(values))
    if not values.size:
        return LinearFit(factors, 1.0, np.zeros(d))
    candidates = values[-1] * ridges
    ridge = float(candidates[np.argmin(_gcv(factors, labels @ labels / n, candidates, n))])
    return LinearFit(factors, ridge, right @ (np.sqrt(values) * factors.projected / (values + ridge)))


class SecondMoment:
    """sum_i e_i w_i w_i^T with w = (S + ridge)^(-1/2) z and e the residual of the ridge regression.

    Its eigenvectors of largest |eigenvalue| see what is quadratic in x, such as an even link, to which a gradient step
    is blind.
    """

    def __init__(self, rows: np.ndarray, labels: np.ndarray, fit: LinearFit):
        self.map = fit.factors.right / np.sqrt(fit.factors.squares + fit.ridge)
        self.whitened = rows @ self.map
        self.residuals = labels - rows @ fit.coefficients

    def directions(self, count: int) -> np.ndarray:
        """(d, count), the last of them 0 if the rows span fewer."""
        values, vectors = self._eigen
        found = self.map @ vectors[:, np.argsort(-np.abs(values))[:count]]
        return np.pad(found, ((0, 0), (0, count - found.shape[1])))

    def visible(self, most: int, permutations: int, random: np.random.RandomState) -> int:
        """How many eigenvalues, at most `most`, exceed all of those of permuted residuals."""
        if not self.map.shape[1] or most < 1:
            return 0
        shuffled = (self._matrix(random.permutation(self.residuals)) for _ in range(permutations))
        null = max(np.abs(np.linalg.eigvalsh(matrix)).max() for matrix in shuffled)
        return min(most, int(np.sum(np.abs(self._eigen[0]) > null)))

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self._matrix(self.residuals))
        return values, vectors

    def _matrix(self, residuals: np.ndarray) -> np.ndarray:
        return self.whitened.T @ (self.whitened * residuals[:, None])


def refine(
    rows: np.ndarray,
    labels: np.ndarray,
    directions: np.ndarray,
    steps: int,
    activation: Link,
    weights: np.ndarray,
    biases: np.ndarray,
) -> np.ndarray:
    """Further preconditioned steps on the directions V alone, each linearised about a smooth fit g of y on them.

    `refined_directions` with g of random features and ridge regression with GCV: for linear g the ridge direction.
    """
    n, d = rows.shape
    count = directions.shape[1]
    if n * count * d > _MOST_NUMBERS:
        return directions
    weights, biases = weights[:, :_SMOOTHING_FEATURES], biases[:_SMOOTHING_FEATURES]

    def smooth(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = _SMOOTHING_SPIKE * index @ weights + biases
        features = np.column_stack([activation(hidden), index])
        features -= features.mean(axis=0)
        readout = linear_fit(features, labels, _SMOOTHING_RIDGES).coefficients
        outer, linear = readout[: len(biases)], readout[len(biases) :]
        return features @ readout, _SMOOTHING_SPIKE * (activation.slope(hidden) * outer) @ weights.T + linear

    def solve(design: np.ndarray, response: np.ndarray) -> np.ndarray:
        return linear_fit(design, response).coefficients

    return refined_directions(rows, labels, directions, steps, smooth, solve)


def _gcv(factors: Factors, total: float, ridges: np.ndarray, n: int) -> Any:
    """|residual|^2 / (trace of the residual operator)^2 of each ridge up to a factor.

    The mean takes one degree of freedom, without which the value would fall to 0 at ridge 0 for n <= d.
    """
    residual = ridges[:, None] / (factors.squares + ridges[:, None])
    outside = max(total - factors.projected @ factors.projected, 0.0)
    trace = residual.sum(axis=1) + max(n - 1 - factors.squares.size, 0)
    return (residual**2 @ factors.projected**2 + outside) / np.maximum(trace, np.finfo(float).tiny) ** 2
