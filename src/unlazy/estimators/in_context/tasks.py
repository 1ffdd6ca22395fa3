"""Related data sets as numbers of comparable size: checked, standardised and divided into folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_whole
from unlazy.data.table_encoder import TableEncoder
from unlazy.estimators.common.inputs import Pairs, check_pairs, standardised
from unlazy.numerics.ridge import ridge_solutions

Folds = list[tuple[np.ndarray, np.ndarray]]

MOST_FEATURES = 1000
_LARGEST = 1e100
_MOST_LEARNED, _MOST_HELD = 600, 150
_MEAN_PENALTIES = np.logspace(-5, 3, 17)


class Scales(NamedTuple):
    """Where the features and targets of all tasks lie and how far they spread."""

    mean: np.ndarray
    deviation: np.ndarray
    target_mean: float
    target_deviation: float

    def design(self, X: np.ndarray) -> np.ndarray:
        """A column of ones and the standardised features."""
        return np.column_stack([np.ones(len(X)), standardised(X, self.mean, self.deviation)])

    def targets(self, y: np.ndarray) -> np.ndarray:
        scaled = (y - self.target_mean) / self.target_deviation
        if not np.abs(scaled).max() < _LARGEST:
            raise InputError(
                f"y must be less than {_LARGEST:g} deviations {self.target_deviation:g} of the pretraining targets "
                f"from their mean, got {y[np.argmax(np.abs(scaled))]:g}"
            )
        return scaled


class PooledMean(NamedTuple):
    """Ridge on the rows of all tasks together: for each fold without its held-out tasks, and for all tasks."""

    folds: list[np.ndarray]
    all: np.ndarray


def check_tasks(tasks: Any, n_tasks: int | None, rng: np.random.Generator) -> tuple[Pairs, TableEncoder | None]:
    """Pairs (X, y) from a list of them or from a sampler, or the reason why they are not related data sets.

    With the encoder of rows that have text, dates or gaps.
    """
    if callable(tasks):
        count = check_whole("n_tasks of a sampler", n_tasks, 2, floats=False)
        return _check_pairs(_drawn(tasks, count, rng), "tasks must return a pair (X, y)")
    if n_tasks is not None:
        raise InputError(f"n_tasks must be None unless tasks is a sampler, got {n_tasks!r}")
    if isinstance(tasks, str | bytes | dict) or not isinstance(tasks, Iterable):
        raise InputError(f"tasks must be pairs (X, y) or a sampler, got {type(tasks).__name__}")
    return _check_pairs(tasks, "tasks must be a list of pairs (X, y)")


def scales_of(pairs: Pairs) -> Scales:
    """Means and deviations of all rows; constant features keep their unit, constant targets are refused."""
    rows, targets = np.concatenate([X for X, _ in pairs]), np.concatenate([y for _, y in pairs])
    mean, deviation = _spread(rows)
    target_mean, target_deviation = _spread(targets[:, None])
    if not target_deviation[0] > 4 * np.finfo(np.float64).eps * np.abs(targets).max():
        raise InputError("tasks must have targets that vary, got constant targets only")
    deviation = np.where(deviation > 4 * np.finfo(np.float64).eps * np.abs(rows).max(axis=0), deviation, 1.0)
    return Scales(mean, deviation, float(target_mean[0]), float(target_deviation[0]))


def make_folds(tasks: int, cv: int, rng: np.random.Generator) -> Folds:
    """Indices of tasks to learn from and of held-out ones; at most 600 and 150, which decide well enough."""
    cv = check_whole("cv", cv, 2, floats=False)
    parts = np.array_split(rng.permutation(tasks), min(cv, tasks))
    return [
        (np.concatenate(parts[:i] + parts[i + 1 :])[:_MOST_LEARNED], part[:_MOST_HELD]) for i, part in enumerate(parts)
    ]


def cut(pair: tuple[np.ndarray, np.ndarray], context: int | None) -> Pairs:
    """A task in pieces of `context` + 1 rows, so that each row is predicted from as many as a new task will have."""
    design, target = pair
    if context is None or len(target) <= context + 1:
        return [pair]
    pieces = np.array_split(np.arange(len(target)), -(-len(target) // (context + 1)))
    return [(design[rows], target[rows]) for rows in pieces]


def pooled_mean(pairs: Pairs, folds: Folds, choice: str) -> PooledMean:
    """One linear predictor for all tasks, whose penalty held-out tasks choose; none at all may be best.

    `choice` "zero" takes none, "learned" takes some.
    """
    width = pairs[0][0].shape[1]
    if choice == "zero":
        return PooledMean([np.zeros(width) for _ in folds], np.zeros(width))
    # no predictor at all is the last column
    paths = [_ridge_path([pairs[i] for i in inside]) for inside, _ in folds]
    errors = np.zeros(len(_MEAN_PENALTIES) + 1)
    for path, (_, outside) in zip(paths, folds, strict=True):
        for i in outside:
            design, target = pairs[i]
            errors += np.sum((target[:, None] - design @ path) ** 2, axis=0)
    best = int(np.argmin(errors if choice == "auto" else errors[:-1]))
    return PooledMean([path[:, best] for path in paths], _ridge_path(pairs)[:, best])


def _ridge_path(pairs: Pairs) -> np.ndarray:
    """Coefficients, a column for each penalty relative to the number of rows, and one of zeros."""
    rows = sum(len(target) for _, target in pairs)
    width = pairs[0][0].shape[1]
    gram, pull = np.zeros((width, width)), np.zeros(width)
    for design, target in pairs:
        gram += design.T @ design / rows
        pull += design.T @ target / rows
    return np.column_stack([ridge_solutions(gram, pull, _MEAN_PENALTIES).T, np.zeros(width)])


def _drawn(sampler: Callable[[np.random.Generator], Any], n_tasks: int, rng: np.random.Generator) -> Iterable[Any]:
    for _ in range(n_tasks):
        yield sampler(rng)


def _check_pairs(tasks: Iterable[Any], wanted: str) -> tuple[Pairs, TableEncoder | None]:
    pairs, encoder = check_pairs(tasks, wanted, size=_LARGEST)
    if len(pairs) < 2:
        raise InputError(f"tasks must hold at least 2 pairs (X, y), got {len(pairs)}")
    features = pairs[0][0].shape[1]
    if features > MOST_FEATURES:
        raise InputError(f"X of task 0 must have at most {MOST_FEATURES} features, got {features}: project them first")
    return pairs, encoder


def _spread(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of columns of any size."""
    largest = np.abs(rows).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    scaled = rows / unit
    return scaled.mean(axis=0) * unit, scaled.std(axis=0) * unit
