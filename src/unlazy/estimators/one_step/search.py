"""Which features, with which ridge, predict held-out rows best; every fold finds its directions anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.estimators.common.gate import is_gain, mean_of_rows, student_quantile
from unlazy.estimators.one_step.directions import LinearFit, SecondMoment, linear_fit, refine
from unlazy.estimators.one_step.ridge import LinearKernel, RidgeFold
from unlazy.functions.elementwise import Link
from unlazy.numerics.index_directions import unit_spread

LINEAR, RANDOM, ONE_STEP = "linear", "random features", "one step"
MODELS = (LINEAR, RANDOM, ONE_STEP)
SEARCH_ROWS = 10_000
"""Of more rows so many choose the features; all of them give directions and coefficients."""
# of candidates that depend on few numbers
_INDEX_FEATURES = 200
# at which the linear model is left
_LEVEL = 0.01


class Candidate(NamedTuple):
    """One kind of features; all but the linear ones are sigma(W^T z + b) and z."""

    model: str
    background: bool
    """Whether W keeps the random W0."""
    spike: float
    extra: int
    """Directions besides that of the step."""


class Recipe(NamedTuple):
    """How directions are found and features are made of them: all that is drawn or given."""

    activation: Link
    initial: np.ndarray
    """W0, (d, N), entries N(0, 1/d)."""
    second: np.ndarray
    """Weights a of the directions, (directions, N), entries N(0, 1)."""
    biases: np.ndarray
    precondition: bool
    refinements: int

    def spiked(self, candidate: Candidate) -> tuple[np.ndarray, np.ndarray]:
        """spike a, (1 + extra, N), and the biases.

        Without W0 the features depend on few numbers, and 200 of them are enough.
        """
        count = 0 if candidate.model == LINEAR else len(self.biases) if candidate.background else _INDEX_FEATURES
        rows = 1 + candidate.extra if candidate.model == ONE_STEP else 0
        return candidate.spike * self.second[:rows, :count], self.biases[:count]

    def weights(self, candidate: Candidate, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W1 = W0 + spike V a, or without W0, and the biases."""
        spiked, biases = self.spiked(candidate)
        moved = directions @ spiked
        return self.initial + moved if candidate.background else moved, biases


