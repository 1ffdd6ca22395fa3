"""A regressor pretrained on many related data sets, which then learns a new one from its rows without training."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError, check_choice, check_whole
from unlazy.estimators.common.inputs import Pairs, check_memory, check_table, finite_or_refused
from unlazy.estimators.in_context.attention import LearnedAttention, in_context_coefficients, learn_attention
from unlazy.estimators.in_context.kernel import learn_kernel
from unlazy.estimators.in_context.prior import learn_prior
from unlazy.estimators.in_context.process import LINEAR, Posterior, Process, condition
from unlazy.estimators.in_context.steps import covariance_root
from unlazy.estimators.in_context.tasks import Folds, check_tasks, make_folds, pooled_mean, scales_of

EMPIRICAL_BAYES, ATTENTION, SUBSPACE = "empirical_bayes", "linear_attention", "subspace_kernel"
_MODES = (EMPIRICAL_BAYES, ATTENTION, SUBSPACE)
# with more tasks than this a mean that is not there costs less than one percent, and few folds decide
_MANY_TASKS = 200


class State(NamedTuple):
    """Everything that pretraining leaves behind."""

    mode: str
    settings: dict[str, Any]
    """The parameters of the regressor."""
    scales: Any
    """`Scales`, None while they are being learned."""
    learned: Any
    """`Process` or `LearnedAttention`."""
    metric: np.ndarray
    """(d, d) in standardised features."""
    numbers: dict[str, float]
    """Those that are shown as attributes, with an underscore behind their names."""
    encoder: Any = None
    """`TableEncoder` of the tasks' columns, None if they are numbers."""


