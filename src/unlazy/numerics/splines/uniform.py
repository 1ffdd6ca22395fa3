"""Cubic splines with uniform knots on an interval, straight beyond: the four B-splines of a cell in closed form.

A fit evaluates them thousands of times, which SciPy's general knots would slow down several times.
"""

from __future__ import annotations

from functools import cache

import numpy as np


def uniform_basis(x: np.ndarray, low: float, high: float, cells: int) -> np.ndarray:
    """(n, cells + 3): the B-splines of equal cells of [low, high] at any x (n,)."""
    inside = np.clip(x, low, high)
    width = (high - low) / cells
    cell, within = _cells(inside, low, width, cells)
    beyond = (x - inside) / width
    basis = np.zeros((x.size, cells + 3))
    rows = np.arange(x.size)
    slopes = _weights(within, 1)
    for i, weight in enumerate(_weights(within, 0)):
        basis[rows, cell + i] = weight + beyond * slopes[i]
    return basis


def uniform_spline(x: np.ndarray, coefficients: np.ndarray, low: float, high: float, derivative: int = 0) -> np.ndarray:
    """The sum of B-splines with these coefficients at any x, or its first derivative."""
    inside = np.clip(x, low, high)
    if derivative:
        return _sum(inside, coefficients, low, high, 1)
    return _sum(inside, coefficients, low, high, 0) + (x - inside) * _sum(inside, coefficients, low, high, 1)


@cache
def bending(size: int) -> np.ndarray:
    """(size, size), the sum of squared second differences of coefficients as a form (Eilers and Marx 1996)."""
    second = np.diff(np.eye(size), 2, axis=0)
    return second.T @ second


def _sum(inside: np.ndarray, coefficients: np.ndarray, low: float, high: float, derivative: int) -> np.ndarray:
    cells = coefficients.size - 3
    width = (high - low) / cells
    cell, within = _cells(inside, low, width, cells)
    total = sum(weight * coefficients[cell + i] for i, weight in enumerate(_weights(within, derivative)))
    return np.asarray(total) / width**derivative


def _cells(inside: np.ndarray, low: float, width: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The cell of every point and its place there, in [0, 1]."""
    position = (inside - low) / width
    cell = np.clip(position.astype(np.int64), 0, cells - 1)
    return cell, position - cell


def _weights(u: np.ndarray, derivative: int) -> tuple[np.ndarray, ...]:
    """The four B-splines that are not 0 at u in [0, 1] of a cell, or their derivatives."""
    v = 1 - u
    if derivative:
        return -(v**2) / 2, (3 * u**2 - 4 * u) / 2, (4 * v - 3 * v**2) / 2, u**2 / 2
    return v**3 / 6, (3 * u**3 - 6 * u**2 + 4) / 6, (3 * v**3 - 6 * v**2 + 4) / 6, u**3 / 6