class Directions:
    """The directions of one set of rows, found when asked for."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray, recipe: Recipe):
        # rows are centred over all of them, these are some of them
        self.rows, self.labels = rows - rows.mean(axis=0), labels - labels.mean()
        self.recipe = recipe
        self.fit: LinearFit = linear_fit(self.rows, self.labels)
        found = self.fit.coefficients if recipe.precondition else self.rows.T @ self.labels / len(rows)
        self.first = unit_spread(self.rows, found[:, None])
        self._refined: dict[int, np.ndarray] = {}

    @cached_property
    def moment(self) -> SecondMoment:
        return SecondMoment(self.rows, self.labels, self.fit)

    def of(self, candidate: Candidate) -> np.ndarray:
        """(d, 1 + extra), or (d, 0) where there is no spike."""
        if candidate.model != ONE_STEP:
            return self.first[:, :0]
        if candidate.extra not in self._refined:
            both = self.first
            if candidate.extra:
                both = unit_spread(self.rows, np.column_stack([both, self.moment.directions(candidate.extra)]))
            self._refined[candidate.extra] = self._refine(both)
        return self._refined[candidate.extra]

    def _refine(self, found: np.ndarray) -> np.ndarray:
        """Directions as they are where the numbers of a steep activation overflow."""
        recipe = self.recipe
        weights = recipe.second[: found.shape[1]]
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                refined = refine(
                    self.rows, self.labels, found, recipe.refinements, recipe.activation, weights, recipe.biases
                )
        except np.linalg.LinAlgError:
            return found
        return refined if np.isfinite(refined).all() else found


class Search(NamedTuple):
    """What the held-out rows say."""

    errors: dict[Candidate, np.ndarray]
    """Squared errors, (rows, ridges): one entry per row that was ever held out, inf where numbers overflowed."""
    covariance: float
    """Mean of y times the index of the first direction, scaled to variance 1 there: fitted rows spread more."""


class ChosenFeatures(NamedTuple):
    candidate: Candidate
    column: int
    """Of the ridge among all."""
    ridge: float


def hidden_features(hidden: np.ndarray, activation: Link) -> np.ndarray:
    """sigma(hidden) / sqrt(N)."""
    return activation(hidden) / np.sqrt(max(hidden.shape[1], 1))


def features(hidden: np.ndarray, rows: np.ndarray, activation: Link) -> np.ndarray:
    """[sigma(hidden) / sqrt(N), z / sqrt(d)]."""
    return np.hstack([hidden_features(hidden, activation), rows / np.sqrt(rows.shape[1])])


def search(
    rows: np.ndarray,
    labels: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    recipe: Recipe,
    candidates: Sequence[Candidate],
    ridges: np.ndarray,
) -> Search:
    """Held-out errors of all candidates and ridges: one decomposition per fold and candidate."""
    background = rows @ recipe.initial + recipe.biases
    kernel = LinearKernel(rows / np.sqrt(rows.shape[1]))
    errors: dict[Candidate, list[np.ndarray]] = {c: [] for c in candidates}
    indices, centred = [], []
    for train, held in splits:
        found = Directions(rows[train], labels[train], recipe)
        indices.append((rows[held] - rows[train].mean(axis=0)) @ found.first[:, 0])
        centred.append(labels[held] - labels[train].mean())
        fold = RidgeFold(kernel, labels, train, held)
        for candidate in candidates:
            spiked, biases = recipe.spiked(candidate)
            # W1^T z = W0^T z + spike a (v.z): the large product is made once
            hidden = rows @ found.of(candidate) @ spiked + (background if candidate.background else biases)
            made = hidden_features(hidden, recipe.activation)
            with np.errstate(over="ignore", invalid="ignore"):
                wrong = ((fold.predictions(made, ridges) - labels[held][:, None]) ** 2).astype(np.float32)
            errors[candidate].append(np.where(np.isfinite(wrong), wrong, np.float32(np.inf)))
    rows_held = np.concatenate([held for _, held in splits])
    index = np.concatenate(indices)
    spread = np.sqrt(np.mean(index**2))
    covariance = np.mean(index * np.concatenate(centred)) / (spread or 1.0)
    means = {c: mean_of_rows(np.concatenate(e), rows_held).astype(np.float32) for c, e in errors.items()}
    return Search(means, float(covariance))


def left_out_predictions(
    rows: np.ndarray,
    labels: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    recipe: Recipe,
    chosen: ChosenFeatures,
) -> np.ndarray:
    """Predictions of held-out rows by the chosen features, one for every held-out row of every fold in turn."""
    kernel = LinearKernel(rows / np.sqrt(rows.shape[1]))
    parts = []
    for train, held in splits:
        directions = Directions(rows[train], labels[train], recipe).of(chosen.candidate)
        weights, biases = recipe.weights(chosen.candidate, directions)
        made = hidden_features(rows @ weights + biases, recipe.activation)
        fold = RidgeFold(kernel, labels, train, held)
        parts.append(fold.predictions(made, np.array([chosen.ridge]))[:, 0])
    return np.concatenate(parts)


def choose(errors: dict[Candidate, np.ndarray], ridges: np.ndarray) -> ChosenFeatures:
    """The least held-out error, but a simpler model unless the next is clearly better.

    Better is a matter of the differences paired by row, whose mean has to exceed q standard errors. To leave the linear
    model q is Student's one-sided quantile at the level 1%, since the best of many is compared, few rows say little and
    outliers mislead; between models that are not linear it is 1.
    """
    chosen: tuple[Candidate, int] | None = None
    for model in MODELS:
        means = {c: e.mean(axis=0, dtype=np.float64) for c, e in errors.items() if c.model == model}
        if not means:
            continue
        best = min(means, key=lambda c: means[c].min())
        if not np.isfinite(means[best].min()):
            continue
        column = int(np.argmin(means[best]))
        if chosen is not None:
            gain = errors[chosen[0]][:, chosen[1]].astype(np.float64) - errors[best][:, column]
            linear = chosen[0].model == LINEAR
            if not is_gain(gain, student_quantile(_LEVEL, len(gain)) if linear else 1.0):
                continue
        chosen = best, column
    if chosen is None:
        raise InputError("activation must have features of moderate size, got some whose squares overflow in all folds")
    return ChosenFeatures(*chosen, float(ridges[chosen[1]]))


def table(errors: dict[Candidate, np.ndarray], ridges: np.ndarray, unit: float) -> dict[str, np.ndarray]:
    """One entry per candidate and ridge."""
    columns: dict[str, Any] = {name: [] for name in ("model", "background", "spike_deviation", "extra_directions")}
    for candidate in errors:
        for name, value in zip(columns, candidate, strict=True):
            columns[name] += [value] * len(ridges)
    means = [unit * e.mean(axis=0, dtype=np.float64) for e in errors.values()]
    table = {name: np.array(values) for name, values in columns.items()}
    return table | {"ridge": np.tile(ridges, len(errors)), "cv_mse": np.concatenate(means)}
