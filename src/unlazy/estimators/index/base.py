"""What regressors on few directions share: data in whitened units, and the way from directions there to those of X."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError
from unlazy.estimators.common.gate import Choice
from unlazy.estimators.common.inputs import check_table, finite_or_refused, standardised
from unlazy.estimators.common.scaling import scale_data
from unlazy.estimators.index.whitening import Whitening, whiten

LEAST_SAMPLES = 6
WEAK_SCORE = 0.02
"""A held-out R^2 below it shows no dependence on few directions."""


class IndexData(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    """Whitened, (n, rank)."""
    labels: np.ndarray
    """(y - center) / unit, of variance 1."""
    whitening: Whitening
    center: float
    unit: float


class IndexRegressor(RegressorMixin, BaseEstimator):
    """Abstract: `fit` prepares, searches and keeps; `_values` are the predictions at standardised indices (n, k)."""

    directions_: np.ndarray

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, (n,)."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            indices = standardised(X, self.mean_, self.scale_) @ self._standardised_coefficients
            return finite_or_refused(self._values(indices), X)

    def _values(self, indices: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _prepare(self, X: Any, y: Any, least: int, why: str = "") -> IndexData:
        """The data in its own units; fewer than `least` rows are refused."""
        X, y = check_table(self, X, y, y_numeric=True, ensure_min_samples=2)
        if len(X) < least:
            raise InputError(f"X must have at least {least} rows{why}, got n_samples = {len(X)}")
        y = y.astype(np.float64)
        scaled = scale_data(X, y.reshape(-1, 1), "float64")
        whitening, rows = whiten(scaled)
        center, unit = float(scaled.target_mean[0]), float(np.exp(scaled.log_target_deviation))
        return IndexData(X, y, rows, scaled.targets[:, 0], whitening, center, unit)

    def _keep(self, data: IndexData, directions: np.ndarray, choice: Choice) -> np.ndarray:
        """Set what is known of directions (rank, k) and choice; returns the factors from (X - mean) to the indices."""
        whitening = data.whitening
        self.mean_, self.scale_ = whitening.mean, whitening.scale
        self._standardised_coefficients = whitening.map @ directions
        self.directions_ = whitening.unit_directions(directions)
        self._indices, self._labels = data.X @ self.directions_.T, data.y
        self.stage_, self.shrinkage_, self.validation_score_ = choice.stage, choice.weight, choice.score
        self.stage_scores_ = choice.scores
        # (x - mean) / scale @ s = factor (x - mean) @ direction, read off where that is largest
        largest = np.argmax(np.abs(self.directions_), axis=1)
        each = np.arange(len(self.directions_))
        scaled = self._standardised_coefficients.T / self.scale_
        return scaled[each, largest] / self.directions_[each, largest]
