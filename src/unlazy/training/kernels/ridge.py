"""Kernel and random-feature ridge regression on drawn points, without drawing targets or noise.

The target is a Gaussian process with a known covariance C. Given the points, a linear smoother sum_i A_i(x) y_i has the
mean squared errors of `SmootherErrors` exactly: averages over targets and noise are taken by algebra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.numerics.ridge import ridge_solutions


class Covariances(NamedTuple):
    """The target's covariance among the training points, between new and training points, and at a new point."""

    training: np.ndarray
    crossed: np.ndarray
    variance: float


class SmootherErrors(NamedTuple):
    """Expectations over target and noise given all points, one entry per penalty."""

    risk: np.ndarray
    """Mean squared error at the new points, without their noise."""
    training_error: np.ndarray


def ridge_predictions(
    kernel: np.ndarray, crossed: np.ndarray, labels: np.ndarray, penalties: Sequence[float]
) -> list[np.ndarray]:
    """k(x)^T (K + penalty I)^-1 y at the new points, for every penalty; `crossed` holds k(x), shape (new, n)."""
    return [crossed @ dual for dual in ridge_solutions(kernel, labels, penalties)]


def kernel_errors(
    kernel: np.ndarray, crossed: np.ndarray, target: Covariances, noise_variance: float, penalties: Sequence[float]
) -> SmootherErrors:
    """Errors of f_hat(x) = k(x)^T (K + penalty I)^-1 y for all penalties, from one decomposition of K (n x n).

    `crossed` holds k(x) at the new points, shape (new, n).
    """
    squares, left = np.linalg.eigh(kernel)
    return _errors(np.maximum(squares, 0.0), left, crossed @ left, target, noise_variance, penalties)


def feature_errors(
    features: np.ndarray,
    new_features: np.ndarray,
    target: Covariances,
    noise_variance: float,
    penalties: Sequence[float],
) -> SmootherErrors:
    """Errors of ridge regression on features, min |y - Phi a|^2 + penalty |a|^2, from the smaller Gram matrix."""
    n, p = features.shape
    if n <= p:
        return kernel_errors(features @ features.T, new_features @ features.T, target, noise_variance, penalties)
    squares, right = np.linalg.eigh(features.T @ features)
    squares = np.maximum(squares, np.finfo(np.float64).tiny)
    left = (features @ right) / np.sqrt(squares)
    return _errors(squares, left, (new_features @ right) * np.sqrt(squares), target, noise_variance, penalties)


def _errors(
    squares: np.ndarray,
    left: np.ndarray,
    projected: np.ndarray,
    target: Covariances,
    noise_variance: float,
    penalties: Sequence[float],
) -> SmootherErrors:
    """With weights w = 1/(s^2 + penalty) the smoother is B diag(w) U^T: every error is a quadratic form in w."""
    new, n = len(projected), len(left)
    rotated = left.T @ target.training @ left
    gram = projected.T @ projected / new
    overlap = np.einsum("ij,ij->j", projected, target.crossed @ left) / new
    form = gram * rotated
    labels = np.diagonal(rotated) + noise_variance
    outside = np.trace(target.training) + n * noise_variance - labels.sum()
    risk, training = [], []
    for penalty in penalties:
        weights = 1 / (squares + penalty)
        noise = noise_variance * (weights**2 @ np.diagonal(gram))
        risk.append(target.variance - 2 * weights @ overlap + weights @ form @ weights + noise)
        training.append(((penalty * weights) ** 2 @ labels + outside) / n)
    return SmootherErrors(np.array(risk), np.array(training))
