"""A regressor that learns from many small tasks, each with rows of its own, how to learn the next one from few rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError, check_array, check_choice, check_flag, check_whole
from unlazy.data.table_encoder import TableEncoder
from unlazy.estimators.common.inputs import Pairs, check_pair, check_pairs
from unlazy.estimators.metric.search import LEAST_NOISE
from unlazy.estimators.metric.task_batches import (
    MetaState,
    TaskBatch,
    evidence,
    left_out_errors,
    make_batches,
    posterior_mean,
    start_state,
    step,
)

_LARGEST_FULL = 500
_PATIENCE = 10
_PENALTY_FACTORS = np.logspace(-1.5, 1.5, 13)


class _HeldOutPath(NamedTuple):
    """What the held-out tasks say after steps 0, 1, ... with one kind of metric."""

    kind: str
    errors: list[float]
    penalties: list[float]
    """The best penalty of each step."""
    noises: list[float]
    """The noise variance with which the next step was taken."""

    def best(self, steps: int | None) -> int:
        return int(np.argmin(self.errors)) if steps is None else steps


@dataclass(frozen=True)
class AdaptedRegressor:
    """The linear predictor of one task, x.coef_ + intercept_."""

    coef_: np.ndarray
    intercept_: float
    encoder_: TableEncoder | None = None
    """As of the `MetaMetricRegressor`."""

    def predict(self, X: Any) -> np.ndarray:
        """Predictions for the rows of X, (n,)."""
        X = check_array("X", X if self.encoder_ is None else self.encoder_.transform(X), ndim=2)
        if X.shape[1] != len(self.coef_):
            raise InputError(f"X must have {len(self.coef_)} features, got {X.shape[1]}")
        return X @ self.coef_ + self.intercept_


class MetaMetricRegressor(BaseEstimator):
    """Learns a metric M from many regression tasks, so that a new task needs few rows: ridge with penalty b.M^-1.b.

    `fit` takes tasks (X_t, y_t) with their own rows and models y_t = X_t b_t + noise with b_t ~ N(0, M). Since the
    designs differ, a full M can be learned: directions that matter, not only features. M follows
    `evidence` from ridge; noise variance and number of steps are chosen by the leave-one-out errors of tasks that were
    held out while the metric was learned. `adapt` is one solve with as many unknowns as the new task has rows.

    The gain needs many tasks: clearly more than the number of directions that matter. The first metric is a multiple
    of the identity, so bring features to comparable units. Sources: Baxter (2000) for the setting; Dempster, Laird &
    Rubin (1977) and Wipf & Rao (2007) for the steps.

    Parameters
    ----------
    metric : "auto", "full" or "diagonal"
        "auto" takes the one with the smaller held-out error; above 500 features always "diagonal".
    steps : int, optional
        Number of steps; chosen by held-out tasks if not given, up to `max_steps`.
    max_steps : int
    noise_variance : float, optional
        Known noise variance; learned if not given. The penalty is at least 1e-8 of the variance of the targets.
    fit_intercept : bool
        Each task has an intercept of its own, on which nothing is assumed.
    cv : int
        Folds of tasks.
    random_state : int, RandomState or None
        Shuffles the folds.

    Attributes
    ----------
    metric_ : (d, d) or (d,);  metric_kind_ : "full" or "diagonal";  steps_ : int
    noise_variance_ : estimate from the leave-one-out errors of held-out tasks and what the metric expects of them
    alpha_ : the penalty c on the diagonal of X M X^T + c I with the least such error; used by `adapt`
    cv_mse_ : mean squared leave-one-out error of held-out tasks, noise included
    path_ : dict of arrays: `metric`, `step`, `cv_mse`, `alpha`, `noise_variance`
    evidence_ : minus twice the log-likelihood of the tasks at the learned state, up to a constant
    encoder_ : the `TableEncoder` of tasks whose rows are DataFrames with text, dates or gaps: d columns are then those
        that its `get_feature_names_out()` names, in their units; None where rows are taken as they are
    """

    def __init__(
        self,
        *,
        metric: str = "auto",
        steps: int | None = None,
        max_steps: int = 100,
        noise_variance: float | None = None,
        fit_intercept: bool = True,
        cv: int = 5,
        random_state: Any = 0,
    ):
        self.metric = metric
        self.steps = steps
        self.max_steps = max_steps
        self.noise_variance = noise_variance
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.random_state = random_state

    def fit(self, tasks: Iterable[tuple[Any, Any]], y: None = None) -> MetaMetricRegressor:
        """Learn the metric from pairs (X_t, y_t) of shapes (n_t, d) and (n_t,); n_t may differ.

        Rows with task labels t become such pairs by `[(X[t == k], y[t == k]) for k in np.unique(t)]`.
        """
        self._check_parameters()
        pairs, self.encoder_ = _check_tasks(tasks, self.fit_intercept)
        scale, unit = _scales(pairs, self.fit_intercept)
        pairs = [(design / scale, target / unit) for design, target in pairs]
        kinds = self._kinds(pairs[0][0].shape[1])
        noise = None
        if self.noise_variance is not None:
            noise = max(float(self.noise_variance) / unit / unit, LEAST_NOISE)

        if not 2 <= self.cv <= len(pairs):
            raise InputError(f"cv must be >= 2 and at most the number of tasks, {len(pairs)}, got {self.cv}")
        paths = [self._held_out_path(pairs, kind, noise) for kind in kinds]
        path = min(paths, key=lambda path: path.errors[path.best(self.steps)])
        self.metric_kind_, self.steps_ = path.kind, path.best(self.steps)

        batches = make_batches(pairs, self.fit_intercept)
        state = _start(batches, path.kind)
        for noise_variance in path.noises[: self.steps_]:
            state = step(batches, state._replace(noise_variance=noise_variance))
        state = state._replace(noise_variance=path.noises[self.steps_])
        self.metric_ = _in_units(state.metric, unit / scale)
        self.noise_variance_ = (
            state.noise_variance * unit * unit if self.noise_variance is None else float(self.noise_variance)
        )
        self.alpha_ = path.penalties[self.steps_] * unit * unit
        self.cv_mse_ = path.errors[self.steps_] * unit * unit
        rows = sum(float(batch.freedoms.sum()) for batch in batches)
        self.evidence_ = evidence(batches, state) + 2 * rows * float(np.log(unit))
        self.path_ = {
            "metric": np.concatenate([np.repeat(path.kind, len(path.errors)) for path in paths]),
            "step": np.concatenate([np.arange(len(path.errors)) for path in paths]),
            "cv_mse": np.concatenate([path.errors for path in paths]) * unit * unit,
            "alpha": np.concatenate([path.penalties for path in paths]) * unit * unit,
            "noise_variance": np.concatenate([path.noises for path in paths]) * unit * unit,
        }
        self.n_features_in_ = len(self.metric_) if self.encoder_ is None else self.encoder_.n_features_in_
        return self

    def adapt(self, X: Any, y: Any) -> AdaptedRegressor:
        """The predictor of a new task from its rows X (n, d) and y (n,): ridge with the learned metric and penalty."""
        check_is_fitted(self)
        rows = X if self.encoder_ is None else self.encoder_.transform(X)
        design, target = check_pair("X", rows, "y", y, rows=_least_rows(self.fit_intercept))
        if design.shape[1] != len(self.metric_):
            raise InputError(f"X must have {self.n_features_in_} features like the tasks, got {design.shape[1]}")
        mean, target_mean = (design.mean(axis=0), target.mean()) if self.fit_intercept else (0.0, 0.0)
        # in units of the penalty, so that numbers of any size are harmless
        unit = float(np.sqrt(self.alpha_))
        scale = float(np.abs(design).max()) or 1.0
        state = MetaState(_in_units(self.metric_, scale / unit), 1.0)
        centred, residual = (design - mean) / scale, (target - target_mean) / unit
        coefficients = posterior_mean(centred, residual, state) * (unit / scale)
        return AdaptedRegressor(coefficients, float(target_mean - np.sum(mean * coefficients)), self.encoder_)

    def _held_out_path(self, pairs: Pairs, kind: str, noise: float | None) -> _HeldOutPath:
        """Leave-one-out errors of the held-out tasks after every step, until ten steps in a row bring no gain."""
        folds = KFold(int(self.cv), shuffle=True, random_state=check_random_state(self.random_state))
        learned, held = [], []
        for inside, outside in folds.split(pairs):
            learned.append(make_batches([pairs[i] for i in inside], self.fit_intercept))
            held.append(make_batches([pairs[i] for i in outside], self.fit_intercept))
        states = [_start(batches, kind) for batches in learned]
        penalty = float(np.mean([state.noise_variance for state in states])) if noise is None else noise
        factors = _PENALTY_FACTORS if noise is None else np.ones(1)
        path = _HeldOutPath(kind, [], [], [])
        for _ in range((self.max_steps if self.steps is None else self.steps) + 1):
            parts = [
                left_out_errors(batches, state.metric, penalty * factors, self.fit_intercept)
                for batches, state in zip(held, states, strict=True)
            ]
            count = sum(part.rows for part in parts)
            errors = np.sum([part.errors for part in parts], axis=0) / count
            i = int(np.argmin(errors))
            path.errors.append(float(errors[i]))
            path.penalties.append(float(penalty * factors[i]))
            if noise is None:
                estimate = float(np.sum([part.noise[i] for part in parts]) / count)
                # at the end of the grid the errors only say that the penalty is small
                penalty = max(estimate if i else min(penalty, path.errors[-1]), LEAST_NOISE)
            path.noises.append(penalty)
            if self.steps is None and len(path.errors) - int(np.argmin(path.errors)) > _PATIENCE:
                break
            states = [
                step(batches, state._replace(noise_variance=penalty))
                for batches, state in zip(learned, states, strict=True)
            ]
        return path

    def _kinds(self, d: int) -> list[str]:
        if self.metric == "auto":
            return ["full", "diagonal"] if d <= _LARGEST_FULL else ["diagonal"]
        return [self.metric]

    def _check_parameters(self) -> None:
        check_choice("metric", self.metric, ("auto", "full", "diagonal"))
        for name, value, low in (("steps", self.steps, 0), ("max_steps", self.max_steps, 0), ("cv", self.cv, 2)):
            if name != "steps" or value is not None:
                check_whole(name, value, low, floats=False)
        if self.noise_variance is not None:
            check_array("noise_variance", self.noise_variance, low=0, ndim=0)
        check_flag("fit_intercept", self.fit_intercept)


def _start(batches: list[TaskBatch], kind: str) -> MetaState:
    state = start_state(batches)
    return state if kind == "diagonal" else state._replace(metric=np.diag(state.metric))


def _scales(pairs: Pairs, centre: bool) -> tuple[float, float]:
    """Largest feature, and root mean square of the targets; a refusal if the targets do not vary."""
    scale = max(float(np.abs(design).max()) for design, _ in pairs) or 1.0
    largest = max(float(np.abs(target).max()) for _, target in pairs) or 1.0
    scaled = [target / largest for _, target in pairs]
    parts = [np.mean((target - target.mean()) ** 2 if centre else target**2) for target in scaled]
    spread = float(np.sqrt(np.mean(parts)))
    if spread <= 4 * np.finfo(np.float64).eps:
        raise InputError("tasks must have targets that vary, got constant targets only")
    unit = largest * spread
    if not 1e-150 < unit < 1e150:
        raise InputError(f"tasks must have targets whose variance is a finite number > 0, got targets of size {unit:g}")
    return scale, unit


def _in_units(metric: np.ndarray, unit: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        result = metric * unit * unit
    if not np.isfinite(result).all():
        raise InputError("X and y must be of sizes whose ratio squared is a finite number; rescale one of them")
    return result


def _check_tasks(tasks: Iterable[tuple[Any, Any]], centre: bool) -> tuple[Pairs, TableEncoder | None]:
    if not isinstance(tasks, Iterable):
        raise InputError(f"tasks must be pairs (X, y), got {type(tasks).__name__}")
    pairs, encoder = check_pairs(tasks, "tasks must be pairs (X, y)", rows=_least_rows(centre))
    if not pairs:
        raise InputError("tasks must hold at least one pair (X, y), got none")
    return pairs, encoder


def _least_rows(centre: bool) -> int:
    return 2 if centre else 1
