"""A regressor for y = g(x.theta_1, ..., x.theta_r) + noise with unknown directions and function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError
from unlazy.estimators.common.gate import MEAN
from unlazy.estimators.index.choice import STRAIGHT, Model
from unlazy.estimators.index.multi.links import AffineSurface, OneLink
from unlazy.estimators.index.multi.search import QUICK, MultiModel, polish, search
from unlazy.estimators.index.several import Family, SeveralIndexRegressor, check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# components that "auto" tries, and that can be asked for
_MOST_COMPONENTS, _LARGEST = 4, 6


class MultiIndexRegressor(SeveralIndexRegressor):
    """y = g(x.theta_1, ..., x.theta_r) + noise: a subspace of few dimensions and an unknown function on it.

    X is whitened with a shrunk covariance. Starts come from the span of first and second moments of x with transforms
    of y, as for `SingleIndexRegressor`; the subspace is refined by Gauss-Newton, first in that span, then in the whole
    space, with a polyharmonic spline of r variables refitted at every trial, until the fit leaves less than a quarter
    of what fits of noise leave ("certain"). Polynomials of degree up to 4 and splines compete by a BIC of left-out
    errors in a last refinement on y itself. If no fit is certain, or if it is not better than ridge regression on
    held-out rows by a standard error, it is judged there next to the stages of a single index from ridge regression on,
    and shrunk to the mean by a weight that those rows choose; ridge regression or the mean are left if none of them
    explains 2% of y. The function is constant along the rays beyond the training rows, and has no values that the
    labels do not support.

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
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: d columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
    """

    def __init__(self, n_components: Any = 2, *, cv: Any = 5, random_state: Any = None):
        self.n_components = n_components
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> MultiIndexRegressor:
        """Find the subspace and the function from X (n, d) and y (n,), n >= 2 d."""
        check_count("n_components", self.n_components)
        if self.n_components != "auto" and self.n_components > _LARGEST:
            raise InputError(
                f"n_components must be at most {_LARGEST}, got {self.n_components}: use AdditiveIndexRegressor"
            )
        data, model, choice = self._find(X, y, "n_components", _MOST_COMPONENTS, _FAMILY)
        factors = self._keep(data, model.directions, choice)
        # labels have mean 0 and variance 1
        scale = data.unit * choice.weight
        self.link_ = AffineSurface(model.function, data.center, scale, self.directions_ @ self.mean_, factors)
        self.link_kind_ = model.kind if choice.stage != MEAN else "p0"
        self.n_components_ = len(self.directions_)
        return self

    def plot(self) -> list[Axes]:
        """Draw predictions and training rows: a curve for one index, contours for two, else y along each."""
        from unlazy.estimators.index.multi.report import plot_function

        check_is_fitted(self)
        return plot_function(self._indices, self._labels, self.link_)

    def _values(self, indices: np.ndarray) -> np.ndarray:
        return self.link_.intercept + self.link_.scale * self.link_.function(indices)


def _name(count: int) -> str:
    return "1 component" if count == 1 else f"{count} components"


def _path(rows: np.ndarray, labels: np.ndarray, sizes: range, random: np.random.RandomState) -> dict[str, MultiModel]:
    found = {size: search(rows, labels, size, random, QUICK)[0] for size in sizes}
    return {_name(size): polish(rows, labels, one.directions, random) for size, one in found.items()}


def _of_one(rows: np.ndarray, labels: np.ndarray, one: Model) -> MultiModel:
    return MultiModel(one.direction[:, None], OneLink(one.link), one.kind)


def _is_straight(model: MultiModel) -> bool:
    return model.kind == STRAIGHT


_FAMILY = Family(_name, search, polish, _path, _of_one, _is_straight)
