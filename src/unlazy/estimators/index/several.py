"""How many directions to trust: fits of growing size next to those of a single index, judged on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from unlazy.checks import InputError
from unlazy.estimators.common.folds import make_splits, some_rows
from unlazy.estimators.common.gate import MEAN, Choice
from unlazy.estimators.index.base import LEAST_SAMPLES, WEAK_SCORE, IndexData, IndexRegressor
from unlazy.estimators.index.candidates import ridge_fit
from unlazy.estimators.index.certainty import has_few_values
from unlazy.estimators.index.choice import (
    LINEAR,
    STAGES,
    Folds,
    Model,
    beats_ridge,
    choose,
    held_out_predictions,
    linear_model,
    models,
)
from unlazy.estimators.index.search import QUICK, ROUNDS, find
from unlazy.estimators.index.whitening import Whitening, check_enough_rows

# rows per coordinate that the estimators are made for
_RULE = 10
# rows that are divided into folds, at least and per coordinate
_MOST_FOLD_ROWS, _MOST_FOLD_ROWS_PER_PARAMETER = 6000, 12

Fitter = Callable[[np.ndarray, np.ndarray], dict[str, Any]]


class Family(NamedTuple):
    """Models of several directions, and how they are searched and fitted."""

    name: Callable[[int], str]
    """The stage of so many directions."""
    search: Callable[..., tuple[Any, bool]]
    """From rows, labels, count and random: a joint fit, and whether it is certain."""
    polish: Callable[..., Any]
    """From rows, labels, directions and random: the model."""
    path: Callable[..., dict[str, Any]]
    """From rows, labels, sizes and random: quick fits of each size for the folds."""
    of_one: Callable[[np.ndarray, np.ndarray, Model], Any]
    """From rows, labels and a model of a single index: the same as one of this family."""
    is_straight: Callable[[Any], bool]
    """Whether a model is linear."""


class Gated(NamedTuple):
    model: Any
    choice: Choice
    certain: bool


class SeveralIndexRegressor(IndexRegressor):
    """Abstract: a regressor whose parameter `n_...` is a number of directions or "auto"."""

    cv: Any
    random_state: Any

    def _find(self, X: Any, y: Any, name: str, most: int, family: Family) -> tuple[IndexData, Any, Choice]:
        """The data, the model and its choice; "auto" tries sizes up to `most`."""
        value = getattr(self, name)
        count = None if isinstance(value, str) else int(value)
        data = self._prepare(X, y, LEAST_SAMPLES)
        rows, labels = data.rows, data.labels
        check_rows(name, count, len(rows), data.whitening)
        random = check_random_state(self.random_state)
        most = count or min(most, rows.shape[1])
        model, choice, self.certain_ = gated_fit(rows, labels, count, most, self.cv, random, family)
        return data, model, choice


def gated_fit(
    rows: np.ndarray,
    labels: np.ndarray,
    count: int | None,
    most: int,
    cv: Any,
    random: np.random.RandomState,
    family: Family,
) -> Gated:
    """The fit of `count` directions if it is certain and better than ridge regression on held-out rows, else what those
    choose; its weight is not applied yet.

    Without `count` all sizes up to `most` compete. Ridge regression takes the place of a fit that is straight.
    """
    found: Any = None
    most_rows = max(_MOST_FOLD_ROWS, _MOST_FOLD_ROWS_PER_PARAMETER * rows.shape[1] * most)
    part = some_rows(rows, labels, most_rows, random)
    folds = Folds(*part, make_splits(cv, random, *part))

    def refitted(x: np.ndarray, y: np.ndarray) -> Any:
        return family.polish(x, y, found.directions, random)

    def gated(model: Any, choice: Choice, certain: bool) -> Gated:
        if choice.stage not in (LINEAR, MEAN) and not family.is_straight(model):
            return Gated(model, choice, certain)
        one = linear_model(ridge_fit(rows, labels))
        if not np.any(one.direction):
            one = one._replace(direction=np.eye(rows.shape[1])[0])
        stage = MEAN if choice.stage == MEAN else LINEAR
        return Gated(family.of_one(rows, labels, one), choice._replace(stage=stage), certain)

    if count is not None:
        found, certain = family.search(rows, labels, count, random)
        if certain and not has_few_values(labels) and beats_ridge(folds, refitted):
            score = 1 - found.fit.gcv(found.directions.size)
            model = family.polish(rows, labels, found.directions, random)
            return gated(model, Choice(family.name(count), 1.0, score, {}), True)
    sizes = range(1, most + 1)

    def fit(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        return family.path(x, y, sizes if count is None else range(count, count + 1), random)

    choice = held_out_choice(folds, random, fit)
    warn_if_weak(choice)
    if choice.stage in (LINEAR, MEAN):
        return gated(None, choice, False)
    if choice.stage in STAGES:
        single = find(rows, labels, random, ROUNDS[:1])
        one = models(rows, labels, single, (choice.stage,))[choice.stage]
        return gated(family.of_one(rows, labels, one), choice, False)
    chosen = next(size for size in sizes if family.name(size) == choice.stage)
    certain = False
    if chosen != count:
        found, certain = family.search(rows, labels, chosen, random)
        certain = certain and not has_few_values(labels)
    model = family.polish(rows, labels, found.directions, random)
    return gated(model, choice._replace(weight=1.0) if certain else choice, certain)


def held_out_choice(folds: Folds, random: np.random.RandomState, fit: Fitter) -> Choice:
    """The stage of least held-out error: those of a single index, then those of `fit`, which come in order of size."""
    if (fewest := min(len(train) for train, _ in folds.splits)) < LEAST_SAMPLES:
        raise InputError(f"cv must leave at least {LEAST_SAMPLES} training rows in each fold, got {fewest}")
    held = held_out_predictions(folds, lambda x, y: {**models(x, y, find(x, y, random, QUICK)), **fit(x, y)})
    return choose(held, [(LINEAR,), STAGES, *((name,) for name in held.stages if name not in STAGES)])


def check_count(name: str, value: Any) -> None:
    if isinstance(value, str) and value == "auto":
        return
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be 'auto' or an integer >= 1, got {value!r}")


def check_rows(name: str, count: int | None, n: int, whitening: Whitening) -> None:
    """Refuse what cannot be fitted, warn where the rule n >= 10 (directions) d is not kept; None is 'auto'."""
    rank = whitening.rank
    check_enough_rows(n, rank)
    if count is None:
        return
    if count > rank:
        raise InputError(
            f"{name} must be at most the number of independent columns of X, got {count} with n_features = {rank}"
        )
    if n < _RULE * count * rank:
        warnings.warn(
            f"n = {n} is below the rule n >= 10 {name} d = {_RULE * count * rank} (d = {rank} independent columns): "
            "fewer are kept, down to ridge regression or the mean, where held-out rows do not support them",
            UserWarning,
            stacklevel=4,
        )


def warn_if_weak(choice: Choice) -> None:
    if choice.score < WEAK_SCORE:
        warnings.warn(
            f"held-out rows show no dependence of y on few directions of X (R^2 {choice.score:.2g}), stage_ falls back "
            f"to {choice.stage!r}: y is noise, or depends on many directions, or there are too few rows",
            UserWarning,
            stacklevel=5,
        )
