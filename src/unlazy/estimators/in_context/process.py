"""A normal process with a linear mean, and what is known of it after the rows of one task."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LINEAR, CUBIC, GAUSSIAN = "linear", "cubic", "gaussian"


class Process(NamedTuple):
    """f(z) = mean.z + g(z), g a normal process with covariance amplitude * k(A^T z, A^T z'), on rows z = (1, features).

    k is the inner product, 1 + ((1 + u.v)/3)^3 or 1 + exp(-|u - v|^2 / 2).
    """

    kind: str
    mean: np.ndarray
    root: np.ndarray
    """A, of which the row of the constant is zero unless the process is linear."""
    amplitude: float
    noise_variance: float


class Posterior(NamedTuple):
    """The process given a context: functions of rows z."""

    predict: Callable[[np.ndarray], np.ndarray]
    variance: Callable[[np.ndarray], np.ndarray]
    """Of f(z), without noise."""
    coefficients: np.ndarray | None
    """The mean of f is linear with these, if the process is."""


def kernel(kind: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """k of all pairs of rows."""
    inner = left @ right.T
    if kind == LINEAR:
        return inner
    if kind == CUBIC:
        return 1 + ((1 + inner) / 3) ** 3
    squares = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)
    return 1 + np.exp(np.minimum(inner - squares / 2, 0.0))


def condition(process: Process, rows: np.ndarray, targets: np.ndarray) -> Posterior:
    """The process given the targets at rows z: ridge with as many unknowns as rows, or as coefficients if fewer."""
    residual = targets - rows @ process.mean
    if process.kind == LINEAR:
        return _linear(process, rows @ process.root, residual)
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    features = rows @ process.root
    penalty = process.noise_variance / process.amplitude
    gram = kernel(process.kind, features, features)
    factor = cho_factor(gram + penalty * np.eye(len(gram)), lower=True)
    dual = cho_solve(factor, residual)

    def predict(new: np.ndarray) -> np.ndarray:
        return new @ process.mean + kernel(process.kind, new @ process.root, features) @ dual

    def variance(new: np.ndarray) -> np.ndarray:
        places = new @ process.root
        told = solve_triangular(factor[0], kernel(process.kind, features, places), lower=True)
        own = np.array([kernel(process.kind, place[None], place[None])[0, 0] for place in places])
        return process.amplitude * np.maximum(own - np.sum(told**2, axis=0), 0.0)

    return Posterior(predict, variance, None)


def _linear(process: Process, features: np.ndarray, residual: np.ndarray) -> Posterior:
    """Weights a ~ N(0, I) of the features z A sqrt(amplitude)."""
    features = features * np.sqrt(process.amplitude)
    root = process.root * np.sqrt(process.amplitude)
    left, values, right = np.linalg.svd(features, full_matrices=False)
    total = values**2 + process.noise_variance
    coefficients = process.mean + root @ (right.T @ (values / total * (left.T @ residual)))

    def variance(new: np.ndarray) -> np.ndarray:
        places = new @ root
        told = (places @ right.T) ** 2 @ (values**2 / total)
        return np.maximum(np.sum(places**2, axis=1) - told, 0.0)

    return Posterior(lambda new: new @ coefficients, variance, coefficients)
