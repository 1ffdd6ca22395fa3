"""A regressor for y = sum_m g_m(x.theta_m) + noise with unknown directions and links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unlazy.estimators.common.gate import MEAN
from unlazy.estimators.index.additive.links import SumOfLinks
from unlazy.estimators.index.additive.search import QUICK, AdditiveModel, greedy, model_along, polish, search
from unlazy.estimators.index.choice import STRAIGHT, Model
from unlazy.estimators.index.links import Affine
from unlazy.estimators.index.near import Near
from unlazy.estimators.index.several import Family, SeveralIndexRegressor, check_count
from unlazy.estimators.index.single import InputLink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# that "auto" tries
_MOST_TERMS = 6


class AdditiveIndexRegressor(SeveralIndexRegressor):
    """y = c + sum_m g_m(x.theta_m) + noise: a few directions, each with an unknown function of its own.

    X is whitened with a shrunk covariance. Terms are found one after the other on what the others leave, by the search
    of `SingleIndexRegressor`; after each all directions are refined together by Gauss-Newton, the links (splines)
    following as penalised least squares for all at once. Until the fit leaves less than a quarter of what fits of noise
    leave ("certain"), every term in turn is taken out and searched anew, then the whole begins again with a wider
    search. Polynomials and splines compete for each link by a BIC of left-out errors. If no fit is certain, or if it is
    not better than ridge regression on held-out rows by a standard error, fits with 1, ..., `n_terms` terms and those
    of a single index from ridge regression on are judged on held-out rows and shrunk to the mean by a weight that those
    rows choose; ridge regression or the mean are left if none of them explains 2% of y. Links are constant beyond the
    training rows like those of `SingleIndexRegressor`.

    For links that first and second moments given y show (generative exponent 1 or 2) and directions that are not
    nearly parallel; rule: n >= 10 `n_terms` d. Model: Friedman and Stuetzle's (1981) projection pursuit, Oko et al.
    (2024); method and stages are this project's; parts: Kaufman (1975), Eilers and Marx (1996), Breiman (1995).

    Parameters
    ----------
    n_terms : int, or "auto"
        "auto" takes the smallest number up to 6 whose held-out error is within a standard error of the least.
    cv : int, or a splitter of scikit-learn
        Held-out rows for the choice of the stage.
    random_state : int, RandomState or None
        Draws random starts and shuffles the folds.

    Attributes
    ----------
    directions_ : (n_terms_, d), unit vectors in the space of X, the term of largest variance first
    links_ : tuple of callables of mean 0 over the training rows, each with its derivative `slope`;
        `predict(X)` is `intercept_ + sum_m links_[m](X @ directions_[m])` up to rounding, but no farther from the
        range of y at the nearest training rows than that is wide
    intercept_ : float
    term_variances_ : (n_terms_,), variance of each term over the training rows
    link_kinds_ : tuple of "p3" (polynomial of degree 3), "s8" (spline of 8 intervals), ...
    n_terms_ : int, at most `n_terms`: where held-out rows prefer fewer terms these are taken
    stage_ : "2 terms", ..., a stage of `SingleIndexRegressor`, or "mean"
    certain_ : whether the fit leaves far less than any fit of noise would, and y has more than 10 values; then
        nothing is shrunk
    shrinkage_ : factor on the distance of the predictions from the mean of y, 1 for none
    validation_score_ : R^2 on held-out rows of the chosen stage; if nothing was held out, its generalised
        cross-validation
    stage_scores_ : dict of the held-out R^2 of every stage, empty if nothing was held out
    mean_, scale_ : (d,), of the columns of X
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: d columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
    """

    def __init__(self, n_terms: Any = 2, *, cv: Any = 5, random_state: Any = None):
        self.n_terms = n_terms
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> AdditiveIndexRegressor:
        """Find directions and links from X (n, d) and y (n,), n >= 2 d."""
        check_count("n_terms", self.n_terms)
        data, model, choice = self._find(X, y, "n_terms", _MOST_TERMS, _FAMILY)
        model = _shrunk(model, choice.weight)
        variances = model.function.terms(data.rows @ model.directions).var(axis=0)
        order = np.argsort(-variances)
        factors = self._keep(data, model.directions[:, order], choice)
        self.links_ = tuple(
            InputLink(Affine(model.function.links[m], 0.0, data.unit), float(self.mean_ @ direction), float(factor))
            for m, direction, factor in zip(order, self.directions_, factors, strict=True)
        )
        self.intercept_ = data.center + data.unit * model.intercept
        shrunk = self.intercept_ + choice.weight * (data.y - self.intercept_)
        self._near = Near(data.rows @ model.directions[:, order], shrunk)
        self.term_variances_ = data.unit**2 * variances[order]
        self.link_kinds_ = tuple(model.kinds[m] if choice.stage != MEAN else "p0" for m in order)
        self.n_terms_ = len(self.links_)
        return self

    def plot(self) -> list[Axes]:
        """Draw each term against its index, with what the other terms leave of y on the training rows."""
        from unlazy.estimators.index.multi.report import plot_terms

        check_is_fitted(self)
        return plot_terms(self._indices, self._labels - self.intercept_, self.links_)

    def _values(self, indices: np.ndarray) -> np.ndarray:
        terms = [link.link(t) for link, t in zip(self.links_, indices.T, strict=True)]
        return self._near.kept(self.intercept_ + np.sum(terms, axis=0), indices)


def _name(count: int) -> str:
    return "1 term" if count == 1 else f"{count} terms"


def _shrunk(model: AdditiveModel, weight: float) -> AdditiveModel:
    links = tuple(Affine(link, 0.0, weight) for link in model.function.links)
    return model._replace(function=SumOfLinks(links))


def _path(
    rows: np.ndarray, labels: np.ndarray, sizes: range, random: np.random.RandomState
) -> dict[str, AdditiveModel]:
    """Sums of every number of terms up to the largest: the greedy search passes them anyway."""
    path = greedy(rows, labels, sizes[-1], random, QUICK)
    return {_name(m): model_along(rows, labels, one.directions) for m, one in enumerate(path, 1)}


def _of_one(rows: np.ndarray, labels: np.ndarray, one: Model) -> AdditiveModel:
    """A single index as one term."""
    mean = float(one.link(rows @ one.direction).mean())
    function = SumOfLinks((Affine(one.link, -mean, 1.0),))
    directions = one.direction[:, None]
    return AdditiveModel(directions, function, float(labels.mean()), (one.kind,), Near(rows @ directions, labels))


def _is_straight(model: AdditiveModel) -> bool:
    return set(model.kinds) == {STRAIGHT}


_FAMILY = Family(_name, search, polish, _path, _of_one, _is_straight)
