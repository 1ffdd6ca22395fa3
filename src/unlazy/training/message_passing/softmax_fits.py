"""Softmax regression by scikit-learn, and the scores that its fit gives to fresh rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SoftmaxFit(NamedTuple):
    """The minimiser of sum_i loss + (penalty/2)|W|^2; the columns of W and the bias sum to 0."""

    weights: np.ndarray
    """W (d, K)."""
    bias: np.ndarray
    """(K,), 0 without one."""
    iterations: int
    """Iterations of L-BFGS."""


def fit_softmax(
    rows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalty: float,
    *,
    fit_intercept: bool = False,
    tolerance: float = 1e-6,
) -> SoftmaxFit:
    """scikit-learn's fit with C = 1/penalty; for two classes C = 2/penalty, as its binary model has half the
    penalty."""
    from sklearn.linear_model import LogisticRegression

    binary = classes == 2
    model = LogisticRegression(
        C=(2 if binary else 1) / penalty, fit_intercept=fit_intercept, tol=tolerance, max_iter=10_000
    )
    model.fit(rows, labels)
    iterations = int(model.n_iter_[0])
    if not binary:
        return SoftmaxFit(model.coef_.T, model.intercept_, iterations)
    # the binary model has the difference of the two columns
    weights = np.column_stack([-model.coef_[0], model.coef_[0]]) / 2
    return SoftmaxFit(weights, np.r_[-model.intercept_, model.intercept_] / 2, iterations)


def softmax_loss(scores: np.ndarray, labels: np.ndarray) -> float:
    """The mean of log sum_k exp(z_k - z_label) over scores (n, K)."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    return np.mean(np.log(np.exp(scores - own) @ np.ones(scores.shape[1])))


def normal_scores(
    rng: np.random.Generator, fit: SoftmaxFit, mean: np.ndarray, variances: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (count, K) of fresh rows N(mean, diag(variances)), normal given the fit, and their covariance."""
    covariance = fit.weights.T @ (variances[:, None] * fit.weights)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean @ fit.weights + fit.bias + rng.standard_normal((count, len(covariance))) @ root.T, covariance
