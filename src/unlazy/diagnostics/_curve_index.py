"""A user's rows as a single-index model: link, noise and dimension, from which a one-step curve is predicted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unlazy.errors import InputError
from unlazy.numerics.gaussian import Piecewise, normal_averages, normal_nodes
from unlazy.theory._single_index import LinkMoments
from unlazy.theory.one_step import best_direction_ridge, preconditioned_cosine

FEWEST_ROWS = 30
_FOLDS = 10
_KNOTS = 16
_HIDDEN_NODES = 20
_TABLE = 200
_SMOOTHINGS = np.logspace(-7, 2, 28)
_LEAST_SIGNAL = 3.0
_LEAST_PENALTY = 1e-9
_REFINEMENTS = 3
_MOST_PAIRED = 2000
_LEAST_STEEPNESS = 1e-6
_ROUNDING = 1e-10
_TINY = 1e-300


class IndexModel(NamedTuple):
    """y = g(x.beta) + noise with x ~ N(0, I_d): what the theory of one step takes."""

    link: Piecewise
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


class _FittedLink(NamedTuple):
    link: Piecewise
    unexplained: float
    """The variance of y that the index does not explain."""
    smoothing: float


def centred_model(link: Piecewise, dimension: float, noise_variance: float) -> IndexModel:
    """The model of a link whose mean is taken off."""
    averages = normal_averages("link", link, 0.0, 1.0)
    centred = _Rescaled(link.value, float(averages.mean), 1.0)
    moments = LinkMoments(float(averages.linear), float(averages.rest))
    return IndexModel(Piecewise(centred, link.breakpoints), moments, float(dimension), float(noise_variance))


def index_evidence(X: np.ndarray, y: np.ndarray, folds: np.ndarray, smoothing: float | None = None) -> IndexEvidence:
    """Link and noise of rows X (n, d), y (n,), or a refusal where y has no linear correlation with X.

    With whitened rows, b1^2 = (|X^T y / n|^2 - d var(y)/n) / (1 - d/n) estimates the squared linear coefficient of the
    link, and the first term has the standard deviation sqrt(2 d (1 - d/n)) var(y) / n where there is no signal. The
    index s is that of a direction fitted to the other folds: least squares, whose cosine with beta follows from b1^2
    and var(y), or its refinement by the link, whichever leaves less of y. E[y | s] = E_h g(cosine s +
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
    energy, chance, spread = _linear_energy(rows, targets, whitened)
    signal = (energy - chance) / spread
    if not signal >= _LEAST_SIGNAL:
        raise InputError(
            f"y must have a linear correlation with X for kernel='one-step', whose first step sees nothing else: it is "
            f"{signal:.1f} standard deviations of what chance gives, at least {_LEAST_SIGNAL:g} are needed (even "
            "targets have none)"
        )
    share = min((energy - chance) / (1 - d / (n - 1) if whitened else 1.0), 1 - _ROUNDING)
    linear = LinkMoments(math.sqrt(share), 0.0)
    kept = n - n / np.unique(folds).size
    # whitening makes every ridge direction that of least squares
    ridge = (
        _LEAST_PENALTY if whitened else max(float(best_direction_ridge(linear, kept / d, 1 - share)), _LEAST_PENALTY)
    )
    cosine = float(preconditioned_cosine(linear, kept / d, 1 - share, ridge))
    index = _out_of_fold_index(rows, targets, folds, ridge, 0, smoothing)
    plain = _fitted_link(index, targets, cosine, smoothing)
    link, chosen = plain.link, plain.smoothing
    noise = max(plain.unexplained - _variance_given_index(link, cosine), 0.0)
    if whitened:
        refined = _out_of_fold_index(rows, targets, folds, ridge, _REFINEMENTS, smoothing)
        other = _fitted_link(refined, targets, 1.0, smoothing)
        if other.unexplained < plain.unexplained:
            index, link, chosen = refined, other.link, other.smoothing
            # least squares spends d of its rows on the direction, and the error in it is the rest of what is left of y
            noise = other.unexplained * (1 - d / kept)
            cosine = math.sqrt(max(1 - (other.unexplained - noise) / float(np.mean(link.slope(index) ** 2)), 0.0))
    averages = normal_averages("link", link, 0.0, 1.0)
    model = centred_model(Piecewise(_Rescaled(link.value, 0.0, unit)), d, unit**2 * noise)
    ratio = float(averages.linear**2 + averages.rest) + noise
    other_signal = _quadratic_signal(rows, targets - link(index)) if smoothing is None else math.nan
    return IndexEvidence(model, float(signal), cosine, index, whitened, ratio, chosen, isotropy, other_signal)


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
    varying = deviation > _ROUNDING
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
    return math.sqrt(n) * left[:, singular > _ROUNDING * singular[0]], True, isotropy


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


def _linear_energy(rows: np.ndarray, targets: np.ndarray, whitened: bool) -> tuple[float, float, float]:
    """|X^T y / n|^2, its mean and its standard deviation for targets that know nothing of the rows."""
    n, d = rows.shape
    energy = float(np.sum((rows.T @ targets / n) ** 2))
    if whitened:
        freedom = d / (n - 1)
        return energy, freedom, math.sqrt(2 * d * max(1 - freedom, 1 / n)) / n
    gram = rows @ rows.T
    norms = np.diagonal(gram)
    chance = float(targets**2 @ norms) / n**2
    return energy, chance, math.sqrt(2 * (np.sum(gram**2) - np.sum(norms**2))) / n**2


def _out_of_fold_index(
    rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, ridge: float, refinements: int, smoothing: float | None
) -> np.ndarray:
    """x.v with v = (X^T X / n + ridge)^-1 X^T y of the other folds, standardised.

    A refinement is a Gauss-Newton step of |y - g(X v)|^2 in v for the spline g of the v before.
    """
    index = np.empty(len(rows))
    for fold in np.unique(folds):
        held = folds == fold
        kept, labels = rows[~held], targets[~held]
        direction = _ridge_direction(kept, labels, ridge)
        for _ in range(refinements):
            direction = direction / max(float(np.std(kept @ direction)), _TINY)
            fitted = kept @ direction
            link = _fitted_link(fitted, labels, 1.0, smoothing).link
            steepness = link.slope(fitted)
            level = max(_LEAST_STEEPNESS * float(np.mean(steepness**2)), _TINY)
            direction = direction + _ridge_direction(steepness[:, None] * kept, labels - link(fitted), level)
        index[held] = rows[held] @ (direction / max(float(np.linalg.norm(direction)), _TINY))
    return (index - index.mean()) / max(float(np.std(index)), _TINY)


def _ridge_direction(rows: np.ndarray, targets: np.ndarray, ridge: float) -> np.ndarray:
    n, d = rows.shape
    if d <= n:
        return np.linalg.solve(rows.T @ rows + n * ridge * np.eye(d), rows.T @ targets)
    return rows.T @ np.linalg.solve(rows @ rows.T + n * ridge * np.eye(n), targets)


def _fitted_link(index: np.ndarray, targets: np.ndarray, cosine: float, smoothing: float | None) -> _FittedLink:
    """The natural spline g whose mean given the index fits the targets."""
    from scipy.interpolate import CubicSpline

    n = index.size
    knots = np.unique(np.quantile(index, np.linspace(0, 1, _KNOTS)))
    basis = _NaturalSpline(knots, np.eye(knots.size))
    if cosine < 1:
        hidden, weights = normal_nodes(_HIDDEN_NODES)
        table = np.linspace(knots[0], knots[-1], _TABLE)
        averaged = np.einsum("h,shk->sk", weights, basis(cosine * table[:, None] + _width(cosine) * hidden))
        design = CubicSpline(table, averaged)(index)
    else:
        design = basis(index)

    gaps, bend = np.diff(knots), CubicSpline(knots, np.eye(knots.size), bc_type="natural")(knots, 2)
    penalty = sum(
        gap / 6 * (np.outer(a, a) + np.outer(b, b) + np.outer(a + b, a + b))
        for gap, a, b in zip(gaps, bend[:-1], bend[1:], strict=True)
    )
    gram, moment = design.T @ design / n, design.T @ targets / n
    energy = float(np.mean(targets**2))
    best = (math.inf, moment, 0.0, 0.0)
    for level in _SMOOTHINGS if smoothing is None else (smoothing,):
        matrix = gram + level * penalty + _ROUNDING * np.trace(gram) * np.eye(knots.size)
        solved = np.linalg.solve(matrix, np.column_stack([moment, gram]))
        solution, freedom = solved[:, 0], np.trace(solved[:, 1:])
        residual = max(energy - 2 * float(solution @ moment) + float(solution @ gram @ solution), 0.0)
        free = max(1 - freedom / n, 1 / n)
        if residual / free**2 < best[0]:
            best = (residual / free**2, solution, residual / free, level)
    _, coefficients, unexplained, chosen = best
    return _FittedLink(Piecewise(_NaturalSpline(knots, coefficients)), unexplained, float(chosen))


def _variance_given_index(link: Piecewise, cosine: float) -> float:
    """E Var(g | s) for an index s of that cosine."""
    whole = normal_averages("link", link, 0.0, 1.0)
    points, masses = normal_nodes(_HIDDEN_NODES)
    given = normal_averages("link", link, cosine * points, _width(cosine)).mean
    return max(float(whole.mean**2 + whole.linear**2 + whole.rest - masses @ given**2), 0.0)


def _width(cosine: float) -> float:
    return math.sqrt(max((1 - cosine) * (1 + cosine), 0.0))


class _NaturalSpline:
    """The natural cubic spline through values at the knots, straight beyond them; values may have a second axis."""

    def __init__(self, knots: np.ndarray, values: np.ndarray):
        from scipy.interpolate import CubicSpline

        self._knots, self._spline = knots, CubicSpline(knots, values, bc_type="natural")
        self._first, self._last = self._spline(knots[0], 1), self._spline(knots[-1], 1)

    def __call__(self, x: Any) -> np.ndarray:
        x, (low, high) = np.asarray(x, dtype=np.float64), (self._knots[0], self._knots[-1])
        below = np.multiply.outer(np.minimum(x - low, 0.0), self._first)
        return self._spline(np.clip(x, low, high)) + below + np.multiply.outer(np.maximum(x - high, 0.0), self._last)


@dataclass(frozen=True)
class _Rescaled:
    """scale (f(x) - mean)."""

    function: Callable[[Any], Any]
    mean: float
    scale: float

    def __call__(self, x: Any) -> Any:
        return self.scale * (self.function(x) - self.mean)
