"""Logistic regression beside the kernels: where classes are parted by a plane, it knows their odds best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_MOST_WEIGHTS = 600
"""Beyond so many weights Newton's method takes longer than the kernels do."""
_STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)


class LinearLogits(NamedTuple):
    """Logits of rows, linear in them."""

    weights: np.ndarray
    """(classes, d)."""
    intercepts: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return rows @ self.weights.T + self.intercepts


def crossed_logits(
    rows: np.ndarray, codes: np.ndarray, classes: int, halves: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, LinearLogits] | None:
    """Logits (n, classes) of each row by a fit to the other rows of its half; and the fit to all rows.

    None where it would take long, or where a class has too few rows.
    """
    from unlazy.estimators.linear import LogisticRegressionLOO

    if rows.shape[1] * (classes - 1) > _MOST_WEIGHTS:
        return None
    if any(np.bincount(codes[half], minlength=classes).min() < 2 for half in halves):
        return None
    crossed = np.empty((len(rows), classes))
    for half in halves:
        found = LogisticRegressionLOO(_STRENGTHS).fit(rows[half], codes[half])
        crossed[half] = _of_classes(found.loo_decision_function_)
    found = LogisticRegressionLOO(_STRENGTHS).fit(rows, codes)
    weights, intercepts = found.coef_, found.intercept_
    if classes == 2:
        weights, intercepts = np.concatenate([-weights, weights]) / 2, np.append(-intercepts, intercepts) / 2
    return crossed, LinearLogits(weights, intercepts)


def log_loss(logits: np.ndarray, codes: np.ndarray) -> float:
    """Mean of -log p of the class of each row, p being the softmax of its logits."""
    from scipy.special import log_softmax

    return float(-np.mean(log_softmax(logits, axis=1)[np.arange(len(codes)), codes]))


def _of_classes(scores: np.ndarray) -> np.ndarray:
    return np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores
