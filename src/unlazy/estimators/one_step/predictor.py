"""What the regressor and the classifier of one step share: settings, the search for features, and the last fit."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_whole
from unlazy.estimators.common.folds import make_splits, some_rows
from unlazy.estimators.common.inputs import check_numbers
from unlazy.estimators.one_step.base import OneStepEstimator
from unlazy.estimators.one_step.ridge import ReadOut, left_out_errors, read_out, read_out_many
from unlazy.estimators.one_step.search import (
    LINEAR,
    ONE_STEP,
    RANDOM,
    SEARCH_ROWS,
    Candidate,
    ChosenFeatures,
    Directions,
    Recipe,
    Search,
    choose,
    features,
    search,
)
from unlazy.numerics.index_directions import Signal, linear_signal

READOUT_RIDGES = tuple(np.logspace(-6, 2, 25).tolist())
LARGEST_SPIKE = 1e6
_LEAST_RIDGE, _LARGEST_RIDGE = 1e-10, 1e100
_PERMUTATIONS = 9


class SearchedRows(NamedTuple):
    """All rows or some, and which of these are held out together."""

    rows: np.ndarray
    labels: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]


class LearnedFeatures(NamedTuple):
    found: Directions
    signal: Signal
    searched: Search
    choice: ChosenFeatures
    fit: ReadOut
    """For labels of variance 1."""


class OneStepPredictor(OneStepEstimator):
    """Abstract: ridge regression on features of one step that held-out rows choose."""

    def __init__(
        self,
        width: int = 400,
        *,
        activation: Any = "tanh",
        precondition: bool = True,
        spike_deviations: Sequence[float] = (0.0, 1.0, 3.0),
        background: Any = "cv",
        max_directions: int = 3,
        refinements: int = 4,
        ridges: Sequence[float] = READOUT_RIDGES,
        cv: Any = 5,
        random_state: Any = None,
    ):
        self.width = width
        self.activation = activation
        self.precondition = precondition
        self.spike_deviations = spike_deviations
        self.background = background
        self.max_directions = max_directions
        self.refinements = refinements
        self.ridges = ridges
        self.cv = cv
        self.random_state = random_state

    def _searched_rows(self, rows: np.ndarray, labels: np.ndarray, random: np.random.RandomState) -> SearchedRows:
        part = some_rows(rows, labels, SEARCH_ROWS if isinstance(self.cv, Integral) else len(rows), random)
        try:
            return SearchedRows(*part, make_splits(self.cv, random, *part))
        except InputError:
            raise
        except (TypeError, ValueError):
            raise InputError(
                f"cv must be a number of folds, a splitter or pairs of training and held-out rows, got {self.cv!r:.80}"
            ) from None

    def _learn(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        part: SearchedRows,
        recipe: Recipe,
        random: np.random.RandomState,
        spikes: np.ndarray,
        ridges: np.ndarray,
    ) -> LearnedFeatures:
        """Directions of all rows, features that the held-out ones of a part choose, and coefficients from all rows."""
        found = Directions(rows, labels, recipe)
        signal = linear_signal(rows, labels, found.fit.factors)
        extra = found.moment.visible(self.max_directions, _PERMUTATIONS, random)
        searched = search(*part, recipe, self._candidates(spikes, extra), ridges)
        choice = choose(searched.errors, ridges)
        if choice.candidate.model == LINEAR and isinstance(self.cv, Integral):
            # no label has shaped these features, so every row may be left out in turn
            column = int(np.argmin(left_out_errors(rows / np.sqrt(rows.shape[1]), labels, ridges)))
            choice = choice._replace(column=column, ridge=float(ridges[column]))
        weights, biases = recipe.weights(choice.candidate, found.of(choice.candidate))

        def made(some: np.ndarray) -> np.ndarray:
            return features(some @ weights + biases, some, recipe.activation)

        if len(rows) == len(part.rows):
            return LearnedFeatures(found, signal, searched, choice, read_out(made(rows), labels, choice.ridge))
        # more rows allow a smaller ridge than those that were searched
        fit = read_out_many(made, rows, labels, ridges[: choice.column + 1])
        return LearnedFeatures(found, signal, searched, choice, fit)

    def _candidates(self, spikes: np.ndarray, extra: int) -> list[Candidate]:
        """Extra directions in numbers 1, 2, 4, ... up to `extra`, and `extra` itself."""
        backgrounds = (True, False) if self.background == "cv" else (bool(self.background),)
        candidates = [Candidate(LINEAR, False, 0.0, 0)]
        if 0 in spikes and True in backgrounds:
            candidates.append(with_spike(0.0))
        for number in sorted({0, extra, *(2**i for i in range(extra) if 2**i < extra)}):
            for background in backgrounds if not number else backgrounds[-1:]:
                candidates += [Candidate(ONE_STEP, background, spike, number) for spike in spikes.tolist() if spike]
        return candidates

    def _check_parameters(self) -> tuple[np.ndarray, np.ndarray]:
        spikes = np.unique(check_numbers("spike_deviations", self.spike_deviations, low=0, high=LARGEST_SPIKE, ndim=1))
        ridges = np.unique(check_numbers("ridges", self.ridges, low=_LEAST_RIDGE, high=_LARGEST_RIDGE, ndim=1))
        by_cv = isinstance(self.background, str) and self.background == "cv"
        if not (by_cv or isinstance(self.background, (bool, np.bool_))):
            raise InputError(f"background must be 'cv', True or False, got {self.background!r}")
        for name in ("max_directions", "refinements"):
            check_whole(name, getattr(self, name), 0, floats=False)
        return spikes, ridges


def with_spike(spike: float) -> Candidate:
    return Candidate(ONE_STEP if spike else RANDOM, True, spike, 0)
