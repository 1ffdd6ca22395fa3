"""What n labelled rows say about ridge regression with more or fewer rows, and about their spectrum.

With the rows' Gram matrix K, G = (K + penalty)^-1 and the effective ridge kappa = 1 / tr G,

    df1 = n - penalty tr G,    df2 = n - (tr G)^2 / tr G^2,    residual level A = |G y|^2 / tr G^2

estimate sum l/(l + kappa), sum l^2/(l + kappa)^2 and kappa^2 sum p l/(l + kappa)^2 + noise variance: three functions of
kappa alone, in which nothing remembers n. They follow from n = df1 + penalty/kappa by derivatives in the penalty, and
GCV is A / (1 - df2/n). At another number of rows m the test error at the same kappa is therefore

    A / (1 - df2/m) = (test error with n rows) (1 - df2/n) / (1 - df2/m),    for the penalty kappa (m - df1).

The leave-one-out error stands for the test error with n rows: GCV is too low for rows of unequal leverage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.numerics.ridge import RidgeDecomposition, decompose
from unlazy.numerics.roots import increasing_root

_GRID = 120
_INTERCEPT = 1e30


class Levels(NamedTuple):
    """The three functions of the effective ridge, at several penalties."""

    effective_ridge: np.ndarray
    df1: np.ndarray
    df2: np.ndarray
    residual_level: np.ndarray
    """A, averaged over the targets."""
    terms: np.ndarray
    """(tr G^2)^2 / tr G^4, the number of squares that A is the mean of."""


class Evidence(NamedTuple):
    """Labelled rows in the coordinates of their left singular vectors, the intercept removed."""

    rows: int
    """Rows that carry information: n, or n - 1 with an intercept."""
    squares: np.ndarray
    """Squared singular values, descending."""
    energies: np.ndarray
    """Squared projections of the targets, averaged over targets."""
    outside: float
    """What the targets have outside the range of X."""

    @property
    def interpolates(self) -> bool:
        return self.squares.size == self.rows

    def levels(self, penalties: np.ndarray) -> Levels:
        penalties = np.asarray(penalties, dtype=np.float64)[..., None]
        null = self.rows - self.squares.size
        # G up to the factor that keeps it finite without a penalty
        factor = penalties + (self.squares[-1] if self.interpolates else 0.0)
        weights = factor / (self.squares + penalties)
        trace, square, fourth = (np.sum(weights**power, axis=-1) + null for power in (1, 2, 4))
        return Levels(
            factor[..., 0] / trace,
            np.sum(self.squares / (self.squares + penalties), axis=-1),
            # the rounding of both sides must not make it negative
            np.maximum(self.rows - trace**2 / square, 0.0),
            (weights**2 @ self.energies + self.outside) / square,
            square**2 / fourth,
        )

    def penalty_of(self, freedom: float) -> float:
        """The penalty at which df1 falls to `freedom`, 0 if there is none."""
        if freedom >= self.squares.size:
            return 0.0
        return float(
            increasing_root(
                lambda penalty: freedom - np.sum(self.squares / (self.squares + penalty[:, None]), axis=1),
                # each term of df1 lies between those of the smallest and of the largest square
                0.5 * self.squares[-1] * (self.squares.size / freedom - 1),
                2.0 * self.squares[0] * (self.squares.size / freedom - 1),
            )
        )


class RidgeForecast(NamedTuple):
    """Test errors to expect with other numbers of labelled rows; every field has one entry for each n.

    No `Curve`, because an error here may be a bound, has a standard error, and stands beside that without a ridge.
    """

    n: np.ndarray
    ridge: np.ndarray
    """The best ridge."""
    test_error: np.ndarray
    """There, label noise included."""
    standard_error: np.ndarray
    """Of `test_error`, from the scatter of the leave-one-out residuals over the rows."""
    is_bound: np.ndarray
    """True where a smaller ridge than these rows can speak for may be better still: `test_error` is a bound."""
    ridgeless_test_error: np.ndarray
    """The test error at ridge 0; NaN where no n rows can tell, which is where n > rows <= rank."""


def forecasts(
    evidence: Evidence,
    sizes: np.ndarray,
    intercept: bool,
    errors: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> RidgeForecast:
    """Test errors with other numbers of rows, at the best ridge that the labelled rows can speak for, and at 0.

    `errors` gives the leave-one-out error at several penalties, and its standard error.
    """
    rows = sizes - intercept
    least = np.array([evidence.penalty_of(float(number)) for number in rows])
    squares = evidence.squares
    grid = np.geomspace(1e-4 * squares[-1], 100 * squares.sum(), _GRID)
    penalties = np.unique(np.concatenate([[0.0], least, grid]))
    levels, (error, deviation) = evidence.levels(penalties), errors(penalties)
    level = error * (1 - levels.df2 / evidence.rows) * (evidence.rows / (evidence.rows + intercept))
    found = []
    for n, number, lowest in zip(sizes, rows, least, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            forecast = n / number * level / np.maximum(1 - levels.df2 / number, 0.0)
        forecast[(penalties < lowest) | np.isnan(forecast)] = np.inf
        best, zero = int(np.argmin(forecast)), int(np.searchsorted(penalties, lowest))
        # with more rows the effective ridge may fall below what these rows show
        open_end = evidence.interpolates and number > evidence.rows
        ridge = levels.effective_ridge[best] * max(number - levels.df1[best], 0.0) / n
        found.append(
            (
                ridge if best > zero or open_end else 0.0,
                forecast[best],
                forecast[best] * deviation[best] / error[best],
                open_end and best == zero,
                np.nan if open_end else forecast[zero],
            )
        )
    return RidgeForecast(sizes, *(np.array(field) for field in zip(*found, strict=True)))


class Slope(NamedTuple):
    exponent: float | None
    """a of l_j ~ j^-a, None if fewer than 4 directions stand out."""
    directions: int
    scatter: float
    """Root mean square deviation of log l_j from the line."""
    eigenvalues: np.ndarray
    """Estimates of the largest eigenvalues of the covariance, descending; those above the tail."""
    level: float
    """exp of the line at j = 1."""


def spectrum_slope(squares: np.ndarray, rows: int, threshold: float) -> Slope:
    """The decay of the covariance's eigenvalues above `threshold`, from squared singular values of so many rows.

        l_j = s_j^2 / rows - kappa_0,    kappa_0 = 1 / sum_i s_i^-2 if there are as many s_i as rows, else 0

    The tail of a spectrum lifts all sample eigenvalues by about the effective ridge at ridge 0, kappa_0, so that
    uncorrected ones look flatter than they are. The line is the least-squares one with weight 1/j, which gives
    each octave of j the same say.
    """
    lift = 1 / np.sum(1 / squares) if squares.size == rows else 0.0
    eigenvalues = squares / rows - lift
    eigenvalues = eigenvalues[eigenvalues > max(threshold, lift)]
    count = eigenvalues.size
    if count < 4:
        return Slope(None, count, 0.0, eigenvalues, 0.0)
    index = np.arange(1, count + 1)
    x, y, weights = np.log(index), np.log(eigenvalues), 1 / index / np.sum(1 / index)
    centred = x - weights @ x
    slope = (weights * centred) @ y / ((weights * centred) @ centred)
    scatter = np.sqrt(weights @ (y - weights @ y - slope * centred) ** 2)
    return Slope(float(-slope), count, float(scatter), eigenvalues, float(np.exp(weights @ y - slope * (weights @ x))))


def isotropic_squares(rows: int, d: int) -> np.ndarray:
    """What squared singular values of so many rows of d independent, equal columns look like, descending.

    They are the zeros of a Laguerre polynomial: the eigenvalues of Dumitriu and Edelman's bidiagonal model of a Wishart
    matrix with its chi variables at their root mean squares.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    size, more = min(rows, d), max(rows, d)
    above, beside = np.arange(more, more - size, -1.0), np.arange(size - 1, 0, -1.0)
    diagonal = above + np.append(0.0, beside)
    return eigvalsh_tridiagonal(diagonal, np.sqrt(above[:-1] * beside))[::-1]