class InContextRegressor(RegressorMixin, BaseEstimator):
    """Pretrained on many related regressions (sites, patients, products), it needs few rows of a new one.

    `pretrain(tasks)` learns what the data sets have in common; `fit(X, y)` then only stores the rows of a new one, its
    context, and `predict` is a formula. Features and targets are standardised with the rows of all tasks. Modes:

    - "empirical_bayes": y = a + x.b + noise with (a, b) ~ N(m, C), that is ridge regression towards the mean of
      the tasks with the penalty C^-1. Mean and covariance by expectation-maximisation, noise and the number of steps
      by held-out tasks. What pretrained linear attention tends to with infinitely long contexts; with short ones it
      is better, because it inverts the context's own covariance.
    - "linear_attention": prediction x.Gamma h, h the mean of y x over the context; the theory's model. For contexts of
      the length `context` only, by default that of the pretraining tasks.
    - "subspace_kernel": kernel regression in the directions along which the tasks' functions vary; for nonlinear tasks.
    - "auto": the one with the least held-out error.

    Assumes that new tasks come from where the pretraining tasks came from. Ridge regression on the context alone is one
    of the candidates of "empirical_bayes", with the penalty that the tasks prefer. A clone keeps what was pretrained.
    Sources: Laird & Ware (1982) and Baxter (2000) for empirical Bayes; Lu, Letey, Zavatone-Veth, Maiti & Pehlevan
    (2024) for linear attention; Oko, Song, Suzuki & Wu (2024) for the subspace.

    Parameters
    ----------
    mode : "empirical_bayes", "linear_attention", "subspace_kernel" or "auto"
    context : int, optional
        About how many rows new tasks will have, if fewer than the pretraining tasks: everything that held-out tasks
        choose, and the weights of linear attention, are then for contexts of that length.
    rank : int, optional
        Columns of `subspace_`, and directions to which "subspace_kernel" is confined; by default the effective rank,
        and no such limit.
    task_mean : "auto", "learned" or "zero"
        Whether the tasks' coefficients have a mean; "auto" asks held-out tasks.
    max_steps : int
        To the covariance of "empirical_bayes": of expectation-maximisation, the later ones as long as many of them.
    cv : int, optional
        Folds of tasks; by default 5, and 3 with more than 200 tasks, which decide as well.
    random_state : int, RandomState or None
        Shuffles the folds and seeds a sampler.

    Attributes
    ----------
    mode_ : the mode in use;  cv_mse_ : its mean squared error on held-out tasks, each row from the others of its task
    cv_errors_ : dict, the same for every mode that was tried
    task_mean_ : (d,), mean slope of the tasks;  task_intercept_ : mean of the intercepts, at x = 0
    task_covariance_ : (d, d), covariance of the slopes of a new task ("empirical_bayes"), or mean outer product of the
        gradients of the tasks' functions ("subspace_kernel"); None for "linear_attention"
    noise_variance_ : None for "linear_attention";  subspace_ : (d, rank), orthonormal basis of the directions
    effective_rank_ : directions in which tasks differ, (tr S)^2 / tr S^2 of their predictions' covariance S
    effective_tasks_ : sum over tasks of the share of prior variance that their rows determine
    n_tasks_ : int;  steps_ : int;  coef_, intercept_ : of the new task after `fit`, in the linear modes
    encoder_ : the `TableEncoder` of tasks whose rows are DataFrames with text, dates or gaps: d columns are then those
        that its `get_feature_names_out()` names, in their units; None where rows are taken as they are
    """

    def __init__(
        self,
        mode: str = EMPIRICAL_BAYES,
        *,
        context: int | None = None,
        rank: int | None = None,
        task_mean: str = "auto",
        max_steps: int = 50,
        cv: int | None = None,
        random_state: Any = 0,
    ):
        self.mode = mode
        self.context = context
        self.rank = rank
        self.task_mean = task_mean
        self.max_steps = max_steps
        self.cv = cv
        self.random_state = random_state

    def pretrain(self, tasks: Any, *, n_tasks: int | None = None) -> InContextRegressor:
        """Learn from pairs (X_t, y_t) of shapes (n_t, d) and (n_t,), or from n_tasks draws of a sampler rng -> (X, y).

        Numbers of rows may differ. Rows with task labels t become such pairs by
        `[(X[t == k], y[t == k]) for k in np.unique(t)]`.
        """
        self._check_parameters()
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        pairs, encoder = check_tasks(tasks, n_tasks, rng)
        d = pairs[0][0].shape[1]
        if self.rank is not None and self.rank > d:
            raise InputError(f"rank must be at most the number of features, {d}, got {self.rank}")
        folds = make_folds(len(pairs), self.cv or (5 if len(pairs) <= _MANY_TASKS else 3), rng)
        scales = scales_of(pairs)
        pairs = [(scales.design(X), scales.targets(y)) for X, y in pairs]
        found = {mode: self._learn(mode, pairs, folds) for mode in (_MODES if self.mode == "auto" else (self.mode,))}
        best = min(found, key=lambda mode: found[mode].numbers["cv_mse"])
        unit = scales.target_deviation**2
        errors = {mode: state.numbers["cv_mse"] * unit for mode, state in found.items()}
        for old in ("_posterior", "_context", "coef_", "intercept_"):
            self.__dict__.pop(old, None)
        numbers = found[best].numbers | {"cv_mse": errors[best]}
        self._adopt(found[best]._replace(scales=scales, numbers=numbers, encoder=encoder), errors)
        if self.effective_tasks_ < self.effective_rank_:
            warnings.warn(
                f"the rows of these {self.n_tasks_} tasks tell as much as {self.effective_tasks_:.1f} known tasks, "
                f"fewer than the {self.effective_rank_:.1f} directions in which tasks differ: more tasks would help",
                UserWarning,
                stacklevel=2,
            )
        return self

    def fit(self, X: Any, y: Any) -> InContextRegressor:
        """Store the context: rows X (n, d) and y (n,) of the new task."""
        if not hasattr(self, "_state"):
            raise InputError(
                "InContextRegressor must be pretrained before fit: call pretrain(tasks) with related data sets (X, y)"
            )
        if self._settings() != self._state.settings:
            raise InputError("parameters must stay as they were in pretrain, got others: call pretrain again")
        X, y = check_table(self, X, y, encoder=self._state.encoder, y_numeric=True)
        if X.shape[1] != len(self._state.scales.mean):
            width, self.n_features_in_ = X.shape[1], len(self._state.scales.mean)
            raise InputError(f"X must have {self.n_features_in_} features like the pretraining tasks, got {width}")
        y = np.asarray(y, dtype=np.float64)
        self._context = (X.copy(), y.copy())
        self._condition()
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions for rows X (n, d), and with `return_std` the standard deviations of new targets there."""
        check_is_fitted(self, msg="this %(name)s has no context yet: call pretrain(tasks), then fit(X, y)")
        X = check_table(self, X, reset=False)
        if return_std and self.mode_ == ATTENTION:
            raise InputError("return_std must be False for linear attention, which has no distribution, got True")
        scales = self._state.scales
        rows = scales.design(X)
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._posterior.predict(rows) * scales.target_deviation + scales.target_mean
        values = finite_or_refused(values, X)
        if not return_std:
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self._posterior.variance(rows) + self._state.learned.noise_variance
        return values, scales.target_deviation * np.sqrt(finite_or_refused(variance, X))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")

    def __sklearn_clone__(self) -> InContextRegressor:
        """A copy without the context that keeps what was pretrained: cross-validation must not lose it."""
        twin = type(self)(**{name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()})
        if hasattr(self, "_state"):
            twin._adopt(self._state, self.cv_errors_)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        # the posterior holds functions, and follows from the context
        return {name: value for name, value in super().__getstate__().items() if name != "_posterior"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_context"):
            self._condition()

    def _learn(self, mode: str, pairs: Pairs, folds: Folds) -> State:
        choice = self.task_mean
        numbers: dict[str, float] = {"n_tasks": len(pairs), "steps": 0}
        learned: Process | LearnedAttention
        if mode == EMPIRICAL_BAYES:
            means = {"auto": (True, False), "learned": (True,), "zero": (False,)}[choice]
            if choice == "auto" and len(pairs) > _MANY_TASKS:
                means = (True,)
            found = learn_prior(pairs, folds, int(self.max_steps), means, self.context)
            root = covariance_root(found.prior.covariance)
            learned = Process(LINEAR, found.prior.mean, root, 1.0, found.prior.noise_variance)
            metric = found.prior.covariance[1:, 1:]
            told, error = found.effective_tasks, found.error
            numbers["steps"] = found.steps
        elif mode == SUBSPACE:
            kernel = learn_kernel(pairs, folds, pooled_mean(pairs, folds, choice), self.rank, self.context)
            learned, metric, told, error = kernel.process, kernel.metric, kernel.effective_tasks, kernel.error
            numbers["steps"] = kernel.steps
        else:
            attention = learn_attention(pairs, folds, pooled_mean(pairs, folds, choice), self.context)
            learned, told, error = attention, float(len(pairs)), attention.error
            slopes = attention.whitening[1:] @ attention.weights[:, :-1]
            metric = slopes @ slopes.T
        rows = np.concatenate([design[:, 1:] for design, _ in pairs])
        spectrum = np.linalg.eigvals(rows.T @ (rows / len(rows)) @ metric).real
        numbers["effective_rank"] = float(spectrum.sum() ** 2 / np.sum(spectrum**2)) if np.any(spectrum) else 0.0
        numbers |= {"effective_tasks": told, "cv_mse": error}
        return State(mode, self._settings(), None, learned, metric, numbers)

    def _adopt(self, state: State, errors: dict[str, float]) -> None:
        """Take over what was pretrained and show it in the units of the data."""
        self._state = state
        self.mode_, self.cv_errors_ = state.mode, dict(errors)
        for name, value in state.numbers.items():
            setattr(self, f"{name}_", int(value) if name in ("n_tasks", "steps") else float(value))
        scales, learned = state.scales, state.learned
        self.encoder_ = state.encoder
        self.n_features_in_ = len(scales.mean) if state.encoder is None else state.encoder.n_features_in_
        self.task_mean_, self.task_intercept_ = self._original(learned.mean)
        ratios = scales.target_deviation / scales.deviation
        attention = isinstance(learned, LearnedAttention)
        self.task_covariance_ = None if attention else ratios[:, None] * state.metric * ratios
        self.noise_variance_ = None if attention else learned.noise_variance * scales.target_deviation**2
        rank = self.rank or int(np.clip(round(self.effective_rank_), 1, len(scales.mean)))
        directions = np.linalg.eigh(state.metric)[1][:, ::-1][:, :rank] / scales.deviation[:, None]
        self.subspace_ = np.linalg.qr(directions / np.linalg.norm(directions, axis=0))[0]

    def _condition(self) -> None:
        X, y = self._context
        scales, learned = self._state.scales, self._state.learned
        rows, targets = scales.design(X), scales.targets(y)
        if isinstance(learned, LearnedAttention):
            coefficients = in_context_coefficients(learned, rows, targets)
            self._posterior = Posterior(lambda new: new @ coefficients, lambda new: np.zeros(len(new)), coefficients)
        else:
            if learned.kind != LINEAR:
                check_memory("rows of X", len(X), 3.0 * len(X) ** 2)
            self._posterior = condition(learned, rows, targets)
        if self._posterior.coefficients is not None:
            self.coef_, self.intercept_ = self._original(self._posterior.coefficients)

    def _original(self, coefficients: np.ndarray) -> tuple[np.ndarray, float]:
        """Slopes and intercept in the units of the data."""
        scales = self._state.scales
        slopes = coefficients[1:] * (scales.target_deviation / scales.deviation)
        return slopes, float(scales.target_mean + scales.target_deviation * coefficients[0] - scales.mean @ slopes)

    def _settings(self) -> dict[str, Any]:
        """The parameters that pretraining used, as they are stored in files."""
        parameters = self.get_params(deep=False)
        seed = parameters["random_state"]
        parameters["random_state"] = int(seed) if isinstance(seed, Integral) else None
        return {name: int(value) if isinstance(value, Integral) else value for name, value in parameters.items()}

    def _check_parameters(self) -> None:
        check_choice("mode", self.mode, (*_MODES, "auto"))
        check_choice("task_mean", self.task_mean, ("auto", "learned", "zero"))
        whole = (
            ("context", self.context, 1),
            ("rank", self.rank, 1),
            ("max_steps", self.max_steps, 0),
            ("cv", self.cv, 2),
        )
        for name, value, low in whole:
            if name == "max_steps" or value is not None:
                check_whole(name, value, low, floats=False)
