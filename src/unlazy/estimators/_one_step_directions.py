"""Directions that one step on a data set finds: the ridge direction, its refinements, those of the second moment."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unlazy.numerics.gaussian import Piecewise

_RIDGES = np.logspace(-9, 4, 40)
_ROUNDING = 1e-13
_SMOOTHING_RIDGES = np.logspace(-7, 1, 17)
_SMOOTHING_SPIKE = 2.0
_SMOOTHING_FEATURES = 100
_SETTLED = 1e-3
_MOST_NUMBERS = 2e8


class Factors(NamedTuple):
    """Z = sqrt(n) U diag(s) V^T on its rank."""

    squares: np.ndarray
    """s^2, the eigenvalues of Z^T Z / n."""
    right: np.ndarray
    """V, (d, rank)."""
    projected: np.ndarray
    """U^T y / sqrt(n)."""


class LinearFit(NamedTuple):
    """Ridge regression of y on rows Z, both centred, with the ridge of least GCV."""

    factors: Factors
    ridge: float
    coefficients: np.ndarray
    """(Z^T Z / n + ridge)^-1 Z^T y / n."""


class Signal(NamedTuple):
    """What is linear in the labels, as far as it can be told from noise."""

    z: float
    """The estimate over its standard deviation if there were nothing linear."""
    square: float
    """Estimate of b1^2, the variance of y that is linear in x; it can be negative."""


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


def linear_signal(rows: np.ndarray, labels: np.ndarray, factors: Factors) -> Signal:
    """Whether y correlates with any direction of x, from products of different samples.

    With S the covariance of z, t its trace and w = (S + t/n)^(-1/2) z, which is x whitened for n >> d,

        T = sum_{i != j} y_i y_j w_i.w_j - m |y|^2,    m = sum_i |w_i|^2 / (n (n - 1)),
        z = T / sqrt(2 sum_{i != j} y_i^2 y_j^2 (w_i.w_j)^2),
        b1^2 = T / (sum_{i != j} (w_i.w_j) (z_i.z_j) / t - n m).

    m |y|^2 is the mean of the sum over permutations of y, not 0 because both are centred. The root is the standard
    deviation of T if y w has mean 0, however y^2 depends on w. b1^2 is unbiased if the coefficients of z are drawn from
    N(0, b1^2/t I), and for any coefficients as n/d grows.
    """
    squares, right, _ = factors
    n = len(rows)
    if not squares.size:
        return Signal(0.0, 0.0)
    trace = squares.sum()
    whitened = rows @ (right / np.sqrt(squares + trace / n))
    norms = np.sum(whitened**2, axis=1)
    weighted = whitened * labels[:, None]
    chance = norms.sum() / (n * (n - 1))
    total = np.sum(weighted.sum(axis=0) ** 2) - np.sum(labels**2 * norms) - chance * (labels @ labels)
    spread = np.sum((weighted.T @ weighted) ** 2) - np.sum((labels**2 * norms) ** 2)
    kernel = n**2 * np.sum(squares**2 / (squares + trace / n)) - np.sum(norms * np.sum(rows**2, axis=1))
    weight = kernel / trace - n * chance
    if spread <= 0 or weight <= 0:
        return Signal(0.0, 0.0)
    return Signal(float(total / np.sqrt(2 * spread)), float(total / weight))


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


def unit_spread(rows: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The directions (d, k) scaled so that rows @ directions has variance 1; 0 stays 0."""
    spread = np.std(rows @ directions, axis=0)
    return directions / np.where(spread > 0, spread, 1.0)


def refine(
    rows: np.ndarray,
    labels: np.ndarray,
    directions: np.ndarray,
    steps: int,
    activation: Piecewise,
    weights: np.ndarray,
    biases: np.ndarray,
) -> np.ndarray:
    """Further preconditioned steps on the directions V alone, each linearised about a smooth fit g of y on them.

    With s = V^T z a step solves y - g(s) + g'(s).s ~ sum_k g'_k(s) v_k.z for V by ridge regression with GCV:
    Gauss-Newton for the least squares of a model of few indices. For linear g it returns the ridge direction.
    """
    n, d = rows.shape
    count = directions.shape[1]
    if n * count * d > _MOST_NUMBERS:
        return directions
    weights, biases = weights[:, :_SMOOTHING_FEATURES], biases[:_SMOOTHING_FEATURES]
    for _ in range(steps):
        index = rows @ directions
        hidden = _SMOOTHING_SPIKE * index @ weights + biases
        features = np.column_stack([activation(hidden), index])
        features -= features.mean(axis=0)
        readout = linear_fit(features, labels, _SMOOTHING_RIDGES).coefficients
        outer, linear = readout[: len(biases)], readout[len(biases) :]
        slopes = _SMOOTHING_SPIKE * (activation.slope(hidden) * outer) @ weights.T + linear
        response = labels - features @ readout + np.sum(slopes * index, axis=1)
        design = (slopes[:, :, None] * rows[:, None, :]).reshape(n, count * d)
        design -= design.mean(axis=0)
        solved = linear_fit(design, response - response.mean()).coefficients.reshape(count, d).T
        moved = unit_spread(rows, solved)
        change = np.mean((rows @ moved - index) ** 2)
        directions = moved
        if change < _SETTLED**2:
            break
    return directions


def _gcv(factors: Factors, total: float, ridges: np.ndarray, n: int) -> Any:
    """|residual|^2 / (trace of the residual operator)^2 of each ridge up to a factor.

    The mean takes one degree of freedom, without which the value would fall to 0 at ridge 0 for n <= d.
    """
    residual = ridges[:, None] / (factors.squares + ridges[:, None])
    outside = max(total - factors.projected @ factors.projected, 0.0)
    trace = residual.sum(axis=1) + max(n - 1 - factors.squares.size, 0)
    return (residual**2 @ factors.projected**2 + outside) / np.maximum(trace, np.finfo(float).tiny) ** 2
