"""A regressor for many targets that learns from all of them which features matter."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError, check_array, check_choice
from unlazy.estimators.common.folds import make_splits
from unlazy.estimators.common.inputs import check_table
from unlazy.estimators.common.scaling import Scaled, scale_data
from unlazy.estimators.metric.bases import Basis, ComponentBasis, FeatureBasis
from unlazy.estimators.metric.search import (
    LEAST_NOISE,
    RIDGE,
    HeldOutChoice,
    PathRecord,
    choose,
    prune_of,
    record_table,
    search_path,
)
from unlazy.estimators.metric.start import EXPONENTS, left_out_penalty
from unlazy.numerics.metric_path import metric_path, metric_product

_RANKS = (1, 2, 3, 5, 8, 13, 21, 34, 55)


class SharedMetricRegressor(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiOutputMixin, RegressorMixin, BaseEstimator
):
    """Ridge regression of many targets on one design, with a penalty b.M^-1.b that is learned from all of them.

    The metric M = diag(m) moves from ridge (step 0) along the path of `metric_path`; step, penalty and the rank of
    the predictions are chosen by cross-validation in which every fold relearns the metric. Ridge on the features as
    they are, with the penalty of leave-one-out like `RidgeCV`, is kept unless another step, first metric or rank has
    held-out errors that are lower at the level 5% (paired, Bonferroni). So where nothing can be learned the result is
    ridge in most data sets, not in all: about one in twenty leaves it, and can lose much of what little there is to
    predict. The price is that small gains are passed over, mostly where targets or rows are few.

    Wins over ridge and the multi-task lasso where few features, or few principal components, matter to many
    targets; ties with ridge where all matter alike. Targets share one noise variance, so bring them to comparable
    units. With the basis "features" the units of the features matter only through the first metric; principal
    components change with them. Sources: Wipf & Rao (2007); the path and its early stopping are this project's.

    Parameters
    ----------
    criterion : "auto", "evidence" or "degrees_of_freedom"
        What the path lowers: the evidence, or the ridge objective plus weighted degrees of freedom (Mallows' Cp for
        projections); "auto" takes the one with the smaller cross-validation error.
    basis : "auto", "features" or "pca"
        What the metric weighs: the columns of X or their principal components.
    groups : array of shape (n_features,), optional
        Features with one label share one weight; a label for each column of X, also where it is encoded in several.
    start_exponent : "auto" or float
        The first metric is variance_j^start_exponent times a constant: 0 is ridge on the features as they are, -1 on
        standardised ones; between -10 and 10. "auto" tries the one of -1, 0, 1, 2 with the largest evidence, and is 0
        where ridge is kept.
    steps : sequence of int
        Steps of the path that are compared; without 0 ridge is no choice. A path ends early after two of them that
        gain less than 0.1%.
    noise_variance : float, optional
        Known noise variance of the targets; estimated if not given.
    rank : "auto", None or int
        Predictions lie in the span of this many combinations of tasks; None is no restriction.
    cv : int or splitter
        Number of shuffled folds, repeated below 60 rows, or anything that scikit-learn's `check_cv` takes.
    dtype : "float32" or "float64"
        Precision of the products with X while the metric of the features is learned. Principal components and the
        final fit are in double precision.
    random_state : int, RandomState or None
        Shuffles the folds.

    Attributes
    ----------
    coef_ : (n_targets, n_features) or (n_features,);  intercept_ : (n_targets,) or float
    metric_ : m_j of the features, or of the components if `basis_` is "pca"; 0 where dropped
    components_ : principal directions as rows if `basis_` is "pca", else None
    metric_spectrum_ : eigenvalues of X M X^T / n, largest first
    degrees_of_freedom_ : trace of the hat matrix
    alpha_ : the penalty c on the diagonal of X M X^T + c I
    basis_, criterion_, steps_, rank_, start_exponent_ : what was chosen; the criterion of step 0 is "ridge"
    mean_ : means of the features
    cv_mse_ : cross-validated mean squared error of the choice; the least of many, so slightly optimistic
    noise_variance_ : estimate of the noise variance from held-out residuals and the variance that the metric expects
        of them. Measured over the truth (100 rows, 1000 features, 10 targets, ten data sets of each kind of
        `many_tasks`): 0.8 to 1.2 where few features matter, 0.4 to 1.2 for power laws, 1.0 to 1.4 for a permuted
        one, and 0.1 to 3.4, which is nothing to trust, for groups, factors, low rank and where every feature matters
    excess_risk_ : cv_mse_ - noise_variance_, at least 0; it inherits the errors of both
    path_ : dict of equally long arrays, one entry per basis, criterion, step, penalty and rank, with its `cv_mse`;
        `is_ridge` marks what the others had to beat
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: n_features columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
    """

    def __init__(
        self,
        *,
        criterion: str = "auto",
        basis: str = "auto",
        groups: Any = None,
        start_exponent: Any = "auto",
        steps: Sequence[int] = (0, 1, 2, 3, 4, 6, 10),
        noise_variance: float | None = None,
        rank: Any = "auto",
        cv: Any = 5,
        dtype: str = "float32",
        random_state: Any = 0,
    ):
        self.criterion = criterion
        self.basis = basis
        self.groups = groups
        self.start_exponent = start_exponent
        self.steps = steps
        self.noise_variance = noise_variance
        self.rank = rank
        self.cv = cv
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SharedMetricRegressor:
        """Learn metric and coefficients from X (n, d) and y (n,) or (n, tasks)."""
        X, y = check_table(self, X, y, multi_output=True, y_numeric=True)
        self._check_parameters(len(X), self.n_features_in_)
        splits = make_splits(self.cv, self.random_state, X, y)
        scaled = scale_data(X, y.reshape(len(y), -1).astype(np.float64), self.dtype)
        if scaled.targets.shape[1] == 1:
            warnings.warn(
                "y has one target: the metric is learned from it alone, which helps only if few features matter",
                UserWarning,
                stacklevel=2,
            )
        unit = float(np.exp(2 * scaled.log_target_deviation))
        bases = self._bases(scaled)
        records = [
            record for basis in bases for record in self._search(basis, splits, unit, with_ridge=basis is bases[0])
        ]
        allowed = [r for r in records if r.criterion == RIDGE or self.criterion in ("auto", r.criterion)]
        chosen, choice = choose(allowed)
        basis = next(basis for basis in bases if basis.name == chosen.basis)
        self._refit(scaled, basis, chosen, choice, one_dimensional=y.ndim == 1)

        self.basis_, self.criterion_, self.steps_ = chosen.basis, chosen.criterion, chosen.step
        self.cv_mse_ = unit * choice.error
        self.noise_variance_ = (
            unit * chosen.noise_variance if self.noise_variance is None else float(self.noise_variance)
        )
        self.excess_risk_ = max(self.cv_mse_ - self.noise_variance_, 0.0)
        self.path_ = record_table(records, unit)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, (n,) if y was one-dimensional, else (n, tasks)."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        return X @ self.coef_.T + self.intercept_

    def transform(self, X: Any) -> np.ndarray:
        """The learned features: sqrt(m_j) x_j (centred) of the features or components that were not dropped.

        Ridge with the penalty `alpha_` on these is the fitted regressor, up to `rank_`.
        """
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        active = np.flatnonzero(self.metric_)
        centred = X - self.mean_
        columns = centred[:, active] if self.components_ is None else centred @ self.components_[active].T
        return columns * np.sqrt(self.metric_[active])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`: of the features, or the class name and a number for components."""
        check_is_fitted(self)
        if self.components_ is not None:
            return super().get_feature_names_out(input_features)
        if self.encoder_ is not None:
            return self.encoder_.get_feature_names_out()[np.flatnonzero(self.metric_)]
        return OneToOneFeatureMixin.get_feature_names_out(self, input_features)[np.flatnonzero(self.metric_)]

    @property
    def _n_features_out(self) -> int:
        return int(np.count_nonzero(self.metric_))

    @property
    def _column_groups(self) -> np.ndarray | None:
        """The groups of the columns that are fitted."""
        if self.groups is None or self.encoder_ is None:
            return self.groups
        return np.asarray(self.groups)[self.encoder_.sources_]

    def _bases(self, scaled: Scaled) -> list[Basis]:
        exponents = EXPONENTS if self.start_exponent == "auto" else (float(self.start_exponent),)
        groups = None if self.groups is None else np.unique(np.asarray(self._column_groups), return_inverse=True)[1]
        bases: list[Basis] = []
        if self.basis in ("auto", "features"):
            bases.append(FeatureBasis(scaled, exponents, groups))
        if self.basis == "pca" or (self.basis == "auto" and groups is None and scaled.rows.shape[1] > 1):
            bases.append(ComponentBasis(scaled, exponents))
        return bases

    def _search(
        self, basis: Basis, splits: list[tuple[np.ndarray, np.ndarray]], unit: float, with_ridge: bool
    ) -> list[PathRecord]:
        """Ridge, and the evidence path, whose noise estimate the path of degrees of freedom takes over."""
        parts = [basis.split(train, held) for train, held in splits]
        folds = [part.fold for part in parts]
        known = self.noise_variance is not None
        penalty = float(np.exp(np.mean([np.log(part.starts.best.noise_variance) for part in parts])))
        if self.noise_variance is not None:
            penalty = max(float(self.noise_variance) / unit, LEAST_NOISE)
        starts_at_ridge = all(part.starts.best == part.starts.ridge for part in parts)
        steps = sorted(int(step) for step in self.steps)
        ranks = int(self.rank) if isinstance(self.rank, Integral) else {"auto": _RANKS, None: ()}[self.rank]
        ridge: list[PathRecord] = []
        if with_ridge and not starts_at_ridge and 0 in steps:
            first = [part.ridge for part in parts]
            ridge = search_path(first, basis.name, "evidence", penalty, [0], ranks, adapt=False, start_is_ridge=True)
        records: list[PathRecord] = []
        common: dict[str, Any] = {
            "steps": steps,
            "ranks": ranks,
            "groups": self._column_groups if basis.name == "features" else None,
            "start_is_ridge": with_ridge and starts_at_ridge,
        }
        if not (known and self.criterion == "degrees_of_freedom"):
            records = search_path(folds, basis.name, "evidence", penalty, adapt=not known, **common)
            penalty = penalty if known else min(records, key=lambda record: record.best.error).noise_variance
        if self.criterion != "evidence":
            start_known = bool(records)
            penalty = max(penalty, LEAST_NOISE)
            records += search_path(
                folds, basis.name, "degrees_of_freedom", penalty, adapt=False, start_known=start_known, **common
            )
        return ridge + records

    def _refit(
        self, scaled: Scaled, basis: Basis, chosen: PathRecord, choice: HeldOutChoice, one_dimensional: bool
    ) -> None:
        """Learn the chosen metric and the coefficients on all rows."""
        whole = basis.whole(chosen.is_ridge)
        first = chosen.schedule[0] if chosen.schedule else 1.0
        targets = scaled.targets if whole.span is None else whole.span.T @ scaled.targets
        path = metric_path(
            whole.design,
            targets,
            first,
            criterion="evidence" if chosen.criterion == RIDGE else chosen.criterion,
            start=whole.start,
            power=1.0,
            groups=self._column_groups if basis.name == "features" else None,
            prune=prune_of(len(scaled.targets), whole.design),
            dtype=whole.design.dtype,
        )
        metric = next(path).metric
        for penalty in chosen.schedule:
            metric = path.send(penalty).metric
        penalty, rank = choice.penalty, choice.rank
        active = np.flatnonzero(metric)
        design = whole.exact_design[:, active]
        eigenvalues, vectors = np.linalg.eigh(metric_product(design, design, metric[active], active[:0]))
        eigenvalues = np.maximum(eigenvalues, 0.0)
        vectors = vectors if whole.span is None else whole.span @ vectors

        of_full_rank = rank == chosen.ranks[-1] and not isinstance(self.rank, Integral)
        if chosen.criterion == RIDGE and of_full_rank:
            # no label has shaped this metric but for scale and exponent, so every row may be left out in turn
            penalty = left_out_penalty(eigenvalues, vectors, scaled.targets)
        left, values, right = np.linalg.svd(scaled.targets, full_matrices=False)
        self.rank_ = len(values) if of_full_rank else rank
        responses = left[:, : self.rank_] * values[: self.rank_]
        dual = vectors @ ((vectors.T @ responses) / (eigenvalues + penalty)[:, None])
        coefficients = basis.coefficients(metric, dual) @ right[: self.rank_]
        coefficients = scaled.original_coefficients(coefficients)
        self.mean_ = scaled.mean
        self.coef_ = coefficients[:, 0] if one_dimensional else coefficients.T
        intercept = scaled.target_mean - scaled.mean @ coefficients
        self.intercept_ = float(intercept[0]) if one_dimensional else intercept
        unit = float(np.exp(2 * scaled.log_target_deviation))
        self.metric_, self.components_ = basis.original_metric(metric)
        self.metric_spectrum_ = np.zeros(len(scaled.targets))
        self.metric_spectrum_[: len(eigenvalues)] = unit * eigenvalues[::-1] / len(scaled.targets)
        self.degrees_of_freedom_ = float(np.sum(eigenvalues / (eigenvalues + penalty)))
        self.alpha_ = unit * penalty
        self.start_exponent_ = whole.exponent

    def _check_parameters(self, n: int, d: int) -> None:
        check_choice("criterion", self.criterion, ("auto", "evidence", "degrees_of_freedom"))
        check_choice("basis", self.basis, ("auto", "features", "pca"))
        check_choice("dtype", self.dtype, ("float32", "float64"))
        if self.start_exponent != "auto":
            check_array("start_exponent", self.start_exponent, low=-10, high=10, ndim=0)
        steps = np.asarray(self.steps)
        if steps.ndim != 1 or not steps.size or not np.issubdtype(steps.dtype, np.integer) or steps.min() < 0:
            raise InputError(f"steps must be a sequence of integers >= 0, got {self.steps!r}")
        if self.noise_variance is not None:
            check_array("noise_variance", self.noise_variance, low=0, ndim=0)
        if self.rank not in ("auto", None) and not (isinstance(self.rank, Integral) and int(self.rank) >= 1):
            raise InputError(f"rank must be 'auto', None or an integer >= 1, got {self.rank!r}")
        if self.groups is not None:
            if np.shape(self.groups) != (d,):
                raise InputError(f"groups must have shape ({d},), one label per feature, got {np.shape(self.groups)}")
            if self.basis == "pca":
                raise InputError("groups must be None for basis 'pca', whose components mix the features")
