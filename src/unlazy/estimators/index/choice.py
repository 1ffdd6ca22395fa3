"""How far to trust a direction: stages from ridge regression to the full search, judged on held-out rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.estimators.common.gate import Choice, choose_stage
from unlazy.estimators.index.candidates import compressed
from unlazy.estimators.index.links import (
    Affine,
    IndexLink,
    PolynomialLink,
    choose_kind,
    fit_kind,
    kinds,
    limited,
    spline_fit,
)
from unlazy.estimators.index.newton import Refined, left_out_error, refine, unit
from unlazy.estimators.index.search import QUICK, ROUNDS, FoundDirection, find, polish

LINEAR = "ridge"
FULL = "full"
# links of the stages before the full search, and their Gauss-Newton steps
_SIMPLE_KINDS, _PENALISED_STEPS = ("p1", "p2", "p3", "s8"), 8
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
# rows held out from certain fits that say enough of their error
_ENOUGH_HELD_OUT = 200


class Model(NamedTuple):
    """y ~ link(z.direction)."""

    direction: np.ndarray
    link: IndexLink
    kind: str

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return self.link(rows @ self.direction)


class Folds(NamedTuple):
    rows: np.ndarray
    labels: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]
    """Training and held-out rows."""


def models(
    rows: np.ndarray, labels: np.ndarray, found: FoundDirection, wanted: tuple[str, ...] = STAGES
) -> dict[str, Model]:
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


def linear_model(found: FoundDirection) -> Model:
    coefficients, intercept, _ = found.linear
    size = float(np.linalg.norm(coefficients))
    return Model(unit(coefficients), PolynomialLink((intercept, size), 0.0, 1.0), "p1")


def full_model(rows: np.ndarray, labels: np.ndarray, full: Refined) -> tuple[Model, float]:
    """The polished model and its leave-one-out error, to first order in direction and link.

    Where polishing on y itself spoils the fit of the compressed labels (outliers), the direction stays.
    """
    d = rows.shape[1]
    result, kind = polish(rows, labels, full.directions)
    direction, fit = result.directions, result.fit
    index = rows @ direction
    if full.fit.error < _SPOILED * spline_fit(index, compressed(labels)).error:
        direction = full.directions
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
        direction = fit.directions
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
    """The stage and its weight; ridge regression is left only for a gain of a standard error."""
    return choose_stage(predictions, targets, STAGES, [(LINEAR,)], copies)


def shrunk(model: Model, weight: float, mean: float = 0.0) -> Model:
    """mean + weight (model - mean)."""
    return model._replace(link=Affine(model.link, (1 - weight) * mean, weight)) if weight != 1 else model
