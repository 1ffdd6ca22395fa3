"""Convex fits on nested training sets of drawn rows, with test errors that are exact given the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.data.labels import draw_labels, fixed_count
from unlazy.numerics.convex_fits import convex_fit
from unlazy.theory.message_passing.losses import loss_of
from unlazy.theory.message_passing.teachers import teacher_error


def cluster_fits(
    rng: np.random.Generator,
    means: np.ndarray,
    variances: np.ndarray,
    shares: np.ndarray,
    sizes: Sequence[int],
    ridge: float,
    *,
    loss: str,
    bias: bool,
) -> dict[str, Any]:
    """Test error and training loss of fits on two clusters of diagonal covariance, whose sizes are fixed."""
    from scipy.special import ndtr

    second = fixed_count(rng.random(max(sizes)), shares[1], sizes).astype(int)
    labels = 1.0 - 2 * second
    design = means[second] + rng.standard_normal((labels.size, means.shape[1])) * np.sqrt(variances[second])
    errors, losses = [], []
    for n in sizes:
        weights, offset = convex_fit(loss, design[:n], labels[:n], ridge, bias=bias)
        margins = np.array([1.0, -1.0]) * (means @ weights + offset)
        errors.append(float(shares @ ndtr(-margins / np.sqrt(variances @ weights**2))))
        losses.append(float(loss_of(loss).value(labels[:n] * (design[:n] @ weights + offset)).mean()))
    return {"test_error": errors, "train_loss": losses}


def teacher_fits(
    rng: np.random.Generator, teacher: Any, spectrum: np.ndarray, sizes: Sequence[int], ridge: float, *, loss: str
) -> dict[str, Any]:
    """Test error, overlap with the teacher, variance of the score and training loss, by the joint law of both fields.

    The teacher has weight 1, of random sign, on every eigenvector.
    """
    d = spectrum.size
    truth = rng.choice([-1.0, 1.0], d)
    design = rng.standard_normal((max(sizes), d)) * np.sqrt(spectrum)
    labels = draw_labels(rng, teacher, design @ truth, sizes)
    found = []
    for n in sizes:
        weights, _ = convex_fit(loss, design[:n], labels[:n], ridge)
        overlap, norm = float(weights @ (spectrum * truth)), float(weights**2 @ spectrum)
        y, scores = labels[:n], design[:n] @ weights
        losses = (y - scores) ** 2 / 2 if loss == "square" else loss_of(loss).value(y * scores)
        found.append((teacher_error(teacher, overlap, norm), overlap, norm, losses.mean()))
    names = ("test_error", "overlap", "squared_norm", "train_loss")
    return dict(zip(names, np.transpose(found), strict=True))


def lasso_errors(
    rng: np.random.Generator, signal: np.ndarray, n: int, penalties: Sequence[float], noise: float
) -> dict[str, np.ndarray]:
    """Errors of Lasso fits on one data set, rows N(0, I/n); each starts from the one at the next larger penalty."""
    from sklearn.linear_model import lasso_path

    design = np.asfortranarray(rng.standard_normal((n, signal.size)) / np.sqrt(n))
    y = design @ signal + noise * rng.standard_normal(n)
    strengths = np.asarray(penalties, dtype=float)
    order = np.argsort(-strengths)
    fits = np.empty((signal.size, strengths.size))
    fits[:, order] = lasso_path(design, y, alphas=strengths[order] / n, tol=1e-8, max_iter=100_000)[1]
    errors = ((fits - signal[:, None]) ** 2).sum(axis=0)
    return {
        "test_error": noise**2 + errors / n,
        "mse": errors / signal.size,
        "nonzeros": (fits != 0).mean(axis=0),
        "train_mse": ((y[:, None] - design @ fits) ** 2).mean(axis=0),
    }
