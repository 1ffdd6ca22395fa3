"""How far to trust a direction: stages from ridge regression to the full search, judged on held-out rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.estimators.index.candidates import compressed
from unlazy.estimators.index.links import (
    Affine,
    Link,
    PolynomialLink,
    choose_kind,
    fit_kind,
    kinds,
    limited,
    spline_fit,
)
from unlazy.estimators.index.newton import Refined, left_out_error, refine, unit
from unlazy.estimators.index.search import QUICK, ROUNDS, Found, find, polish

MEAN = "mean"
LINEAR = "ridge"
FULL = "full"
_SIMPLE_KINDS = ("p1", "p2", "p3", "s8")
_PENALISED_STEPS = 8
# start, penalty: in units of the curvature of the squared error
_HELD = {
    "ridge direction": ("ridge", np.inf),
    "ridge direction, refined": ("ridge", 1.0),
    "span": ("span", np.inf),
    "span, refined": ("span", 1.0),
    "span, freely refined": ("span", 0.3),
}
STAGES = (LINEAR, *_HELD, FULL)
# of the error for compressed labels, before polishing against after
_SPOILED = 0.5
# z^2 below which a prediction is taken for chance
_GARROTE = 4.0
_ROUNDING = 1e-12
_ENOUGH_HELD_OUT = 200


class Model(NamedTuple):
    """y ~ link(z.direction)."""

    direction: np.ndarray
    link: Link
    kind: str

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return self.link(rows @ self.direction)


class Folds(NamedTuple):
    rows: np.ndarray
    labels: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]
    """Training and held-out rows."""


class Choice(NamedTuple):
    stage: str
    weight: float
    """What the prediction's distance from the mean is multiplied by."""
    score: float
    """R^2 on held-out rows of the weighted predictions."""
    scores: dict[str, float]
    """Of every stage."""


def models(rows: np.ndarray, labels: np.ndarray, found: Found, wanted: tuple[str, ...] = STAGES) -> dict[str, Model]:
    """The model of each stage, fitted to these rows."""
    result = {}
    ridge = unit(found.linear.coefficients)
    starts = {"ridge": ridge if ridge.any() else found.span, "span": found.span}
    for stage in wanted:
        if stage == LINEAR:
            result[stage] = linear_model(found)
        elif stage == FULL:
            result[stage] = full_model(rows, labels, found.full)[0]
        else:
            start, penalty = _HELD[stage]
            result[stage] = _held_model(rows, labels, starts[start], penalty)
    return result


def linear_model(found: Found) -> Model:
    coefficients, intercept, _ = found.linear
    size = float(np.linalg.norm(coefficients))
    return Model(unit(coefficients), PolynomialLink((intercept, size), 0.0, 1.0), "p1")


def full_model(rows: np.ndarray, labels: np.ndarray, full: Refined) -> tuple[Model, float]:
    """The polished model and its leave-one-out error, to first order in direction and link.

    Where polishing on y itself spoils the fit of the compressed labels (outliers), the direction stays.
    """
    d = rows.shape[1]
    result, kind = polish(rows, labels, full.direction)
    direction, fit = result.direction, result.fit
    index = rows @ direction
    if full.fit.error < _SPOILED * spline_fit(index, compressed(labels)).error:
        direction = full.direction
        index = rows @ direction
        kind = choose_kind(index, labels, kinds(labels.size, np.unique(index).size), d)
        fit = fit_kind(index, labels, kind)
    error = left_out_error(rows, labels, direction, fit)
    return Model(direction, limited(fit, index, labels, d), kind), error


def _held_model(rows: np.ndarray, labels: np.ndarray, start: np.ndarray, penalty: float) -> Model:
    """A simple link along the start, or along what few penalised steps make of it."""
    direction, index = start, rows @ start
    allowed = tuple(k for k in _SIMPLE_KINDS if k in kinds(labels.size, np.unique(index).size)) or ("p1",)
    kind = choose_kind(index, labels, allowed)
    if np.isfinite(penalty) and kind != "p1":
        fit = refine(rows, labels, start, lambda t, y: fit_kind(t, y, kind), _PENALISED_STEPS, penalty=penalty)
        direction = fit.direction
        index = rows @ direction
    return Model(direction, limited(fit_kind(index, labels, kind), index, labels), kind)


