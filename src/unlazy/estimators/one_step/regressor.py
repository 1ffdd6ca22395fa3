"""Features of one large gradient step, and a regressor that chooses how large it should be."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin

from unlazy.checks import InputError
from unlazy.estimators.common.folds import make_splits, some_rows
from unlazy.estimators.common.inputs import check_numbers, finite_or_refused
from unlazy.estimators.one_step.base import OneStepEstimator
from unlazy.estimators.one_step.predictor import LARGEST_SPIKE, READOUT_RIDGES, OneStepPredictor, with_spike
from unlazy.estimators.one_step.search import LINEAR, SEARCH_ROWS, Directions, choose, search, table
from unlazy.numerics.index_directions import linear_signal

_LEAST_SIGNAL = 3.0
_SPIKES = (0.0, 0.5, 1.0, 2.0, 4.0)
_FEW_ROWS = 100


class OneStepFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OneStepEstimator):
    """The hidden layer of a wide two-layer network after one large gradient step, as features for any linear model.

    X is standardised to z. The first step moves all neurons along one direction v, so the features are

        [sigma(W1^T z + b) / sqrt(N), z / sqrt(d)],    W1 = W0 + s v a^T,

    with s = `spike_deviation`, W0 ~ N(0, 1/d), a, b ~ N(0, 1) and v.z of variance 1. With `precondition` v is the
    direction of ridge regression, its ridge by generalised cross-validation, else the gradient Z^T y. s = 0 gives
    random features. A step sees only what correlates with a direction of x: where `signal_z_` is below `min_signal`
    (an even function of x.v, or noise) `fit` refuses unless s = 0; up to 100 rows, where weak signals are missed too,
    it warns.
    Sources: Ba et al. (2022), Dandi et al. (2024); the preconditioned step is this project's.

    Parameters
    ----------
    width : int
        Number N of neurons; there are N + d columns.
    activation : str or callable of arrays
        sigma, whose linear coefficient E[g sigma(g)], g ~ N(0, 1), must not vanish.
    spike_deviation : "cv" or float >= 0
        "cv" is the one of 0.5, 1, 2, 4 whose ridge regression has the least 5-fold error, the direction being found
        anew in each fold, or 0 if that is less by no more than a standard error.
    precondition : bool
        False takes the gradient Z^T y.
    min_signal : float
        The least `signal_z_` that is neither refused nor warned of; -inf allows everything.
    random_state : int, RandomState or None
        Draws W0, a, b and shuffles the folds.

    Attributes
    ----------
    direction_ : (d,), v in the units of X: (x - mean_).direction_ has variance 1
    directions_ : (1, d), the same, or (0, d) if `spike_deviation_` is 0
    spike_deviation_ : float
    signal_z_ : linear correlation of y with x in standard deviations of what noise would give
    alignment_ : estimated cosine between v and the best linear predictor, in the metric of the covariance of X, from
        held-out rows; 0 if no signal is seen
    weights_ : (d, N), W1;  biases_ : (N,);  mean_, scale_ : (d,), scale inf for constant columns
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: d columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
    """

    def __init__(
        self,
        width: int = 400,
        *,
        activation: Any = "tanh",
        spike_deviation: Any = "cv",
        precondition: bool = True,
        min_signal: float = 3.0,
        random_state: Any = None,
    ):
        self.width = width
        self.activation = activation
        self.spike_deviation = spike_deviation
        self.precondition = precondition
        self.min_signal = min_signal
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> OneStepFeatures:
        """Take the step on X (n, d) and y (n,)."""
        chosen_by_cv = isinstance(self.spike_deviation, str) and self.spike_deviation == "cv"
        if isinstance(self.spike_deviation, str) and not chosen_by_cv:
            raise InputError(f"spike_deviation must be 'cv' or a number >= 0, got {self.spike_deviation!r}")
        spikes: Sequence[float] = _SPIKES
        if not chosen_by_cv:
            spikes = [float(check_numbers("spike_deviation", self.spike_deviation, low=0, high=LARGEST_SPIKE, ndim=0))]
        least = float(check_numbers("min_signal", self.min_signal, finite=False, ndim=0))
        scaled, labels, recipe, random = self._prepare(X, y, directions=1, refinements=0)
        found = Directions(scaled.rows, labels, recipe)
        signal = linear_signal(scaled.rows, labels, found.fit.factors)
        if signal.z < least and any(spikes):
            reason = (
                f"y must correlate with a direction of X (signal_z_ >= min_signal = {least:g}), got {signal.z:.2g}: "
                "one step is blind to even functions (information exponent >= 2) and to noise; use OneStepRegressor, "
                "whose extra directions see even functions, or spike_deviation=0"
            )
            if len(labels) > _FEW_ROWS:
                raise InputError(reason)
            warnings.warn(f"{reason}; with {len(labels)} rows weak signals are missed too", UserWarning, stacklevel=2)
        part = some_rows(scaled.rows, labels, SEARCH_ROWS, random)
        splits = make_splits(5, random, *part)
        candidates = [with_spike(spike) for spike in spikes]
        ridges = np.array(READOUT_RIDGES)
        searched = search(*part, splits, recipe, candidates if chosen_by_cv else [], ridges)
        chosen = choose(searched.errors, ridges).candidate if chosen_by_cv else candidates[0]
        self._keep(scaled, signal, found, searched, chosen, recipe)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features of the rows of X, (n, N + d)."""
        return self._features(X)

    @property
    def _n_features_out(self) -> int:
        return sum(self.weights_.shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class OneStepRegressor(RegressorMixin, OneStepPredictor):
    """Ridge regression on features that few directions, found by preconditioned gradient steps, have shaped.

    The model is a ridge regression on [sigma(W1^T z + b) / sqrt(N), z / sqrt(d)], z standardised x, with

        W1 = W0 + s V a    or without W0,    V = (v, extra directions).

    v is the direction of ridge regression (one preconditioned step); extra directions are those of largest |eigenvalue|
    of sum_i e_i w_i w_i^T, e the residual of that regression and w whitened x, of which more than can be told from
    permuted residuals are not tried. V is then refined by `refinements` Gauss-Newton steps. Cross-validation chooses W0
    or not, s (of `spike_deviations`), number of extra directions and ridge; every fold finds its directions anew. Plain
    ridge regression is a candidate too, left only for a gain in the paired held-out errors at the level 1% (Student's
    t, about 2.4 standard errors); if kept, its ridge is that of leave-one-out unless `cv` is a splitter. So with few
    rows or heavy tails it often stays where y is not linear. Random features (s = 0) are left for one standard error.
    Which rows are held out together depends on their order, and so do choice and predictions. Of more than 10,000 rows
    so many, drawn at random, choose (all of them if `cv` is a splitter); then all rows give directions and
    coefficients, the latter with the best ridge up to the chosen one by generalised cross-validation. Predictions stay
    within the range of the training y widened by its width on both sides; only those of plain ridge go on straight.

    Wins where y depends on one to three directions of x; ties with ridge where y is linear, or where rows are so few or
    noise and outliers so large that nothing else can be told. It loses where many directions matter, or none in
    particular: trees, kernels. Sources: Ba et al. (2022), Dandi et al. (2024) for the
    step; preconditioning, refinement and choice are this project's.

    Parameters
    ----------
    width : int
        Number N of neurons; without W0 at most 200 of them are used.
    activation : str or callable of arrays
        sigma, whose linear coefficient E[g sigma(g)], g ~ N(0, 1), must not vanish.
    precondition : bool
        False starts from the gradient Z^T y instead.
    spike_deviations : sequence of float >= 0
        0 is random features.
    background : "cv", True or False
        Whether W0 is kept. With "cv" extra directions are tried without W0 only.
    max_directions : int
        The largest number of extra directions; 0 for none.
    refinements : int
        The largest number of further steps on the directions; 0 is the single step of the theory.
    ridges : sequence of float from 1e-10 to 1e100
        Of (1/n) |y - F b|^2 + ridge |b|^2 for y of variance 1: `alpha` of scikit-learn's `Ridge` is n ridge. Below the
        1e-6 where the default begins predictions between the rows can be far larger than any y.
    cv : int or splitter
        Number of shuffled folds, repeated below 60 rows, or anything that scikit-learn's `check_cv` takes.
    random_state : int, RandomState or None
        Draws W0, a, b and shuffles the folds.

    Attributes
    ----------
    model_ : "linear" (plain ridge), "random features" or "one step"
    spike_deviation_, ridge_, background_, extra_directions_ : what was chosen
    direction_ : (d,), v before refinement in the units of X: (x - mean_).direction_ has variance 1
    directions_ : (k, d), all that the features use, refined, scaled alike; (0, d) if `model_` is not "one step"
    signal_z_ : linear correlation of y with x in standard deviations of what noise would give; below 3 `fit` warns,
        since v is then no better than a random direction and only extra directions can help
    alignment_ : estimated cosine between `direction_` and the best linear predictor, in the metric of the covariance of
        X, from held-out rows; 0 if no signal is seen
    weights_ : (d, N), W1;  biases_ : (N,);  mean_, scale_ : (d,), scale inf for constant columns
    coef_ : (N + d,), of the features;  intercept_ : float
    cv_mse_ : cross-validated mean squared error of the choice. It is the least of many, but of fits on fewer rows: over
        drawn data its median was 0.9 to 1.3 of the error on new rows, and down to 0.2 of it for heavy-tailed inputs
    cv_results_ : dict of equally long arrays, one entry per candidate and ridge, with its `cv_mse`
    encoder_ : the `TableEncoder` of a DataFrame with text, dates or gaps: d columns are then those that its
        `get_feature_names_out()` names, in their units; None where X is taken as it is
    """

    def fit(self, X: Any, y: Any) -> OneStepRegressor:
        """Find directions, features and coefficients from X (n, d) and y (n,)."""
        spikes, ridges = self._check_parameters()
        scaled, labels, recipe, random = self._prepare(X, y, 1 + self.max_directions, self.refinements)
        part = self._searched_rows(scaled.rows, labels, random)
        learned = self._learn(scaled.rows, labels, part, recipe, random, spikes, ridges)
        signal, searched, choice = learned.signal, learned.searched, learned.choice
        self._keep(scaled, signal, learned.found, searched, choice.candidate, recipe)
        unit = float(np.exp(scaled.log_target_deviation))
        self.coef_ = unit * learned.fit.coefficients
        self.intercept_ = float(unit * learned.fit.intercept + scaled.target_mean[0])
        self.ridge_, self.model_ = learned.fit.ridge, choice.candidate.model
        self.background_, self.extra_directions_ = choice.candidate.background, choice.candidate.extra
        ends = unit * np.array([labels.min(), labels.max()]) + scaled.target_mean[0]
        self._bounds = (2 * ends[0] - ends[1], 2 * ends[1] - ends[0]) if self.model_ != LINEAR else None
        self.cv_results_ = table(searched.errors, ridges, float(np.exp(2 * scaled.log_target_deviation)))
        errors = searched.errors[choice.candidate].mean(axis=0, dtype=np.float64)
        self.cv_mse_ = float(np.exp(2 * scaled.log_target_deviation) * errors[choice.column])
        if signal.z < _LEAST_SIGNAL:
            warnings.warn(
                f"signal_z_ is {signal.z:.2g} < {_LEAST_SIGNAL:g}: no direction of X is seen to correlate with y, so "
                f"one step is blind; cross-validation chose {self.model_!r}, {self.extra_directions_} extra directions",
                UserWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, (n,)."""
        made = self._features(X)
        with np.errstate(over="ignore", invalid="ignore"):
            values = finite_or_refused(made @ self.coef_ + self.intercept_, made)
        return values if self._bounds is None else np.clip(values, *self._bounds)
