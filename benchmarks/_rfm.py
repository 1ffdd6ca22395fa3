"""A minimal Recursive Feature Machine (Radhakrishnan et al. 2024): kernel regression that learns its metric."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)
_ITERATIONS = 8
_HELD_OUT = 4


class Machine(NamedTuple):
    """f(x) = sum_j a_j exp(-|x - x_j|_M / width)."""

    metric: np.ndarray
    width: float
    coefficients: np.ndarray


class RecursiveFeatureMachine(RegressorMixin, BaseEstimator):
    """Laplace kernel regression whose metric M is the average outer product of its own gradients, again and again.

    Ridge and number of iterations (0 is plain kernel regression) are those of least error on a held-out quarter, then
    all rows are fitted. X and y should be standardised; the width is the median distance.
    """

    def __init__(self, random_state: Any = 0):
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> RecursiveFeatureMachine:
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        order = np.random.default_rng(self.random_state).permutation(len(X))
        held, train = np.split(order, [len(X) // _HELD_OUT])
        errors = {}
        for ridge in _RIDGES:
            for step, machine in enumerate(_machines(X[train], y[train], ridge, _ITERATIONS)):
                found = _kernel(X[held], X[train], machine.metric, machine.width)[0] @ machine.coefficients
                errors[ridge, step] = float(np.mean((found - y[held]) ** 2))
        self.ridge_, self.iterations_ = min(errors, key=lambda key: errors[key])
        self.machine_, self.rows_ = _machines(X, y, self.ridge_, self.iterations_)[-1], X
        return self

    def predict(self, X: Any) -> np.ndarray:
        machine = self.machine_
        return _kernel(np.asarray(X, dtype=float), self.rows_, machine.metric, machine.width)[0] @ machine.coefficients


def _machines(rows: np.ndarray, labels: np.ndarray, ridge: float, iterations: int) -> list[Machine]:
    """The machine of every iteration, the first with the metric I."""
    n, d = rows.shape
    metric, found = np.eye(d), []
    for step in range(iterations + 1):
        width = float(np.median(_distances(rows[:500], rows[:500], metric)[np.triu_indices(min(n, 500), 1)])) or 1.0
        kernel, distances = _kernel(rows, rows, metric, width)
        coefficients = np.linalg.solve(kernel + ridge * np.eye(n), labels)
        found.append(Machine(metric, width, coefficients))
        if step < iterations:
            with np.errstate(divide="ignore"):
                pulls = np.where(distances > 0, -kernel * coefficients / (width * distances), 0.0)
            gradients = (pulls.sum(axis=1)[:, None] * rows - pulls @ rows) @ metric
            metric = gradients.T @ gradients / n
            metric *= d / max(float(np.trace(metric)), 1e-300)
    return found


def _kernel(left: np.ndarray, right: np.ndarray, metric: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    distances = _distances(left, right, metric)
    return np.exp(-distances / width), distances


def _distances(left: np.ndarray, right: np.ndarray, metric: np.ndarray) -> np.ndarray:
    turned = right @ metric
    squares = np.sum((left @ metric) * left, axis=1)[:, None] + np.sum(turned * right, axis=1) - 2 * left @ turned.T
    # a row's distance to itself is 0 up to the rounding of its square
    squares[squares < 1e-9 * max(float(squares.max()), 1e-300)] = 0.0
    return np.sqrt(squares)
