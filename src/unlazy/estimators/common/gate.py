"""The gate between models: a simpler one is left only for a gain on held-out rows that chance does not explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MEAN = "mean"
# z^2 below which a prediction is taken for chance
_GARROTE = 4.0
_ROUNDING = 1e-12
# the error on far rows, in units of the simpler model's there, beyond which a richer model is left
_FAR_WORSE = 1.5


class Choice(NamedTuple):
    stage: str
    weight: float
    """What the prediction's distance from the mean is multiplied by."""
    score: float
    """R^2 on held-out rows of the weighted predictions."""
    scores: dict[str, float]
    """Of every stage."""


def is_gain(differences: np.ndarray, standard_errors: float, *, copies: float = 1.0, ddof: int = 1) -> bool:
    """Whether the mean of paired differences of held-out errors exceeds so many of its standard errors.

    Every row has been held out `copies` times, and counts once. What is not a number is no gain.
    """
    if len(differences) <= ddof:
        return False
    error = standard_errors * differences.std(ddof=ddof) / np.sqrt(len(differences) / copies)
    return bool(differences.mean() > error)


def is_behind_far_out(errors: np.ndarray, simple_errors: np.ndarray) -> bool:
    """Whether a simpler model predicts some set of far rows with less than two thirds of the mean squared error.

    Folds by chance do not ask what a fit says beyond its rows, which costs most where columns have heavy tails.
    """
    return bool((np.asarray(errors) > _FAR_WORSE * np.asarray(simple_errors)).any())


def student_quantile(level: float, rows: int) -> float:
    """Standard errors that the mean of so many differences exceeds by chance with the probability `level`."""
    from scipy.special import stdtrit

    return float(stdtrit(rows - 1, 1 - level)) if rows > 1 else np.inf


def mean_of_rows(values: np.ndarray, held: np.ndarray, axis: int = 0) -> np.ndarray:
    """Means over the entries along `axis` that belong to one row, in the order of the rows.

    Folds that are drawn again hold the same row out several times.
    """
    order = np.argsort(held, kind="stable")
    _, first, counts = np.unique(held[order], return_index=True, return_counts=True)
    sums = np.add.reduceat(np.take(values, order, axis), first, axis, dtype=np.float64)
    return sums / counts.reshape(-1, *[1] * (values.ndim - axis - 1))


def choose_stage(
    predictions: np.ndarray,
    targets: np.ndarray,
    stages: Sequence[str],
    ladder: Sequence[Sequence[str]],
    copies: float = 1.0,
) -> Choice:
    """The stage and its weight, from predictions (rows, stages) and targets that the training labels have centred.

    Every row has been held out `copies` times. The predictions p of a stage are multiplied by
    w = clip(<y, p> / <p, p>, 0, 1), so that noise that a stage has learned costs about 1/n of the variance of y. The
    stage of least error at these weights is taken, unless the best stage of an earlier rung of the `ladder` is as good,
    up to one standard error of the paired differences. The weight of the chosen one is then multiplied by 1 - 4/z^2 if
    that is positive, else by 0, with z = <y, p> / (s |p| sqrt(copies)) and s^2 the stage's error: Breiman's (1995)
    garrote, which sends what is no larger than chance to the mean and leaves what is clear alone.
    """
    squares = np.einsum("ij,ij->j", predictions, predictions)
    products = targets @ predictions
    weights = np.clip(products / np.maximum(squares, _ROUNDING), 0.0, 1.0)
    total = float(np.mean(targets**2))
    losses = (targets[:, None] - weights * predictions) ** 2
    errors = losses.mean(axis=0)
    best = int(np.argmin(errors))
    rungs = [min((stages.index(stage) for stage in rung), key=lambda i: errors[i]) for rung in ladder]
    as_good = (i for i in rungs if i == best or not is_gain(losses[:, i] - losses[:, best], 1.0, copies=copies, ddof=0))
    best = next(as_good, best)
    scores = {stage: 1 - float(error) / total for stage, error in zip(stages, errors, strict=True)}
    evidence = products[best] / np.sqrt(max(copies * squares[best] * errors[best], _ROUNDING))
    kept = max(1 - _GARROTE / max(evidence, _ROUNDING) ** 2, 0.0) if evidence > 0 else 0.0
    weight = float(weights[best] * kept)
    if weight == 0:
        return Choice(MEAN, 0.0, 0.0, scores)
    error = float(np.mean((targets - weight * predictions[:, best]) ** 2))
    return Choice(stages[best], weight, 1 - error / total, scores)
