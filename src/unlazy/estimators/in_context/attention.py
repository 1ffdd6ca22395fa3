"""Linear attention pretrained on users' data sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.estimators.common.inputs import Pairs
from unlazy.estimators.in_context.tasks import Folds, PooledMean, cut

_RIDGES = np.logspace(-6, 2, 17)
_MOST_COMPONENTS = 40
_MOST_PROMPTS = 20_000
_LEAST_VARIANCE = 1e-3


class LearnedAttention(NamedTuple):
    """Weights Gamma on whitened tokens, and how they were found."""

    mean: np.ndarray
    """The linear predictor of all tasks, whose residuals are the labels."""
    whitening: np.ndarray
    """From rows z = (1, features) to tokens, (width, components + 1)."""
    weights: np.ndarray
    ridge: float
    context: float
    """The mean number of context rows in pretraining."""
    error: float


def learn_attention(pairs: Pairs, folds: Folds, pooled: PooledMean, context: int | None = None) -> LearnedAttention:
    """Gamma that minimises the error of every row predicted from the others of its task, with the best held-out ridge.

    Rows are whitened with the covariance of all tasks' rows, along their first 40 principal components and with
    variances of at least .001 of the largest; a constant is one more token coordinate, for the task's intercept.
    Source: Lu, Letey, Zavatone-Veth, Maiti & Pehlevan (2024) for the model, `training.in_context.linear_attention`.
    """
    from unlazy.training.in_context.linear_attention import Prompts, pretrained_weights

    whitening = _whitening(pairs)
    pieces = [cut(pair, context) for pair in pairs]
    long = {i for i, (_, target) in enumerate(pairs) if len(target) > 1}
    usable = [(long.intersection(inside.tolist()), long.intersection(outside.tolist())) for inside, outside in folds]
    if not all(inside and outside for inside, outside in usable):
        raise InputError("tasks must mostly have at least 2 rows for linear attention, got 1 row in too many of them")
    errors, rows = np.zeros(len(_RIDGES)), 0
    for (inside, outside), mean in zip(usable, pooled.folds, strict=True):
        paths = pretrained_weights(Prompts(*_prompts(pieces, sorted(inside), mean, whitening)), _RIDGES)
        queries, features, labels = _prompts(pieces, sorted(outside), mean, whitening)
        for i, weights in enumerate(paths):
            errors[i] += np.sum((labels - np.sum((queries @ weights) * features, axis=1)) ** 2)
        rows += len(labels)
    best = int(np.argmin(errors))
    everything = Prompts(*_prompts(pieces, sorted(long), pooled.all, whitening))
    weights = pretrained_weights(everything, _RIDGES[best : best + 1])[0]
    length = float(np.mean([len(target) - 1 for i in long for _, target in pieces[i]]))
    return LearnedAttention(pooled.all, whitening, weights, float(_RIDGES[best]), length, float(errors[best] / rows))


def in_context_coefficients(learned: LearnedAttention, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """mean + W Gamma h: the prediction is linear in the query."""
    tokens = rows @ learned.whitening
    labels = targets - rows @ learned.mean
    features = np.append(tokens.shape[1] * (labels @ tokens) / len(labels), np.mean(labels**2))
    return learned.mean + learned.whitening @ (learned.weights @ features)


def _prompts(
    pieces: Sequence[Pairs], chosen: Iterable[int], mean: np.ndarray, whitening: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every row once as the query of the others of its task: queries, features of the contexts and labels."""
    queries, features, labels = [], [], []
    for design, target in (piece for i in chosen for piece in pieces[i] if len(piece[1]) > 1):
        tokens, residual = design @ whitening, target - design @ mean
        products = residual[:, None] * tokens
        others = (products.sum(axis=0) - products) / (len(target) - 1)
        squares = (np.sum(residual**2) - residual**2) / (len(target) - 1)
        queries.append(tokens)
        features.append(np.column_stack([tokens.shape[1] * others, squares]))
        labels.append(residual)
    found = [np.concatenate(part) for part in (queries, features, labels)]
    n = len(found[2])
    rows = slice(None) if n <= _MOST_PROMPTS else np.random.default_rng(0).choice(n, _MOST_PROMPTS, replace=False)
    return found[0][rows], found[1][rows], found[2][rows]


def _whitening(pairs: Pairs) -> np.ndarray:
    rows = np.concatenate([design[:, 1:] for design, _ in pairs])
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    values, vectors = values[::-1][:_MOST_COMPONENTS], vectors[:, ::-1][:, :_MOST_COMPONENTS]
    values = np.maximum(values, _LEAST_VARIANCE * max(float(values[0]), np.finfo(np.float64).tiny))
    whitening = np.zeros((rows.shape[1] + 1, len(values) + 1))
    whitening[0, 0] = 1.0
    whitening[1:, 1:] = vectors / np.sqrt(values)
    return whitening / np.sqrt(len(values) + 1)
