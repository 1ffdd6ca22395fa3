"""A user's rows as a single-index model: link, noise and dimension, from which a one-step curve is predicted."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.learning_curve.link import HIDDEN_NODES, ROUNDING, Rescaled, fitted_link, width
from unlazy.functions.elementwise import Link
from unlazy.numerics.gaussian import normal_averages, normal_nodes
from unlazy.numerics.index_directions import Factors, Signal, linear_signal, refined_directions
from unlazy.numerics.ridge import ridge_coefficients
from unlazy.theory.one_step.gradient_step import best_direction_ridge, preconditioned_cosine
from unlazy.theory.one_step.moments import LinkMoments

FEWEST_ROWS = 30
_FOLDS = 10
_LEAST_SIGNAL = 3.0
_LEAST_PENALTY = 1e-9
_REFINEMENTS = 3
_MOST_PAIRED = 2000
_LEAST_STEEPNESS = 1e-6
# of a column against its largest number: less is rounding
_LEAST_VARIATION = 1e-14
_ROUNDING_OF_LINK = 1e-12
_PARTS = 10
# standard deviations of chance
_UNEVEN = 3.0
_TINY = 1e-300


class IndexModel(NamedTuple):
    """y = g(x.beta) + noise with x ~ N(0, I_d): what the theory of one step takes."""

    link: Link
    """g, centred."""
    moments: LinkMoments
    dimension: float
    noise_variance: float


class IndexEvidence(NamedTuple):
    """How rows support a single-index model."""

    model: IndexModel
    signal: float
    """The linear correlation of y and X in standard deviations of what chance gives."""
    cosine: float
    """Of the out-of-fold index with x.beta."""
    scores: np.ndarray
    """The out-of-fold index s of each row, standardised."""
    whitened: bool
    """False where the rows are too few to remove the correlations of the inputs."""
    variance_ratio: float
    """Variance of y in the model over that of the rows, 1 if the index is normal."""
    smoothing: float
    """Of the spline g."""
    isotropy: float
    """(tr S)^2 / (d tr S^2) of the correlation matrix S of the inputs: 1 if they are uncorrelated."""
    other_signal: float
    """What is quadratic in x in the residuals, in standard deviations of what chance gives."""
    least_noise_variance: float
    """The noise variance if the largest residuals along the index are misfit: with the median over ten parts of it in
    place of the mean, where chance does not explain the difference."""
    tails: float
    """sqrt((kurtosis - 1) / n) of y, the relative standard deviation of its variance."""


def centred_model(link: Link, dimension: float, noise_variance: float) -> IndexModel:
    """The model of a link whose mean is taken off."""
    averages = normal_averages("link", link, 0.0, 1.0)
    centred = Rescaled(link.value, float(averages.mean), 1.0)
    moments = LinkMoments(float(averages.linear), float(averages.rest))
    if math.sqrt(moments.variance) <= _ROUNDING_OF_LINK * abs(averages.mean):
        raise InputError(
            f"link must have a linear coefficient b1 = E[z g(z)] != 0, got {moments.linear:g} beside a mean of "
            f"{averages.mean:g}"
        )
    return IndexModel(
        Link("own", centred, breakpoints=link.breakpoints), moments, float(dimension), float(noise_variance)
    )


def index_evidence(X: np.ndarray, y: np.ndarray, folds: np.ndarray, smoothing: float | None = None) -> IndexEvidence:
    """Link and noise of rows X (n, d), y (n,), or a refusal where y has no linear correlation with X.

    `linear_signal` estimates the squared linear coefficient b1^2 of the link and whether it differs from 0. The index s
    is that of a direction fitted to the other folds: least squares, whose cosine with beta follows from b1^2 and
    var(y), or its refinement by the link, whichever leaves less of y. E[y | s] = E_h g(cosine s +
    sqrt(1 - cosine^2) h) is fitted by a spline g, with the smoothing of least generalised cross-validation unless
    given; what is left of y beyond Var_h g is noise.
    """
    n = len(X)
    if n < FEWEST_ROWS:
        raise InputError(f"X must have at least {FEWEST_ROWS} rows for kernel='one-step', got {n}")
    unit = float(np.std(y))
    targets = (y - y.mean()) / unit
    rows, whitened, isotropy = _white(X)
    d = rows.shape[1]
    signal, square = _signal(rows, targets)
    if not signal >= _LEAST_SIGNAL:
        raise InputError(
            f"y must have a linear correlation with X for kernel='one-step', whose first step sees nothing else: it is "
            f"{signal:.1f} standard deviations of what chance gives, at least {_LEAST_SIGNAL:g} are needed (even "
            "targets have none)"
        )
    share = min(square, 1 - ROUNDING)
    linear = LinkMoments(math.sqrt(share), 0.0)
    kept = n - n / np.unique(folds).size
    # whitening makes every ridge direction that of least squares
    ridge = (
        _LEAST_PENALTY if whitened else max(float(best_direction_ridge(linear, kept / d, 1 - share)), _LEAST_PENALTY)
    )
    cosine = float(preconditioned_cosine(linear, kept / d, ridge, 1 - share))
    index = _out_of_fold_index(rows, targets, folds, ridge, 0, smoothing)
    plain = fitted_link(index, targets, cosine, smoothing)
    link, chosen = plain.link, plain.smoothing
    noise = max(plain.unexplained - _variance_given_index(link, cosine), 0.0)
    if whitened:
        refined = _out_of_fold_index(rows, targets, folds, ridge, _REFINEMENTS, smoothing)
        other = fitted_link(refined, targets, 1.0, smoothing)
        if other.unexplained < plain.unexplained:
            index, link, chosen = refined, other.link, other.smoothing
            # least squares spends d of its rows on the direction, and the error in it is the rest of what is left of y
            noise = other.unexplained * (1 - d / kept)
            cosine = math.sqrt(max(1 - (other.unexplained - noise) / float(np.mean(link.slope(index) ** 2)), 0.0))
    averages = normal_averages("link", link, 0.0, 1.0)
    model = centred_model(Link("rescaled", Rescaled(link.value, 0.0, unit)), d, unit**2 * noise)
    ratio = float(averages.linear**2 + averages.rest) + noise
    residuals = targets - link(index)
    other_signal = _quadratic_signal(rows, residuals) if smoothing is None else math.nan
    least = model.noise_variance * _evenness(index, residuals**2)
    tails = math.sqrt(max(float(np.mean(targets**4)) - 1, 0.0) / n)
    return IndexEvidence(
        model, float(signal), cosine, index, whitened, ratio, chosen, isotropy, other_signal, least, tails
    )


def random_folds(n: int, rng: np.random.Generator) -> np.ndarray:
    """The fold of each row."""
    return rng.permutation(np.arange(n) % _FOLDS)


def left_out_models(X: np.ndarray, y: np.ndarray, folds: np.ndarray, smoothing: float) -> list[IndexModel]:
    """The models of the rows without each of the folds; fewer where that leaves no signal."""
    models = []
    for fold in range(_FOLDS):
        kept = folds != fold
        try:
            models.append(index_evidence(X[kept], y[kept], folds[kept], smoothing).model)
        except InputError:
            continue
    return models


def _white(X: np.ndarray) -> tuple[np.ndarray, bool, float]:
    """Standardised columns, without their correlations where there are at least two rows per column; the isotropy."""
    scale = np.abs(X).max(axis=0)
    rows = X / np.where(scale > 0, scale, 1.0)
    rows = rows - rows.mean(axis=0)
    deviation = np.std(rows, axis=0)
    varying = deviation > _LEAST_VARIATION
    if not varying.any():
        raise InputError("X must have a column that varies, got constant ones only")
    rows = rows[:, varying] / deviation[varying]
    n, d = rows.shape
    gram = rows.T @ rows / n if d <= n else rows @ rows.T / n
    # the expected excess of tr S^2 from so few rows
    isotropy = d / max(float(np.sum(gram**2)) - d**2 / n, 1.0)
    if n < 2 * d:
        return rows, False, isotropy
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    return math.sqrt(n) * left[:, singular > ROUNDING * singular[0]], True, isotropy


def _quadratic_signal(rows: np.ndarray, residuals: np.ndarray) -> float:
    """sum_i!=j e_i e_j (x_i.x_j)^2, centred, over its standard deviation for residuals that are independent of X."""
    rows, residuals = rows[:_MOST_PAIRED], residuals[:_MOST_PAIRED] - residuals[:_MOST_PAIRED].mean()
    pairs = (rows @ rows.T) ** 2
    np.fill_diagonal(pairs, 0.0)
    means = pairs.sum(axis=1) / (len(rows) - 1)
    pairs = pairs - means[:, None] - means + means.mean()
    np.fill_diagonal(pairs, 0.0)
    spread = math.sqrt(2 * np.sum(pairs**2)) * float(np.mean(residuals**2))
    return float(residuals @ pairs @ residuals) / max(spread, _TINY)


def _signal(rows: np.ndarray, targets: np.ndarray) -> Signal:
    left, singular, right = np.linalg.svd(rows, full_matrices=False)
    kept = singular > ROUNDING * singular[0]
    factors = Factors(singular[kept] ** 2 / len(rows), right[kept].T, left.T[kept] @ targets / math.sqrt(len(rows)))
    return linear_signal(rows, targets, factors)


def _out_of_fold_index(
    rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, ridge: float, refinements: int, smoothing: float | None
) -> np.ndarray:
    """x.v with v = (X^T X / n + ridge)^-1 X^T y of the other folds, standardised, refined with the spline g."""
    index = np.empty(len(rows))
    for fold in np.unique(folds):
        held = folds == fold
        kept, labels = rows[~held], targets[~held]
        direction = ridge_coefficients(kept, labels, len(kept) * ridge)

        def smooth(fitted: np.ndarray, labels: np.ndarray = labels) -> tuple[np.ndarray, np.ndarray]:
            link = fitted_link(fitted[:, 0], labels, 1.0, smoothing).link
            return link(fitted[:, 0]), link.slope(fitted)

        if refinements:
            direction = refined_directions(kept, labels, direction[:, None], refinements, smooth, _least_squares)[:, 0]
        index[held] = rows[held] @ (direction / max(float(np.linalg.norm(direction)), _TINY))
    return (index - index.mean()) / max(float(np.std(index)), _TINY)


def _least_squares(design: np.ndarray, response: np.ndarray) -> np.ndarray:
    """With so little ridge that a design of a flat link has a solution."""
    level = max(_LEAST_STEEPNESS * float(np.mean(design**2)), _TINY)
    return ridge_coefficients(design, response, len(design) * level)


def _evenness(index: np.ndarray, squares: np.ndarray) -> float:
    """Median over mean of what is left of y in ten parts of the index, 1 where chance can make the difference."""
    parts = np.array_split(squares[np.argsort(index)], _PARTS)
    means = np.array([part.mean() for part in parts])
    mean, size = float(squares.mean()), index.size / _PARTS
    # of the median of ten means of squares of normal numbers, with its bias
    chance = 1.25 * math.sqrt(2 / size / _PARTS)
    ratio = float(np.median(means)) / max(mean, _TINY) + 2 / (3 * size)
    return ratio if ratio < 1 - _UNEVEN * chance else 1.0


def _variance_given_index(link: Link, cosine: float) -> float:
    """E Var(g | s) for an index s of that cosine."""
    whole = normal_averages("link", link, 0.0, 1.0)
    points, masses = normal_nodes(HIDDEN_NODES)
    given = normal_averages("link", link, cosine * points, width(cosine)).mean
    return max(float(whole.mean**2 + whole.linear**2 + whole.rest - masses @ given**2), 0.0)
