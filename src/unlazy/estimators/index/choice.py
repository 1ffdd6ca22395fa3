"""How far to trust a direction: stages from ridge regression to the full search, judged on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.estimators.common.folds import far_splits
from unlazy.estimators.common.gate import Choice, choose_stage, is_behind_far_out, is_gain
from unlazy.estimators.index.base import WEAK_SCORE
from unlazy.estimators.index.candidates import RidgeFit, compressed, ridge_fit
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
from unlazy.estimators.index.search import ROUNDS, FoundDirection, find, polish

LINEAR = "ridge"
STRAIGHT = "p1"
"""A link that the rows do not bend: such a fit is linear, and ridge regression takes its place, which has no ends."""
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


class HeldOut(NamedTuple):
    """Predictions (rows, stages) of held-out rows and their labels, both less the mean of the training labels."""

    stages: tuple[str, ...]
    predictions: np.ndarray
    targets: np.ndarray
    copies: float
    """How often every row has been held out."""
    far_errors: np.ndarray
    """Mean squared errors (sets, stages) of sets of far rows, predicted from the others."""

    def is_worse_far_out(self, stage: str) -> bool:
        """Whether ridge regression is clearly better on some far rows."""
        found, ridge = (self.far_errors[:, self.stages.index(one)] for one in (stage, LINEAR))
        return is_behind_far_out(found, ridge)


def models(
    rows: np.ndarray, labels: np.ndarray, found: FoundDirection, wanted: tuple[str, ...] = STAGES
) -> dict[str, Model]:
    """The model of each stage, fitted to these rows."""
    result = {}
    ridge = unit(found.linear.coefficients)
    starts = {"ridge": ridge if ridge.any() else found.span, "span": found.span}
    for stage in wanted:
        if stage == LINEAR:
            result[stage] = linear_model(found.linear)
        elif stage == FULL:
            result[stage] = full_model(rows, labels, found.full)[0]
        else:
            start, penalty = _HELD[stage]
            result[stage] = _held_model(rows, labels, starts[start], penalty)
    return result


def linear_model(ridge: RidgeFit) -> Model:
    coefficients, intercept, _ = ridge
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
    return Model(direction, limited(fit, kind, index, labels, d), kind), error


def _held_model(rows: np.ndarray, labels: np.ndarray, start: np.ndarray, penalty: float) -> Model:
    """A simple link along the start, or along what few penalised steps make of it."""
    direction, index = start, rows @ start
    allowed = tuple(k for k in _SIMPLE_KINDS if k in kinds(labels.size, np.unique(index).size)) or ("p1",)
    kind = choose_kind(index, labels, allowed)
    if np.isfinite(penalty) and kind != "p1":
        fit = refine(rows, labels, start, lambda t, y: fit_kind(t, y, kind), _PENALISED_STEPS, penalty=penalty)
        direction = fit.directions
        index = rows @ direction
    return Model(direction, limited(fit_kind(index, labels, kind), kind, index, labels), kind)


def held_out_predictions(folds: Folds, fit: Callable[[np.ndarray, np.ndarray], dict[str, Any]]) -> HeldOut:
    """What `fit`, of rows and labels to models, predicts of the rows of each fold, and of far rows from the others."""
    rows, labels, splits = folds
    found = []
    linear = ridge_fit(rows, labels)
    far = far_splits(rows, rows @ linear.coefficients)
    for train, held in (*splits, *far):
        center = labels[train].mean()
        fitted = fit(rows[train], labels[train])
        found.append((np.column_stack([one(rows[held]) for one in fitted.values()]) - center, labels[held] - center))
    predictions, targets = (np.concatenate(part) for part in zip(*found[: len(splits)], strict=True))
    far_errors = np.array([np.mean((y[:, None] - p) ** 2, axis=0) for p, y in found[len(splits) :]])
    return HeldOut(tuple(fitted), predictions, targets, max(targets.size / len(labels), 1.0), far_errors)


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


def beats_ridge(folds: Folds, fit: Callable[[np.ndarray, np.ndarray], Any]) -> bool:
    """Whether `fit`, of rows and labels to a model, predicts held-out rows better than ridge regression by more than
    one standard error, and far rows not clearly worse.

    Asked of a certain fit, which is then fitted again from the directions that it found: few far rows, on which the
    squared error depends most, are not seen by what a fit leaves on its own rows.
    """

    def both(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        linear = ridge_fit(x, y)
        return {LINEAR: lambda z: linear.intercept + z @ linear.coefficients, FULL: fit(x, y)}

    held = held_out_predictions(folds, both)
    ridge, found = ((held.targets[:, None] - held.predictions) ** 2).T
    return is_gain(ridge - found, 1.0, copies=held.copies) and not held.is_worse_far_out(FULL)


def choose(held: HeldOut, ladder: Sequence[Sequence[str]] = ((LINEAR,),)) -> Choice:
    """`choose_stage`; ridge regression or the mean if nothing explains y, or if what does is far worse on far rows."""
    choice = choose_stage(held.predictions, held.targets, held.stages, ladder, held.copies)
    if choice.score >= WEAK_SCORE and not held.is_worse_far_out(choice.stage):
        return choice
    linear = held.predictions[:, [held.stages.index(LINEAR)]]
    return choose_stage(linear, held.targets, (LINEAR,), (), held.copies)._replace(scores=choice.scores)


def shrunk(model: Model, weight: float) -> Model:
    """The model times the weight."""
    return model._replace(link=Affine(model.link, 0.0, weight)) if weight != 1 else model
