"""Convex fits on nested training sets of drawn rows, with test errors that are exact given the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.data.labels import draw_labels, fixed_count
from unlazy.numerics.convex_fits import convex_fit
from unlazy.numerics.margin_losses import loss_of
from unlazy.theory.message_passing.teachers import teacher_error


def cluster_fits(
    rng: np.random.Generator,
    means: np.ndarray,
    variances: np.ndarray,
    probabilities: np.ndarray,
    n: Sequence[int],
    penalty: float,
    *,
    loss: str,
    fit_intercept: bool,
) -> dict[str, Any]:
    """Test error and training loss of fits on two clusters of diagonal covariance, whose sizes are fixed."""
    from scipy.special import ndtr

    second = fixed_count(rng.random(max(n)), probabilities[1], n).astype(int)
    labels = 1.0 - 2 * second
    design = means[second] + rng.standard_normal((labels.size, means.shape[1])) * np.sqrt(variances[second])
    errors, losses = [], []
    for size in n:
        weights, offset = convex_fit(loss, design[:size], labels[:size], penalty, fit_intercept=fit_intercept)
        margins = np.array([1.0, -1.0]) * (means @ weights + offset)
        errors.append(float(probabilities @ ndtr(-margins / np.sqrt(variances @ weights**2))))
        losses.append(float(loss_of(loss).value(labels[:size] * (design[:size] @ weights + offset)).mean()))
    return {"test_error": errors, "training_loss": losses}


def teacher_fits(
    rng: np.random.Generator, label_law: Any, spectrum: np.ndarray, n: Sequence[int], penalty: float, *, loss: str
) -> dict[str, Any]:
    """Test error, overlap with the teacher, variance of the score and training loss, by the joint law of both fields.

    The teacher has weight 1, of random sign, on every eigenvector.
    """
    d = spectrum.size
    truth = rng.choice([-1.0, 1.0], d)
    design = rng.standard_normal((max(n), d)) * np.sqrt(spectrum)
    labels = draw_labels(rng, label_law, design @ truth, n)
    found = []
    for size in n:
        weights, _ = convex_fit(loss, design[:size], labels[:size], penalty)
        overlap, norm = float(weights @ (spectrum * truth)), float(weights**2 @ spectrum)
        y, scores = labels[:size], design[:size] @ weights
        losses = (y - scores) ** 2 / 2 if loss == "square" else loss_of(loss).value(y * scores)
        found.append((teacher_error(label_law, overlap, norm), overlap, norm, losses.mean()))
    names = ("test_error", "overlap", "norm", "training_loss")
    return dict(zip(names, np.transpose(found), strict=True))


def lasso_errors(
    rng: np.random.Generator, coefficients: np.ndarray, n: int, l1_penalty: Sequence[float], noise_variance: float
) -> dict[str, np.ndarray]:
    """Errors of Lasso fits on one data set, rows N(0, I/n); each starts from the one at the next larger penalty."""
    from sklearn.linear_model import lasso_path

    design = np.asfortranarray(rng.standard_normal((n, coefficients.size)) / np.sqrt(n))
    y = design @ coefficients + np.sqrt(noise_variance) * rng.standard_normal(n)
    strengths = np.asarray(l1_penalty, dtype=float)
    order = np.argsort(-strengths)
    fits = np.empty((coefficients.size, strengths.size))
    fits[:, order] = lasso_path(design, y, alphas=strengths[order] / n, tol=1e-8, max_iter=100_000)[1]
    errors = ((fits - coefficients[:, None]) ** 2).sum(axis=0)
    return {
        "test_error": noise_variance + errors / n,
        "coefficient_error": errors / coefficients.size,
        "selected_share": (fits != 0).mean(axis=0),
        "training_error": ((y[:, None] - design @ fits) ** 2).mean(axis=0),
    }
