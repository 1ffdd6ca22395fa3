"""A regressor for y = g(x.theta_1, ..., x.theta_r) + noise with unknown directions and function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unlazy.checks import InputError
from unlazy.estimators.common.inputs import finite_or_refused, standardised
from unlazy.estimators.common.scaling import scale_data
from unlazy.estimators.index.choice import MEAN, Model
from unlazy.estimators.index.multi.choice import (
    LEAST_SAMPLES,
    Choice,
    Family,
    check_count,
    check_folds,
    check_rows,
    gated_fit,
    input_scales,
)
from unlazy.estimators.index.multi.links import AffineSurface, OneLink
from unlazy.estimators.index.multi.search import QUICK, MultiModel, polish, search
from unlazy.estimators.index.whitening import Whitening, whiten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_COMPONENTS = 4
_LARGEST = 6


class MultiIndexRegressor(RegressorMixin, BaseEstimator):
    """y = g(x.theta_1, ..., x.theta_r) + noise: a subspace of few dimensions and an unknown function on it.

    X is whitened with a shrunk covariance. Starts come from the span of first and second moments of x with transforms
    of y, as for `SingleIndexRegressor`; the subspace is refined by Gauss-Newton, first in that span, then in the whole
    space, with a polyharmonic spline of r variables refitted at every trial, until the fit leaves less than a quarter
    of what fits of noise leave ("certain"). Polynomials of degree up to 4 and splines compete by a BIC of left-out
    errors in a last refinement on y itself. If no fit is certain, it is judged on held-out rows next to the stages of a
    single index from ridge regression on, and shrunk to the mean by a weight that those rows choose; the mean alone is
    left if none can be told from chance.

    Rule: n >= 10 r d, and r at most 6; sums of links of one index each, above all steep ones, are better left to
    `AdditiveIndexRegressor`. Method and stages are this project's; parts: Li (1991), Mondelli and Montanari (2018),
    Duchon (1977), Kaufman (1975), Breiman (1995).

    Parameters
    ----------
    n_components : int from 1 to 6, or "auto"
        Dimension r of the subspace; "auto" takes the smallest up to 4 whose held-out error is within a standard error
        of the least.
    cv : int, or a splitter of scikit-learn
        Held-out rows for the choice of the stage.
    random_state : int, RandomState or None
        Draws random starts and knots and shuffles the folds.

    Attributes
    ----------
    directions_ : (n_components_, d), unit vectors in the space of X; uncorrelated indices, the one along which
        predictions vary most first
    link_ : callable of indices (n, n_components_); `predict(X)` is `link_(X @ directions_.T)` up to rounding;
        `link_.slopes` are its derivatives
    link_kind_ : "p3" (polynomial of degree 3), "t40" (spline with 40 knots), or of a single index
    n_components_ : int, at most `n_components`: where held-out rows prefer a single index that is taken
    stage_ : "2 components", ..., a stage of `SingleIndexRegressor`, or "mean"
    certain_ : whether the fit leaves far less than any fit of noise would, and y has more than 10 values; then
        nothing is shrunk
    shrinkage_ : factor on the distance of the predictions from the mean of y, 1 for none
    validation_score_ : R^2 on held-out rows of the chosen stage; if nothing was held out, its generalised
        cross-validation, for arcsinh-compressed y
    stage_scores_ : dict of the held-out R^2 of every stage, empty if nothing was held out
    mean_, scale_ : (d,), of the columns of X
    """

    def __init__(self, n_components: Any = 2, *, cv: Any = 5, random_state: Any = None):
        self.n_components = n_components
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> MultiIndexRegressor:
        """Find the subspace and the function from X (n, d) and y (n,), n >= 2 d."""
        check_count("n_components", self.n_components)
        count = None if self.n_components == "auto" else int(self.n_components)
        if count is not None and count > _LARGEST:
            raise InputError(f"n_components must be at most {_LARGEST}, got {count}: use AdditiveIndexRegressor")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        if len(X) < LEAST_SAMPLES:
            raise InputError(f"X must have at least {LEAST_SAMPLES} rows, got n_samples = {len(X)}")
        scaled = scale_data(X, y.astype(np.float64).reshape(-1, 1), "float64")
        whitening, rows = whiten(scaled)
        check_rows("n_components", count, len(rows), whitening)
        labels = scaled.targets[:, 0]
        check_folds(self.cv, rows, labels)
        random = check_random_state(self.random_state)
        most = count or min(_MOST_COMPONENTS, rows.shape[1])
        model, choice, self.certain_ = gated_fit(rows, labels, count, most, self.cv, random, _FAMILY)
        self._keep(model, choice, whitening, float(scaled.target_mean[0]), float(np.exp(scaled.log_target_deviation)))
        self._indices, self._labels = X @ self.directions_.T, y.astype(np.float64)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        indices = standardised(X, self.mean_, self.scale_) @ self._standardised_coefficients
        with np.errstate(over="ignore", invalid="ignore"):
            return finite_or_refused(self.link_.intercept + self.link_.scale * self.link_.function(indices), X)

    def plot(self) -> list[Axes]:
        """Draw predictions and training rows: a curve for one index, contours for two, else y along each."""
        from unlazy.estimators.index.multi.report import plot_function

        check_is_fitted(self)
        return plot_function(self._indices, self._labels, self.link_)

    def _keep(self, model: MultiModel, choice: Choice, whitening: Whitening, center: float, unit: float) -> None:
        self.mean_, self.scale_ = whitening.mean, whitening.scale
        self._standardised_coefficients = whitening.map @ model.directions
        self.directions_, factors = input_scales(whitening, model.directions)
        # labels have mean 0 and variance 1
        scale = unit * choice.weight
        self.link_ = AffineSurface(model.function, center, scale, self.directions_ @ self.mean_, factors)
        self.link_kind_ = model.kind if choice.stage != MEAN else "p0"
        self.n_components_ = len(self.directions_)
        self.stage_, self.shrinkage_, self.validation_score_ = choice.stage, choice.weight, choice.score
        self.stage_scores_ = choice.scores


def _name(count: int) -> str:
    return "1 component" if count == 1 else f"{count} components"


def _path(rows: np.ndarray, labels: np.ndarray, sizes: range, random: np.random.RandomState) -> dict[str, MultiModel]:
    found = {size: search(rows, labels, size, random, QUICK)[0] for size in sizes}
    return {_name(size): polish(rows, labels, one.directions, random) for size, one in found.items()}


def _of_one(rows: np.ndarray, labels: np.ndarray, one: Model) -> MultiModel:
    return MultiModel(one.direction[:, None], OneLink(one.link), one.kind)


_FAMILY = Family(_name, search, polish, _path, _of_one)
