"""Classes from features that few directions have shaped, with logistic regression where these bring nothing."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError
from unlazy.estimators.common.folds import make_splits
from unlazy.estimators.common.gate import is_gain, mean_of_rows, student_quantile
from unlazy.estimators.common.inputs import check_table, guarded, standardised
from unlazy.estimators.one_step.predictor import LearnedFeatures, OneStepPredictor, SearchedRows
from unlazy.estimators.one_step.search import LINEAR, SEARCH_ROWS, Recipe, features, left_out_predictions

LOGISTIC, ONE_STEP = "logistic", "one step"
_STRENGTHS = np.logspace(-3, 3, 7)
# of scores of variance about 1: enough that a perfect separation has finite slopes
_CALIBRATION_STRENGTH = 10.0
# at which logistic regression is left
_LEVEL = 0.01


class ClassScore(NamedTuple):
    """The score of a class in standardised rows, [sigma(W^T z + b) / sqrt(N), z / sqrt(d)].c + intercept, in bounds."""

    weights: np.ndarray
    biases: np.ndarray
    coefficients: np.ndarray
    intercept: float
    low: float
    high: float

    def __call__(self, rows: np.ndarray, activation: Any) -> np.ndarray:
        made = features(rows @ self.weights + self.biases, rows, activation)
        return np.clip(made @ self.coefficients + self.intercept, self.low, self.high)


class OneStepClassifier(ClassifierMixin, OneStepPredictor):
    """Classes by `OneStepRegressor` of each of them, with calibrated probabilities, or by logistic regression.

    A column of 0 and 1 for each class (one column for two classes) is fitted as `OneStepRegressor` fits y: directions,
    features, spike and ridge are chosen on held-out rows. Logistic regression on the scores of held-out rows, each
    predicted by a fit that has not seen it, makes probabilities of them. Plain logistic regression, with the least C
    within a standard error of the best held-out log loss, is left only for a gain in the paired held-out log losses at
    the level 1% (Student's t). Folds keep the shares of the classes; of more than 10,000 rows so many choose, and all
    of them give directions and coefficients.

    Wins where classes depend on one to three directions in another way than by one threshold: a band, a ring, XOR of
    rotated inputs. Ties with logistic regression elsewhere.

    Parameters
    ----------
    width, activation, precondition, spike_deviations, background, max_directions, refinements, ridges, cv,
    random_state : as of `OneStepRegressor`

    Attributes
    ----------
    classes_ : (classes,)
    model_ : "one step" or "logistic"
    cv_log_loss_ : dict of the mean held-out log loss of both, where both were tried
    scores_ : tuple of the scores of the second class, or of every class, in standardised rows; empty if logistic
    coef_, intercept_ : of the standardised columns, if `model_` is "logistic", else None;  C_ : its strength
    mean_, scale_ : (d,), of the columns of X, scale inf for constant ones
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: d columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
    """

    def fit(self, X: Any, y: Any) -> OneStepClassifier:
        """Find directions, features and probabilities from X (n, d) and classes y (n,)."""
        spikes, ridges = self._check_parameters()
        X, y = check_table(self, X, y, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise InputError(f"y must hold at least 2 classes, got 1 class: {self.classes_[0]!r}")
        one_hot = (codes[:, None] == np.arange(count)).astype(np.float64)
        targets = one_hot[:, 1:] if count == 2 else one_hot
        scaled, _, recipe, random = self._drawn(X, targets, 1 + self.max_directions, self.refinements)
        rows = scaled.rows
        self.mean_ = scaled.mean
        self.scale_ = np.where(np.isfinite(scaled.log_deviation), np.exp(scaled.log_deviation), np.inf)
        some, splits = self._class_splits(rows, codes, random)
        held = np.concatenate([held for _, held in splits])
        here = codes[some][held]

        logistic = _logistic_losses(rows[some], codes[some], splits, count)
        best = _least_strength(logistic, held)
        self.C_, losses = float(_STRENGTHS[best]), {LOGISTIC: logistic[best]}

        labels = (targets - targets.mean(axis=0)) / targets.std(axis=0)
        learned = []
        crossed = np.empty((len(held), labels.shape[1]))
        for k, column in enumerate(labels.T):
            part = SearchedRows(rows[some], column[some], splits)
            one = self._learn(rows, column, part, recipe, random, spikes, ridges)
            crossed[:, k] = left_out_predictions(*part, recipe, one.choice)
            learned.append((one, float(column.min()), float(column.max())))
        self.model_ = LOGISTIC
        self.scores_: tuple[ClassScore, ...] = ()
        if any(one.choice.candidate.model != LINEAR for one, _, _ in learned):
            bounds = np.array([(2 * low - high, 2 * high - low) for _, low, high in learned]).T
            crossed = np.clip(np.where(np.isfinite(crossed), crossed, 0.0), *bounds)
            losses[ONE_STEP] = _calibrated_losses(crossed, here, [len(one) for _, one in splits], count)
            gain = mean_of_rows(losses[LOGISTIC] - losses[ONE_STEP], held)
            if is_gain(gain, student_quantile(_LEVEL, len(gain))):
                self.model_ = ONE_STEP
                self._calibration = _fitted(crossed, here, _CALIBRATION_STRENGTH)
                self.scores_ = tuple(
                    _score(one, recipe, ends) for (one, _, _), ends in zip(learned, bounds.T, strict=True)
                )
        self.cv_log_loss_ = {model: float(each.mean()) for model, each in losses.items()}
        self.coef_ = self.intercept_ = None
        if self.model_ == LOGISTIC:
            self._calibration = _fitted(rows, codes, self.C_)
            self.coef_, self.intercept_ = self._calibration.coef_, self._calibration.intercept_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of `classes_`, (n, classes)."""
        check_is_fitted(self)
        rows = standardised(check_table(self, X, reset=False), self.mean_, self.scale_)
        if self.model_ == ONE_STEP:
            activation = guarded(self.activation)
            rows = np.column_stack([score(rows, activation) for score in self.scores_])
        return _probabilities(self._calibration, rows, len(self.classes_))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        chances = self.predict_proba(X)
        return self.classes_[np.argmax(chances, axis=1)]

    def _class_splits(
        self, rows: np.ndarray, codes: np.ndarray, random: np.random.RandomState
    ) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Indices of the rows that choose, and folds of these that keep the shares of the classes."""
        from sklearn.model_selection import StratifiedKFold

        some = np.arange(len(rows))
        folds = self.cv
        if isinstance(self.cv, Integral):
            if int(self.cv) < 2 or len(rows) < 2 * int(self.cv):
                raise InputError(
                    f"cv must be >= 2 and leave at least two rows in each fold, got cv={self.cv} with "
                    f"n_samples={len(rows)}"
                )
            if len(rows) > SEARCH_ROWS:
                some = np.sort(random.permutation(len(rows))[:SEARCH_ROWS])
            largest = int(np.bincount(codes[some]).max())
            count = min(int(self.cv), largest)
            folds = StratifiedKFold(count, shuffle=True, random_state=random.randint(2**31 - 1))
        with warnings.catch_warnings():
            # classes of fewer rows than folds are in some of them
            warnings.simplefilter("ignore", UserWarning)
            return some, make_splits(folds, random, rows[some], codes[some])


def _score(learned: LearnedFeatures, recipe: Recipe, ends: np.ndarray) -> ClassScore:
    weights, biases = recipe.weights(learned.choice.candidate, learned.found.of(learned.choice.candidate))
    return ClassScore(weights, biases, learned.fit.coefficients, learned.fit.intercept, *ends.tolist())


def _least_strength(losses: np.ndarray, held: np.ndarray) -> int:
    """The least C that is not worse than the best by a standard error: few rows prefer a large one by luck."""
    best = int(np.argmin(losses.mean(axis=1)))
    behind = (is_gain(mean_of_rows(each - losses[best], held), 1.0) for each in losses)
    return next(i for i, worse in enumerate(behind) if not worse)


def _logistic_losses(rows: np.ndarray, codes: np.ndarray, splits: Any, count: int) -> np.ndarray:
    """Log losses of logistic regression on held-out rows, (strengths, rows)."""
    losses = [
        [_losses(_fitted(rows[train], codes[train], C), rows[held], codes[held], count) for train, held in splits]
        for C in _STRENGTHS
    ]
    return np.array([np.concatenate(each) for each in losses])


def _calibrated_losses(scores: np.ndarray, codes: np.ndarray, sizes: list[int], count: int) -> np.ndarray:
    """Log losses of the scores of each fold, as probabilities that the scores of the others teach."""
    fold = np.repeat(np.arange(len(sizes)), sizes)
    losses = np.empty(len(codes))
    for k in range(len(sizes)):
        inside = fold != k
        model = _fitted(scores[inside], codes[inside], _CALIBRATION_STRENGTH)
        losses[~inside] = _losses(model, scores[~inside], codes[~inside], count)
    return losses


def _fitted(rows: np.ndarray, codes: np.ndarray, C: float) -> Any:
    """Logistic regression, or the one class that there is."""
    from sklearn.dummy import DummyClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if np.ptp(codes) == 0:
        return DummyClassifier().fit(rows, codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=C, max_iter=200).fit(rows, codes)


def _losses(model: Any, rows: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    chances = _probabilities(model, rows, count)[np.arange(len(codes)), codes]
    # a class that the training rows did not have
    return -np.log(np.maximum(chances, 1e-6))


def _probabilities(model: Any, rows: np.ndarray, count: int) -> np.ndarray:
    chances = np.zeros((len(rows), count))
    chances[:, model.classes_] = model.predict_proba(rows)
    return chances