def decompose_rows(design: np.ndarray, intercept: bool) -> tuple[RidgeDecomposition, np.ndarray]:
    """Squares (descending) and left singular vectors of X, orthogonal to the constant where there is an intercept."""
    found = decompose(contrasts(design) if intercept else design)
    order = np.argsort(found.squares)[::-1]
    left = found.left if found.left is not None else found.design @ (found.right / np.sqrt(found.squares))
    left = left[:, order]
    if intercept:
        left = _reflect(np.vstack([np.zeros(left.shape[1]), left]))
    return found._replace(squares=found.squares[order]), left


def with_intercept(squares: np.ndarray, left: np.ndarray, largest_penalty: float) -> RidgeDecomposition:
    """The decomposition of the reduced design U diag(s) and an intercept, a direction that no ridge shrinks."""
    n = len(left)
    unshrunk = _INTERCEPT * max(squares[0], largest_penalty)
    squares, left = np.append(squares, unshrunk), np.column_stack([left, np.full(n, n**-0.5)])
    return RidgeDecomposition(left * np.sqrt(squares), squares, np.eye(squares.size), left)


def contrasts(rows: np.ndarray) -> np.ndarray:
    """n - 1 orthonormal combinations of n rows that are orthogonal to their mean (a Householder reflection)."""
    return _reflect(rows)[1:]


def _reflect(rows: np.ndarray) -> np.ndarray:
    """The reflection, its own inverse, that exchanges the constant vector and the first coordinate up to sign."""
    n = len(rows)
    direction = np.full(n, n**-0.5)
    direction[0] += 1.0
    return rows - np.outer(direction, (2 / (direction @ direction)) * (direction @ rows))
