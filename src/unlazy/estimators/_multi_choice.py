"""How many directions to trust: fits of growing size next to those of a single index, judged on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from unlazy.errors import InputError
from unlazy.estimators._index_choice import LINEAR, MEAN, models
from unlazy.estimators._index_choice import STAGES as SINGLE_STAGES
from unlazy.estimators._index_search import QUICK, find
from unlazy.estimators._index_whitening import Whitening
from unlazy.estimators.folds import make_splits

LEAST_SAMPLES = 6
WEAK_SCORE = 0.02
_ROWS_PER_COLUMN = 2
_RULE = 10
# z^2 below which a prediction is taken for chance
_GARROTE = 4.0
_ROUNDING = 1e-12
# values of y: few are separated by many directions, so that a fit without error says little of the next rows
_MOST_FOLD_ROWS, _MOST_FOLD_ROWS_PER_PARAMETER = 6000, 12

Predictor = Callable[[np.ndarray], np.ndarray]
Fitter = Callable[[np.ndarray, np.ndarray], dict[str, Predictor]]


class Choice(NamedTuple):
    stage: str
    weight: float
    """What the prediction's distance from the mean is multiplied by."""
    score: float
    """R^2 on held-out rows of the weighted predictions."""
    scores: dict[str, float]
    """Of every stage."""


def check_folds(cv: Any, rows: np.ndarray, labels: np.ndarray) -> None:
    """Refuse a wrong `cv` even where nothing will be held out; an iterator would be used up by that."""
    if not isinstance(cv, Iterator):
        make_splits(cv, 0, rows, labels)


def held_out_choice(
    rows: np.ndarray, labels: np.ndarray, cv: Any, random: np.random.RandomState, fit: Fitter, largest: int
) -> Choice:
    """The stage of least held-out error: those of a single index, then those of `fit`, which come in order of size."""
    most = max(_MOST_FOLD_ROWS, _MOST_FOLD_ROWS_PER_PARAMETER * rows.shape[1] * largest)
    if len(rows) > most:
        part = random.permutation(len(rows))[:most]
        rows, labels = rows[part], labels[part]
    predictions, targets, names = [], [], []
    for train, held in make_splits(cv, random, rows, labels):
        if len(train) < LEAST_SAMPLES:
            raise InputError(f"cv must leave at least {LEAST_SAMPLES} training rows in each fold, got {len(train)}")
        x, y = rows[train], labels[train]
        center = y.mean()
        fitted: dict[str, Any] = {**models(x, y, find(x, y, random, QUICK)), **fit(x, y)}
        names = list(fitted)
        predictions.append(np.column_stack([one(rows[held]) for one in fitted.values()]) - center)
        targets.append(labels[held] - center)
    found, held_labels = np.concatenate(predictions), np.concatenate(targets)
    return choose(found, held_labels, names, max(held_labels.size / len(rows), 1.0))


def choose(predictions: np.ndarray, targets: np.ndarray, names: list[str], copies: float = 1.0) -> Choice:
    """The stage and its weight, as for a single index, and of several sizes the smallest that is as good as the best.

    Every row has been held out `copies` times. Predictions p are multiplied by w = clip(<y, p> / <p, p>, 0, 1). A stage
    is left for a larger one only for a gain of a standard error of the paired differences; the weight of the chosen one
    is multiplied by 1 - 4/z^2 (0 if that is negative), z = <y, p> / (sd y |p| sqrt(copies)), Breiman's (1995) garrote.
    """
    n = targets.size / copies
    squares = np.einsum("ij,ij->j", predictions, predictions)
    products = targets @ predictions
    weights = np.clip(products / np.maximum(squares, _ROUNDING), 0.0, 1.0)
    total = float(np.mean(targets**2))
    losses = (targets[:, None] - weights * predictions) ** 2
    errors = losses.mean(axis=0)

    def as_good(smaller: int, larger: int) -> bool:
        gain = losses[:, smaller] - losses[:, larger]
        return bool(gain.mean() <= gain.std() / np.sqrt(n))

    best = int(np.argmin(errors))
    linear = names.index(LINEAR)
    singles = [i for i, name in enumerate(names) if name in SINGLE_STAGES]
    single = min(singles, key=lambda i: errors[i])
    sizes = [linear, single, *(i for i in range(len(names)) if i not in singles)]
    best = next((i for i in sizes if i == best or as_good(i, best)), best)
    scores = {name: 1 - float(error) / total for name, error in zip(names, errors, strict=True)}
    evidence = products[best] / np.sqrt(max(copies * squares[best] * total, _ROUNDING))
    kept = max(1 - _GARROTE / max(evidence, _ROUNDING) ** 2, 0.0) if evidence > 0 else 0.0
    weight = float(weights[best] * kept)
    if weight == 0:
        return Choice(MEAN, 0.0, 0.0, scores)
    error = float(np.mean((targets - weight * predictions[:, best]) ** 2))
    return Choice(names[best], weight, 1 - error / total, scores)


def check_count(name: str, value: Any) -> None:
    if isinstance(value, str) and value == "auto":
        return
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be 'auto' or an integer >= 1, got {value!r}")


def check_rows(name: str, count: int | None, n: int, whitening: Whitening) -> None:
    """Refuse what cannot be fitted, warn where the rule n >= 10 (directions) d is not kept; None is 'auto'."""
    rank = whitening.rank
    if not rank:
        raise InputError("X must have a column that is not constant, got constant columns only")
    if n < _ROWS_PER_COLUMN * rank:
        raise InputError(
            f"X must have at least twice as many rows as independent columns, got n_samples = {n} with {rank} of "
            "them: use ridge regression or OneStepRegressor, or PCA to fewer columns first"
        )
    if count is None:
        return
    if count > rank:
        raise InputError(
            f"{name} must be at most the number of independent columns of X, got {count} with n_features = {rank}"
        )
    if n < _RULE * count * rank:
        warnings.warn(
            f"n = {n} is below the rule n >= 10 {name} d = {_RULE * count * rank} (d = {rank} independent columns): "
            "directions may be missed",
            UserWarning,
            stacklevel=4,
        )


def warn_if_weak(choice: Choice) -> None:
    if choice.score < WEAK_SCORE:
        warnings.warn(
            f"held-out rows show no dependence of y on few directions of X (R^2 {choice.score:.2g}), stage_ is "
            f"{choice.stage!r}: y is noise, or depends on many directions, or there are too few rows",
            UserWarning,
            stacklevel=4,
        )


def input_scales(whitening: Whitening, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors (k, d) in the space of X, and the factors by which (X - mean) @ them becomes the indices."""
    units = whitening.unit_directions(directions)
    standardised = (whitening.map @ directions).T / whitening.scale
    largest = np.argmax(np.abs(units), axis=1)
    each = np.arange(len(units))
    return units, standardised[each, largest] / units[each, largest]
