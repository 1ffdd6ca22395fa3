"""Kernel ridge machines with a learned metric, for tables as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from unlazy.checks import InputError, check_whole
from unlazy.data.table_encoder import TableEncoder
from unlazy.estimators.metric_machine.calibration import Calibration, calibrated
from unlazy.estimators.metric_machine.kernels import DISTANCE, SUM
from unlazy.estimators.metric_machine.large import fit_all
from unlazy.estimators.metric_machine.members import Fit, Round, linear_round, refit, rounds

_LEAST_WEIGHT = 0.03
_FEWEST_ROWS = 10


class Member(NamedTuple):
    weight: float
    rounds: int
    """In which the metric was learned."""
    fit: Fit


class MetricMachine(BaseEstimator):
    """Abstract: what regressor and classifier share."""

    def __init__(self, *, metric_rows: int = 2000, random_state: Any = None):
        self.metric_rows = metric_rows
        self.random_state = random_state

    def _learn(self, X: Any, targets: np.ndarray, strata: np.ndarray) -> np.ndarray:
        """Fit scores for targets (n, outputs) of mean 0; returns cross-fitted ones of the rows of the metric."""
        random = check_random_state(self.random_state)
        most = check_whole("metric_rows", self.metric_rows, _FEWEST_ROWS)
        rows = self.encoder_.transform(X)
        some = np.arange(len(rows)) if len(rows) <= most else np.sort(random.permutation(len(rows))[:most])
        few, few_targets = rows[some], targets[some]
        halves = _halves(strata[some], random)
        found: list[Round] = [linear_round(few, few_targets, halves)]
        for kind in (SUM, DISTANCE):
            found += rounds(kind, few, few_targets, halves, random)
        weights = _stacked([one.predictions for one in found], few_targets)
        members = []
        for weight, one in zip(weights, found, strict=True):
            if weight:
                machine = refit(one, few, few_targets, random)
                machine = machine if len(some) == len(rows) else fit_all(machine, rows, targets, random)
                members.append(Member(float(weight), len(one.shapes), machine))
        self.members_ = tuple(members)
        self.metric_indices_ = some
        self._importances(few)
        return np.sum([weight * one.predictions for weight, one in zip(weights, found, strict=True)], axis=0)

    def _importances(self, rows: np.ndarray) -> None:
        """What members see of the variance of each column."""
        total, variances = np.zeros(rows.shape[1]), rows.var(axis=0)
        for weight, _, one in self.members_:
            root = one.metric.root
            metric = root**2 if root.ndim == 1 else np.sum(root**2, axis=1)
            seen = metric * variances
            total += weight * seen / (seen.sum() or 1.0)
        by_source = np.bincount(self.encoder_.sources_, total, self.n_features_in_)
        self.feature_importances_ = by_source / (by_source.sum() or 1.0)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows = self.encoder_.transform(X)
        return np.sum([member.weight * member.fit.predict(rows) for member in self.members_], axis=0)

    def _encode(self, X: Any, y: Any) -> np.ndarray:
        """Checks X and y; returns y."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        self.encoder_ = TableEncoder("robust").fit(X)
        self.n_features_in_ = self.encoder_.n_features_in_
        if hasattr(self.encoder_, "feature_names_in_"):
            self.feature_names_in_ = self.encoder_.feature_names_in_
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


class MetricMachineRegressor(RegressorMixin, MetricMachine):
    """Kernel ridge regression whose metric is learned."""

    def fit(self, X: Any, y: Any) -> MetricMachineRegressor:
        y = self._encode(X, y).astype(np.float64)
        if not np.isfinite(y).all():
            raise InputError(f"y must be finite, got {y[~np.isfinite(y)][0]}")
        self.mean_, self.unit_ = float(y.mean()), float(y.std()) or 1.0
        crossed = self._learn(X, ((y - self.mean_) / self.unit_)[:, None], y)
        self.leave_one_out_ = self.mean_ + self.unit_ * crossed[:, 0]
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.mean_ + self.unit_ * self._scores(X)[:, 0]


class MetricMachineClassifier(ClassifierMixin, MetricMachine):
    """Kernel ridge scores of classes in a learned metric, calibrated."""

    def fit(self, X: Any, y: Any) -> MetricMachineClassifier:
        y = self._encode(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y must hold at least 2 classes, got only {self.classes_[0]}")
        one_hot = np.eye(len(self.classes_))[codes]
        self.shares_ = one_hot.mean(axis=0)
        crossed = self._learn(X, one_hot - self.shares_, codes)
        self.calibration_ = calibrated(crossed, codes[self.metric_indices_])
        self.leave_one_out_ = self.calibration_(crossed)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.calibration_(self._scores(X))

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def _halves(strata: np.ndarray, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Two halves with like shares of every stratum; of numbers, neighbours in their order are parted."""
    order = np.lexsort((random.random_sample(len(strata)), strata))
    pairs = random.randint(2, size=-(-len(order) // 2))
    side = np.column_stack([pairs, 1 - pairs]).ravel()[: len(order)]
    return order[side == 0], order[side == 1]


def _stacked(predictions: list[np.ndarray], targets: np.ndarray) -> np.ndarray:
    """Non-negative weights of the members; small ones are dropped."""
    from scipy.optimize import nnls

    def solved(some: np.ndarray) -> np.ndarray:
        weights = np.zeros(len(predictions))
        weights[some] = nnls(np.column_stack([predictions[i].ravel() for i in some]), targets.ravel())[0]
        return weights

    weights = solved(np.arange(len(predictions)))
    kept = np.flatnonzero(weights >= _LEAST_WEIGHT * weights.sum())
    return solved(kept) if weights.any() else weights
