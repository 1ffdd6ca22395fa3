"""Directions of a model of few indices, y = g(V^T x) + noise: whether rows show one, and Gauss-Newton steps to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_SETTLED = 1e-3


class Factors(NamedTuple):
    """Z = sqrt(n) U diag(s) V^T on its rank."""

    squares: np.ndarray
    """s^2, the eigenvalues of Z^T Z / n."""
    right: np.ndarray
    """V, (d, rank)."""
    projected: np.ndarray
    """U^T y / sqrt(n)."""


class Signal(NamedTuple):
    """What is linear in the labels, as far as it can be told from noise."""

    z: float
    """The estimate over its standard deviation if there were nothing linear."""
    square: float
    """Estimate of b1^2, the variance of y that is linear in x; it can be negative."""


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


def unit_spread(rows: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The directions (d, k) scaled so that rows @ directions has variance 1; 0 stays 0."""
    spread = np.std(rows @ directions, axis=0)
    return directions / np.where(spread > 0, spread, 1.0)


def refined_directions(
    rows: np.ndarray,
    labels: np.ndarray,
    directions: np.ndarray,
    steps: int,
    smooth: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    solve: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Gauss-Newton steps of |y - g(V^T z)|^2 in the directions V (d, k), each about a smooth fit g of y on s = V^T z.

    A step solves y - g(s) + g'(s).s ~ sum_k g'_k(s) v_k.z for V. `smooth` gives g (n,) and its slopes (n, k) at the
    indices s (n, k), `solve` the coefficients of a centred design. The directions have unit spread before each step.
    """
    n, d = rows.shape
    count = directions.shape[1]
    directions = unit_spread(rows, directions)
    for _ in range(steps):
        index = rows @ directions
        fitted, slopes = smooth(index)
        response = labels - fitted + np.sum(slopes * index, axis=1)
        design = (slopes[:, :, None] * rows[:, None, :]).reshape(n, count * d)
        design -= design.mean(axis=0)
        moved = unit_spread(rows, solve(design, response - response.mean()).reshape(count, d).T)
        change = np.mean((rows @ moved - index) ** 2)
        directions = moved
        if change < _SETTLED**2:
            break
    return directions
