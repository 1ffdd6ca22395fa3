"""Ridge regression on a user's own rows: which ridge, how good, in which regime, and what more rows would bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_flag
from unlazy.data.encoding import encode_table
from unlazy.diagnostics.curves import checked_n
from unlazy.diagnostics.ridge import pages
from unlazy.diagnostics.ridge.evidence import (
    Evidence,
    RidgeForecast,
    Slope,
    decompose_rows,
    forecasts,
    isotropic_squares,
    spectrum_slope,
    with_intercept,
)
from unlazy.numerics.ridge import RidgeDecomposition, ridge_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST_ENTRY = 1e100
_LARGEST_RIDGE = 1e200
_SMALLEST_SIZE = 10
# two rows with an intercept have one left-out residual up to its sign: no scatter, no regime, no forecast
_FEWEST_ROWS = 3
# of fewer rows equal columns show every shape of spectrum by chance
_REGIME_ROWS = 10
_PATH_ENTRIES = 4_000_000
# distances from the boundaries of the regimes below which an estimated exponent decides nothing
_EXPONENT_MARGIN = 0.1
_BOUNDARY_MARGIN = 0.15
_MOST_SCATTER = 0.3


@dataclass(frozen=True)
class RidgeReport:
    """What `ridge_report` found. Errors are mean squares, averaged over the targets; arrays run along `ridge`."""

    n: int
    d: int
    """Columns of X that vary."""
    tasks: int
    """Columns of Y."""
    ridge: np.ndarray
    """The path, ascending."""
    gcv: np.ndarray
    loo_error: np.ndarray
    training_error: np.ndarray
    degrees_of_freedom: np.ndarray
    """The trace of the hat matrix, the intercept included."""
    effective_ridge: np.ndarray
    """kappa = 1 / tr G, the ridge of the population problem that these rows behave like."""
    chosen: int
    """The index of the least GCV."""
    chosen_where: str
    """'inside' the path, or at its 'smallest' or 'largest' ridge."""
    ridgeless_effective_ridge: float
    """kappa at ridge 0; 0 if the rows outnumber the rank of X."""
    noise_amplification: float
    """df2 / (n - df2) at ridge 0: the label noise in the predictions of the least-squares fit, per unit of noise."""
    target_variance: float
    noise_variance: float
    """The noise variance if `noise_is_identified`, else an upper estimate: noise and the signal out of sight."""
    noise_standard_error: float
    noise_is_identified: bool
    spectrum: np.ndarray
    """Estimated eigenvalues of the covariance above the effective ridge at ridge 0, descending."""
    spectrum_exponent: float | None
    """a of l_j ~ j^-a in `spectrum`, None if fewer than 4 directions stand out."""
    regime: str
    """'kernel', 'benign', 'harmful' or 'undecided'; see `theory.regression.benign_overfitting.overfitting_regime`."""
    reason: str
    """Why this regime."""
    forecast: RidgeForecast

    @property
    def chosen_ridge(self) -> float:
        return float(self.ridge[self.chosen])

    @property
    def disagreement(self) -> float:
        """Leave-one-out error over GCV at the chosen ridge, minus 1: far from 0 for rows of unequal leverage."""
        return float(self.loo_error[self.chosen] / self.gcv[self.chosen] - 1) if self.gcv[self.chosen] else 0.0

    @property
    def signal_variance(self) -> float:
        """What is left of the variance of Y: the signal, or a lower estimate if the noise is not identified."""
        return max(self.target_variance - self.noise_variance, 0.0)

    def __str__(self) -> str:
        return pages.text(self)

    def figure(self) -> Figure:
        """Errors against ridge, the spectrum with its regime, and the forecast."""
        return pages.figure_of(self)


def ridge_report(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    ridge: ArrayLike | None = None,
    unlabelled: ArrayLike | None = None,
    n: ArrayLike | None = None,
    fit_intercept: bool = True,
) -> RidgeReport:
    """What N >= 3 rows X (N, d) and targets Y (N,) or (N, m) say about ridge regression, without a test set.

    The fit minimises (1/N)|y - X b - intercept|^2 + ridge |b|^2 (no intercept if not `fit_intercept`); GCV,
    leave-one-out error and degrees of freedom come from one decomposition. `ridge` (sorted in the report) defaults to 0
    and 60 values on a logarithmic scale around the spectrum. A DataFrame with text, dates or gaps is
    encoded by `TableEncoder`, which standardises its columns.

    The forecast for `n` rows (at least 10; by default N/4, ..., 4N) needs neither the covariance nor a model of the
    target. With G = (X X^T + N ridge)^-1 the effective ridge kappa = 1 / tr G and df2 = N - (tr G)^2 / tr G^2 depend on
    one another but not on N, and

        test error(n, kappa) = leave-one-out error(N, kappa) (1 - df2/N) / (1 - df2/n).

    N rows show kappa down to its value at ridge 0: of n > N rows with a smaller best ridge they give an upper bound.
    The same limit is why the noise is identified only if the rows outnumber the rank; else its estimate
    |G y|^2 / tr G^2 at ridge 0 is noise plus the signal that N rows cannot see.

    The regime compares the decay of the covariance's eigenvalues with d; `unlabelled` rows (k, d) sharpen that, and
    nothing else. Exact in the limit of `theory.regression.ridge.ridge_equivalent`, for independent rows; relative error
    O(1/N) besides the sampling error, about sqrt(2 / (N m)) for m independent targets. Sources: Golub, Heath & Wahba
    (1979); Patil, Wei, Rinaldo & Tibshirani (2021); Bartlett, Long, Lugosi & Tsigler (2020).
    """
    centre = check_flag("fit_intercept", fit_intercept)
    X, encoder = encode_table(X)
    design, targets = _rows("X", X), check_array("Y", Y, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY)
    count = len(design)
    if count < _FEWEST_ROWS:
        raise InputError(f"X must have at least {_FEWEST_ROWS} rows, got shape {design.shape}")
    if targets.ndim not in (1, 2) or len(targets) != count:
        raise InputError(
            f"Y must have shape ({count},) or ({count}, targets) like the {count} rows of X, got shape {targets.shape}"
        )
    columns = targets.reshape(count, -1)
    still = np.flatnonzero(np.ptp(columns, axis=0) == 0 if centre else ~columns.any(axis=0))
    if still.size:
        raise InputError(f"Y must vary in every column, got the constant column {still[0]}")
    rows_at_hand = _sizes(n, count)

    design, columns = _centred("X", design, centre), _centred("Y", columns, centre)
    rows = count - centre
    decomposition, left = decompose_rows(design, centre)
    squares = decomposition.squares
    energies = np.mean((left.T @ columns) ** 2, axis=1)
    outside = np.mean(np.sum((columns - left @ (left.T @ columns)) ** 2, axis=0)) if squares.size < rows else 0.0
    evidence = Evidence(rows, squares, energies, float(outside))

    levels = _path_ridges(squares, count) if ridge is None else _ridges(ridge)
    reduced = RidgeDecomposition(left * np.sqrt(squares), squares, np.eye(squares.size), left)
    if centre:
        reduced = with_intercept(squares, left, count * float(levels.max()))
    path = _path(reduced, columns, levels)
    gcv, loo_error = path.gcv, path.loo_error
    chosen = int(np.argmin(gcv))
    where = "smallest" if chosen == 0 else "largest" if chosen == levels.size - 1 else "inside"

    at_zero = evidence.levels(np.zeros(()))
    threshold = float(at_zero.effective_ridge)
    all_squares, all_rows = squares, rows
    if unlabelled is not None:
        unlabelled = unlabelled if encoder is None else encoder.transform(unlabelled)
        both = np.vstack([np.asarray(X, dtype=np.float64), _rows("unlabelled", unlabelled, design.shape[1])])
        all_squares = decompose_rows(_centred("X", both, centre), centre)[0].squares
        all_rows = len(both) - centre
    slope = spectrum_slope(all_squares, all_rows, threshold)
    varying = int(np.count_nonzero(design.any(axis=0)))
    amplification = float(at_zero.df2 / (rows - at_zero.df2)) if at_zero.df2 < rows else np.inf
    # equal columns look like a decaying spectrum, too
    plain = isotropic_squares(all_rows, varying)
    lift = 1 / np.sum(1 / plain) if plain.size == all_rows else 0.0
    spread = spectrum_slope(plain, all_rows, lift).exponent or 0.0
    regime, reason = _regime(slope, spread, count, varying, evidence.interpolates, threshold, amplification)
    independent = float(path.independent_targets[chosen])

    def left_out(penalties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = _path(reduced, columns, penalties / count)
        return found.loo_error, found.loo_standard_error

    return RidgeReport(
        n=count,
        d=varying,
        tasks=columns.shape[1],
        ridge=levels,
        gcv=gcv,
        loo_error=loo_error,
        training_error=path.training_error,
        degrees_of_freedom=path.degrees_of_freedom,
        effective_ridge=evidence.levels(count * levels).effective_ridge,
        chosen=chosen,
        chosen_where=where,
        ridgeless_effective_ridge=threshold,
        noise_amplification=amplification,
        target_variance=float(np.sum(columns**2) / rows / columns.shape[1]),
        noise_variance=float(at_zero.residual_level),
        noise_standard_error=float(at_zero.residual_level * np.sqrt(2 / (independent * at_zero.terms))),
        noise_is_identified=not evidence.interpolates,
        spectrum=slope.eigenvalues,
        spectrum_exponent=slope.exponent,
        regime=regime,
        reason=reason,
        forecast=forecasts(evidence, rows_at_hand, centre, left_out),
    )


class _PathMeans(NamedTuple):
    """Means over the targets, by ridge."""

    gcv: np.ndarray
    loo_error: np.ndarray
    loo_standard_error: np.ndarray
    training_error: np.ndarray
    degrees_of_freedom: np.ndarray
    independent_targets: np.ndarray
    """(tr C)^2 / tr C^2 for the covariance C of the residuals of the targets."""


def _path(reduced: RidgeDecomposition, columns: np.ndarray, ridges: np.ndarray) -> _PathMeans:
    """In pieces of bounded memory: a ridge needs some arrays of the size of Y and one Gram matrix of residuals."""
    largest = max(columns.size, min(columns.shape) ** 2)
    pieces = max(1, -(-ridges.size * largest // _PATH_ENTRIES))
    found = []
    for part in np.array_split(ridges, min(pieces, ridges.size)):
        path = ridge_path(reduced, columns, part)
        squares = np.mean(path.loo_residuals**2, axis=2)
        # tr C and tr C^2 are those of R R^T as of R^T R: the smaller one will do
        residuals, turned = path.loo_residuals, np.swapaxes(path.loo_residuals, 1, 2)
        gram = residuals @ turned if len(columns) < columns.shape[1] else turned @ residuals
        traces, norms = np.trace(gram, axis1=1, axis2=2), np.sum(gram**2, axis=(1, 2))
        found.append(
            (
                path.gcv.mean(axis=1),
                squares.mean(axis=1),
                squares.std(axis=1, ddof=1) / np.sqrt(len(columns)),
                np.mean((columns - path.fitted) ** 2, axis=(1, 2)),
                path.degrees_of_freedom,
                np.divide(traces**2, norms, out=np.ones(traces.shape), where=norms > 0),
            )
        )
    return _PathMeans(*(np.concatenate(field) for field in zip(*found, strict=True)))


def _regime(
    slope: Slope, spread: float, n: int, d: int, interpolates: bool, threshold: float, amplification: float
) -> tuple[str, str]:
    """The label and the sentence that argues for it."""
    from unlazy.theory.regression.benign_overfitting import overfitting_regime

    if not interpolates:
        return "undecided", f"{d} columns do not interpolate {n} rows, so there is no overfitting to classify"
    if n < _REGIME_ROWS:
        return "undecided", f"{n} rows show too little of the spectrum, {_REGIME_ROWS} are the fewest"
    if slope.directions == 0:
        return "harmful", f"no eigenvalue exceeds the ridge of {threshold:.3g} that the tail of the spectrum amounts to"
    if slope.exponent is None:
        return "undecided", f"only {slope.directions} eigenvalue(s) stand out of the tail, too few for a rate of decay"
    exponent, gamma = max(slope.exponent, 0.0), np.log(d) / np.log(n)
    shape = f"eigenvalues fall like j^-{exponent:.2f} over {slope.directions} directions and d = n^{gamma:.2f}"
    if exponent < spread + _EXPONENT_MARGIN + n**-0.5:
        return "undecided", f"{shape}, hardly more than those of equal, independent columns would (j^-{spread:.2f})"
    if slope.scatter > _MOST_SCATTER:
        return "undecided", f"the eigenvalues are no power law (scatter {slope.scatter:.2f} of log l_j about its line)"
    if abs(exponent - 1) < _EXPONENT_MARGIN or (exponent < 1 and abs(gamma * (1 - exponent) - 1) < _BOUNDARY_MARGIN):
        return "undecided", f"{shape}, too near a boundary between regimes"
    label = str(overfitting_regime(exponent, gamma)) if gamma > 1 else "undecided"
    why = {
        "kernel": f"faster than 1/j: without a ridge {amplification:.0%} of the noise is learned however many rows",
        "benign": f"the tail is spread thinly: without a ridge {amplification:.0%} of the noise is learned, ever less",
        "harmful": "the tail outweighs what is to be learned and acts as a ridge that no choice removes",
        "undecided": "there is no overfitting to classify",
    }
    return label, f"{shape}; {why[label]}"


def _path_ridges(squares: np.ndarray, n: int) -> np.ndarray:
    lowest = 1e-3 * max(squares[-1], 1e-10 * squares[0]) / n
    return np.append(0.0, np.geomspace(lowest, 10 * squares.sum() / n, 60))


def _ridges(ridge: ArrayLike) -> np.ndarray:
    levels = np.atleast_1d(check_array("ridge", ridge, low=0, high=_LARGEST_RIDGE))
    if levels.ndim != 1:
        raise InputError(f"ridge must have at most 1 dimension, got shape {levels.shape}")
    return np.unique(levels)


def _sizes(n: ArrayLike | None, count: int) -> np.ndarray:
    if n is None:
        return np.unique(np.maximum(count * np.array([1, 2, 4, 8, 16]) // 4, _SMALLEST_SIZE))
    return checked_n(n, _SMALLEST_SIZE)


def _rows(name: str, value: ArrayLike, d: int | None = None) -> np.ndarray:
    rows = check_array(name, value, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY, ndim=2)
    if d is not None and rows.shape[1] != d:
        raise InputError(f"{name} must have {d} columns like X, got shape {rows.shape}")
    return rows


def _centred(name: str, rows: np.ndarray, centre: bool) -> np.ndarray:
    """The rows minus their mean, exactly 0 in constant columns."""
    found = np.where(np.ptp(rows, axis=0) > 0, rows - rows.mean(axis=0), 0.0) if centre else rows
    largest = np.abs(found).max()
    if largest < 1 / _LARGEST_ENTRY:
        raise InputError(f"{name} must have a column that varies by more than 1e-100, got at most {largest:g}")
    return found
