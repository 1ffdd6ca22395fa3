"""A regressor for y = g(x.theta) + noise with unknown direction and link."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError
from unlazy.estimators.common.folds import make_splits, some_rows
from unlazy.estimators.common.gate import MEAN, Choice
from unlazy.estimators.index.base import LEAST_SAMPLES, WEAK_SCORE, IndexRegressor
from unlazy.estimators.index.certainty import has_few_values
from unlazy.estimators.index.choice import (
    FULL,
    LINEAR,
    STRAIGHT,
    Folds,
    Model,
    beats_ridge,
    certain_error,
    choose,
    full_model,
    held_out_predictions,
    linear_model,
    models,
    shrunk,
)
from unlazy.estimators.index.links import Affine, IndexLink
from unlazy.estimators.index.report import generative_exponent, plot_link
from unlazy.estimators.index.search import (
    FEW_COLUMNS,
    HARD_ROWS_PER_COLUMN,
    QUICK,
    ROUNDS,
    FoundDirection,
    find,
    hard_find,
    rows_for_exponent,
)
from unlazy.estimators.index.whitening import check_enough_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# random starts are tried from so many rows per column on, below this held-out R^2
_HARD_SCORE = 0.3
# beyond so many rows per column the first two rounds find what can be found
_MANY_ROWS_PER_COLUMN = 8
# the exponent whose rows a warning names
_HARD_EXPONENT = 4
# rows that are divided into folds, at least and per column
_MOST_FOLD_ROWS, _MOST_FOLD_ROWS_PER_COLUMN = 6000, 24


@dataclass(frozen=True)
class InputLink:
    """The link as a function of X @ coef_: link(scale (t - origin))."""

    link: IndexLink
    origin: float
    scale: float

    def __call__(self, index: Any) -> np.ndarray:
        return self.link(self.scale * (np.asarray(index, dtype=np.float64) - self.origin))

    def slope(self, index: Any) -> np.ndarray:
        return self.scale * self.link.slope(self.scale * (np.asarray(index, dtype=np.float64) - self.origin))


class SingleIndexRegressor(IndexRegressor):
    """y = g(x.theta) + noise: one direction and an unknown function of it, from rows few times as many as columns.

    X is whitened with a shrunk covariance. Candidates for theta come from first and second moments of x with transforms
    of y (SIR, spectral methods, ridge), the search goes through their span, then by Gauss-Newton through the whole
    space with a spline refitted at every trial, all for arcsinh-compressed labels; polynomials and splines compete by a
    BIC of left-out errors in a last refinement on y itself. Rounds of wider search follow until the fit leaves less
    than a quarter of what fits of pure noise leave ("certain"). If none does, or if it is not better than ridge
    regression on held-out rows by a standard error, stages from ridge regression to the full search are judged on
    held-out rows, each shrunk to the mean by a weight that those rows choose; ridge regression or the mean are left if
    none of them explains 2% of y.

    Links are constant beyond the training rows, after a quarter of their range where they predict the outer rows from
    the others, and have no values that the labels do not support; only ridge regression goes on straight. It is taken
    in place of a straight link, and where it predicts from the other rows, with two thirds of the error, the longest 5%
    or those 5% of which it predicts the most unusual labels. Where y goes on straight far beyond all rows, of which
    none can tell, ridge regression is better.

    Finds every link that is not hidden from first and second moments given y (generative exponent 1 or 2) from n of
    order d: at n = 6 d and noise of a tenth of the deviation of y the cosine with theta is above 0.99. Links of
    exponent 3 and more need n of order d^(exponent/2) and a search that is tried for n >= 15 d. It loses where y
    depends on several directions. Method and stages are this project's; sources of the parts: Li (1991), Mondelli and
    Montanari (2018), Damian et al. (2024), Eilers and Marx (1996), Kaufman (1975), Breiman (1995).

    Parameters
    ----------
    hard : "auto", True or False
        Whether random starts are tried where moments show nothing (links of generative exponent 3 or 4). "auto" does so
        if the held-out R^2 is below 0.3 and n >= 15 d.
    cv : int, or a splitter of scikit-learn
        Held-out rows for the choice of the stage.
    random_state : int, RandomState or None
        Draws random starts and shuffles the folds.

    Attributes
    ----------
    coef_ : (d,), unit vector in the space of X; 0 for constant columns. If `stage_` is "mean" it means nothing
    directions_ : (1, d), the same
    link_ : callable, `predict(X)` is `link_(X @ coef_)` up to rounding; `link_.slope` is its derivative
    stage_ : "full", "ridge", "mean" or the stage between that was chosen
    certain_ : whether the fit was so good that no choice of a stage was needed; never if y has at most 10 values
    shrinkage_ : factor on the distance of the link from the mean of y, 1 for none
    validation_score_ : R^2 on held-out rows of the chosen stage; if `certain_`, of fits to the other folds that are
        certain too, or by leave-one-out to first order if there are none: with few rows it is rather too low
    stage_scores_ : dict of the held-out R^2 of every stage, empty if `certain_`
    link_kind_ : "p3" is a polynomial of degree 3, "s8" a spline of 8 intervals
    generative_exponent_ : int or None, the first k whose mean of h_k(index) given y shows; None if nothing was found
    mean_, scale_ : (d,), of the columns of X
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: d columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
    """

    def __init__(self, *, hard: Any = "auto", cv: Any = 5, random_state: Any = None):
        self.hard = hard
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SingleIndexRegressor:
        """Find direction and link from X (n, d) and y (n,), n >= 2 d."""
        if not (isinstance(self.hard, (bool, np.bool_)) or (isinstance(self.hard, str) and self.hard == "auto")):
            raise InputError(f"hard must be 'auto', True or False, got {self.hard!r}")
        least = max(LEAST_SAMPLES, 2 * int(self.cv) if isinstance(self.cv, Integral) else 0)
        data = self._prepare(X, y, least, f" for cv={self.cv!r}")
        rows, labels, whitening = data.rows, data.labels, data.whitening
        check_enough_rows(len(rows), whitening.rank)
        random = check_random_state(self.random_state)
        folds = self._folds(rows, labels, random)
        few_columns = whitening.rank <= FEW_COLUMNS
        many_rows = len(rows) >= _MANY_ROWS_PER_COLUMN * whitening.rank
        found = find(rows, labels, random, ROUNDS[: 1 if few_columns else 2 if many_rows else len(ROUNDS)])
        model, choice = self._choose(rows, labels, found, folds, random)
        direction = model.direction if np.any(model.direction) else np.eye(whitening.rank)[0]
        (factor,) = self._keep(data, direction[:, None], choice)
        self.coef_ = self.directions_[0]
        self.link_ = InputLink(
            Affine(model.link, data.center, data.unit), float(self.mean_ @ self.coef_), float(factor)
        )
        self.link_kind_ = model.kind if choice.stage != MEAN else "p0"
        self.certain_ = not choice.scores
        self.generative_exponent_ = None
        if self.stage_ != MEAN and self.validation_score_ > WEAK_SCORE:
            self.generative_exponent_ = generative_exponent(rows @ model.direction, labels)
        return self

    def plot_link(self, axes: Axes | None = None) -> Axes:
        """Draw y against the index X @ coef_ of the training rows, and the link."""
        check_is_fitted(self)
        return plot_link(self._indices[:, 0], self._labels, self.link_, axes)

    def _folds(self, rows: np.ndarray, labels: np.ndarray, random: np.random.RandomState) -> Folds:
        most = max(_MOST_FOLD_ROWS, _MOST_FOLD_ROWS_PER_COLUMN * rows.shape[1])
        part = some_rows(rows, labels, most, random)
        return Folds(*part, make_splits(self.cv, random, *part))

    def _choose(
        self, rows: np.ndarray, labels: np.ndarray, found: FoundDirection, folds: Folds, random: np.random.RandomState
    ) -> tuple[Model, Choice]:
        if found.certain and beats_ridge(folds, lambda x, y: full_model(x, y, found.full)[0]):
            return self._certain(rows, labels, found, folds, random)
        choice = choose(held_out_predictions(folds, lambda x, y: models(x, y, find(x, y, random, QUICK))))
        enough = len(rows) >= HARD_ROWS_PER_COLUMN * rows.shape[1]
        tried = not has_few_values(labels) and choice.score < _HARD_SCORE
        if tried and (self.hard is True or (self.hard == "auto" and enough)):
            full = hard_find(rows, labels, random)
            if full is not None and beats_ridge(folds, lambda x, y: full_model(x, y, full)[0]):
                return self._certain(rows, labels, found._replace(full=full, certain=True), folds, random)
        if choice.score < WEAK_SCORE:
            needed = rows_for_exponent(rows.shape[1], _HARD_EXPONENT)
            warnings.warn(
                f"held-out rows show no dependence of y on one direction of X (R^2 {choice.score:.2g}), stage_ falls "
                f"back to {choice.stage!r}: y is noise, or depends on many directions, or its link has a generative "
                f"exponent >= 3, for which n of order {needed} would do (d^2, at least 15 d), got n = {len(rows)}",
                UserWarning,
                stacklevel=3,
            )
        if choice.stage == MEAN:
            return shrunk(linear_model(found.linear), 0.0), choice
        model = models(rows, labels, found, (choice.stage,))[choice.stage]
        if model.kind == STRAIGHT:
            model, choice = linear_model(found.linear), choice._replace(stage=LINEAR)
        return shrunk(model, choice.weight), choice

    @staticmethod
    def _certain(
        rows: np.ndarray, labels: np.ndarray, found: FoundDirection, folds: Folds, random: np.random.RandomState
    ) -> tuple[Model, Choice]:
        """The full fit, or ridge regression where that predicts as well."""
        model, error = full_model(rows, labels, found.full)
        stage = FULL
        if model.kind == STRAIGHT or found.linear.left_out_error <= error:
            model, stage, error = linear_model(found.linear), LINEAR, found.linear.left_out_error
        else:
            held_out = certain_error(folds, random)
            error = error if held_out is None else held_out
        score = 1 - error / float(np.var(labels))
        return model, Choice(stage, 1.0, score, {})

    def _values(self, indices: np.ndarray) -> np.ndarray:
        return self.link_.link(indices[:, 0])
