"""What the features of one step and their regressor share: scales, weights, and the features of new rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError, check_flag, check_whole
from unlazy.estimators.common.inputs import check_memory, check_table, finite_or_refused, guarded, standardised
from unlazy.estimators.common.scaling import Scaled, scale_data
from unlazy.estimators.one_step.search import SEARCH_ROWS, Candidate, Directions, Recipe, Search, features
from unlazy.numerics.index_directions import Signal
from unlazy.theory.one_step.moments import activation_moments

_LEAST_SAMPLES = 10


class Prepared(NamedTuple):
    scaled: Scaled
    labels: np.ndarray
    """(n,), centred, of variance 1."""
    recipe: Recipe
    random: np.random.RandomState


class OneStepEstimator(BaseEstimator):
    """Abstract: `fit` prepares, searches and keeps."""

    width: int
    activation: Any
    precondition: bool
    random_state: Any

    def _prepare(self, X: Any, y: Any, directions: int, refinements: int) -> Prepared:
        """The data in its own units, and what is drawn at random."""
        X, y = check_table(self, X, y, y_numeric=True, ensure_min_samples=2)
        return self._drawn(X, y.astype(np.float64).reshape(-1, 1), directions, refinements)

    def _drawn(self, X: np.ndarray, targets: np.ndarray, directions: int, refinements: int) -> Prepared:
        """The same for checked X (n, d) and targets (n, outputs), of which the first are the labels."""
        if len(X) < _LEAST_SAMPLES:
            raise InputError(f"X must have at least {_LEAST_SAMPLES} rows, got n_samples = {len(X)}")
        count = check_whole("width", self.width, 1, floats=False)
        check_flag("precondition", self.precondition)
        # W0, and of every row: what W0 gives, what a candidate adds, its features
        check_memory("width", count, float(count) * (X.shape[1] + directions + 3 * min(len(X), SEARCH_ROWS)))
        activation = guarded(self.activation)
        activation_moments(activation).linear_square()
        scaled = scale_data(X, targets, "float64")
        random = check_random_state(self.random_state)
        d = X.shape[1]
        initial = random.standard_normal((d, count)) / np.sqrt(d)
        second = random.standard_normal((directions, count))
        biases = random.standard_normal(count)
        recipe = Recipe(activation, initial, second, biases, bool(self.precondition), refinements)
        return Prepared(scaled, scaled.targets[:, 0], recipe, random)

    def _keep(
        self, scaled: Scaled, signal: Signal, found: Directions, searched: Search, chosen: Candidate, recipe: Recipe
    ) -> None:
        """Set what users may look at."""
        self.mean_ = scaled.mean
        self.scale_ = np.where(np.isfinite(scaled.log_deviation), np.exp(scaled.log_deviation), np.inf)
        used = found.of(chosen)
        self.direction_ = scaled.in_units(found.first[:, 0], -self._log_scale(scaled))
        self.directions_ = scaled.in_units(used.T, -self._log_scale(scaled))
        self.weights_, self.biases_ = recipe.weights(chosen, used)
        self.spike_deviation_ = chosen.spike
        self.signal_z_ = signal.z
        self.alignment_ = 0.0
        if signal.square > 0:
            self.alignment_ = float(np.clip(searched.covariance / np.sqrt(signal.square), 0.0, 1.0))

    @staticmethod
    def _log_scale(scaled: Scaled) -> np.ndarray:
        return np.where(np.isfinite(scaled.log_deviation), scaled.log_deviation, 0.0)

    def _features(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        rows = standardised(X, self.mean_, self.scale_)
        with np.errstate(over="ignore", invalid="ignore"):
            hidden = finite_or_refused(rows @ self.weights_ + self.biases_, X)
        return features(hidden, rows, guarded(self.activation))
