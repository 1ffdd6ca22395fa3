"""Softmax regression and message passing on drawn clusters, and on images of digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.data.labels import softmax_rows
from unlazy.data.real import load
from unlazy.training.message_passing.amp_runs import AmpDistances, optimum_distances, pass_messages
from unlazy.training.message_passing.matrix_amp import decay_factor
from unlazy.training.message_passing.softmax_fits import fit_softmax, normal_scores, softmax_loss


def softmax_errors(
    rng: np.random.Generator,
    means: np.ndarray,
    variances: np.ndarray,
    probabilities: np.ndarray,
    n: int,
    penalty: float,
    *,
    fit_intercept: bool,
    fresh: int,
) -> dict[str, Any]:
    """Errors and losses of a fit to clusters of diagonal covariances, with the classes in their exact shares.

    Scores of fresh points of a class are normal given the fit, and drawn as such.
    """
    classes, d = means.shape
    labels = np.searchsorted(np.round(np.cumsum(probabilities) * n).astype(int), np.arange(n), side="right")
    rows = rng.standard_normal((n, d))
    # one factor for all where the clusters are alike
    rows *= d**-0.5 if np.all(variances == 1 / d) else np.sqrt(variances)[labels]
    rows += means[labels]
    fit = fit_softmax(rows, labels, classes, penalty, fit_intercept=fit_intercept)
    scores = rows @ fit.weights + fit.bias
    wrong, losses, spreads = [], [], []
    for k in range(classes):
        drawn, covariance = normal_scores(rng, fit, means[k], variances[k], fresh)
        wrong.append(np.mean(drawn.argmax(axis=1) != k))
        losses.append(softmax_loss(drawn, np.full(fresh, k)))
        spreads.append(np.trace(covariance) / (classes - 1))
    return {
        "test_error": probabilities @ wrong,
        "rare_error": wrong[-1],
        "training_error": np.mean(scores.argmax(axis=1) != labels),
        "training_loss": softmax_loss(scores, labels),
        "test_loss": probabilities @ losses,
        "norm": probabilities @ spreads,
    }


def amp_run(
    rng: np.random.Generator,
    spectrum: np.ndarray,
    means: np.ndarray | None,
    n: int,
    penalty: float,
    *,
    classes: int,
    iterations: int,
) -> dict[str, Any]:
    """Changes of the fields, their factor per iteration, and a bound on the distance to the optimum, on clusters or on
    labels of a teacher.

    Without means the rows are N(0, diag(spectrum)) with labels of a softmax teacher.
    """
    if means is None:
        rows, labels = softmax_rows(rng, n, spectrum, classes, 2)
        groups, means = np.zeros_like(labels), np.zeros((classes, spectrum.size))
    else:
        rows = rng.standard_normal((n, spectrum.size)) * np.sqrt(spectrum)
        groups = labels = rng.integers(0, classes, n)
        rows = rows + means[labels]
    spread = np.tile(spectrum, (classes, 1))
    known = {"second": spread + means**2, "spread": spread, "groups": groups}
    fit = pass_messages(rows, labels, classes, penalty, chunk=iterations // 2, chunks=(2, 16), **known)
    return {
        "change": fit.changes[:iterations],
        "decay_factor": float(decay_factor(fit.changes)),
        "distance_bound": fit.distance,
    }


def digit_messages(rng: np.random.Generator, n: int, penalty: float, damping: float, chunk: int) -> AmpDistances:
    """Message passing on n images of digits, two of each class first: every class has rows to take moments of."""
    digits = load("digit_classes")
    classes = digits.targets.argmax(axis=1)
    order = rng.permutation(len(classes))
    first = np.concatenate([order[classes[order] == k][:2] for k in range(10)])
    kept = np.concatenate([first, order[~np.isin(order, first)]])[:n]
    rows = digits.inputs[kept] / 16
    return optimum_distances(rows - rows.mean(axis=0), classes[kept], penalty, damping, chunk)