def held_out_predictions(
    rows: np.ndarray, labels: np.ndarray, splits: list[tuple[np.ndarray, np.ndarray]], random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions (rows held out, stages) less the mean of the training labels, and the labels less the same."""
    predictions, targets = [], []
    for train, held in splits:
        center = labels[train].mean()
        fitted = models(rows[train], labels[train], find(rows[train], labels[train], random, QUICK))
        predictions.append(np.column_stack([fitted[stage](rows[held]) for stage in STAGES]) - center)
        targets.append(labels[held] - center)
    return np.concatenate(predictions), np.concatenate(targets)


def certain_error(folds: Folds, random: np.random.RandomState) -> float | None:
    """Mean squared error on held-out rows of full fits that are certain like the one to all rows; None if none is.

    Folds in which the search on fewer rows fails say nothing about a search that did not. A link with a jump leaves no
    residuals, so that nothing but new rows can tell how wrong its direction is. 200 rows are enough.
    """
    rows, labels, splits = folds
    losses: list[np.ndarray] = []
    for train, held in splits:
        found = find(rows[train], labels[train], random, ROUNDS[:1])
        if found.certain:
            losses.append((full_model(rows[train], labels[train], found.full)[0](rows[held]) - labels[held]) ** 2)
        if sum(one.size for one in losses) >= _ENOUGH_HELD_OUT:
            break
    return float(np.mean(np.concatenate(losses))) if losses else None


def choose(predictions: np.ndarray, targets: np.ndarray, copies: float = 1.0) -> Choice:
    """The stage and its weight; every row has been held out `copies` times.

    The predictions p of a stage are multiplied by w = clip(<y, p> / <p, p>, 0, 1), so that noise that a stage has
    learned costs about 1/n of the variance of y. Of the stages with least held-out error at these weights ridge
    regression is left only for a gain of a standard error of the paired differences. The weight of the chosen one is
    then multiplied by 1 - 4/z^2 if that is positive, else by 0, with z = <y, p> / (sd y |p| sqrt(copies)): Breiman's
    (1995) garrote, which sends what is no larger than chance to the mean and leaves what is clear almost alone.
    """
    n = targets.size / copies
    squares = np.einsum("ij,ij->j", predictions, predictions)
    products = targets @ predictions
    weights = np.clip(products / np.maximum(squares, _ROUNDING), 0.0, 1.0)
    total = float(np.mean(targets**2))
    losses = (targets[:, None] - weights * predictions) ** 2
    errors = losses.mean(axis=0)
    best = int(np.argmin(errors))
    linear = STAGES.index(LINEAR)
    gain = losses[:, linear] - losses[:, best]
    if gain.mean() <= gain.std() / np.sqrt(n):
        best = linear
    scores = {stage: 1 - float(error) / total for stage, error in zip(STAGES, errors, strict=True)}
    evidence = products[best] / np.sqrt(max(copies * squares[best] * total, _ROUNDING))
    kept = max(1 - _GARROTE / max(evidence, _ROUNDING) ** 2, 0.0) if evidence > 0 else 0.0
    weight = float(weights[best] * kept)
    if weight == 0:
        return Choice(MEAN, 0.0, 0.0, scores)
    error = float(np.mean((targets - weight * predictions[:, best]) ** 2))
    return Choice(STAGES[best], weight, 1 - error / total, scores)


def shrunk(model: Model, weight: float, mean: float = 0.0) -> Model:
    """mean + weight (model - mean)."""
    return model._replace(link=Affine(model.link, (1 - weight) * mean, weight)) if weight != 1 else model
