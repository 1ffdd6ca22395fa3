"""Damped Gauss-Newton steps for one or several directions, the function of their indices being fitted at every trial.

One direction is a vector w (d,) with the index Z w (n,), several are the columns of W (d, k) with indices Z W (n, k).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

FREEDOM_COST = 1.4
"""Of a degree of freedom in generalised cross-validation: above 1 it smooths a little more, and fails less often."""
# how often a step is tried again with more damping before the search ends
_TRIES = 4
# in units of the mean curvature: the first step goes about half as far as an undamped one
_FIRST_DAMPING = 1.0
_LEAST_DAMPING = 1e-6
# by which damping grows after a step that fails, and falls after one that does not
_DAMPING_FACTOR = 4
# the curvature of a direction whose function is flat, in units of the largest, so that it does not run away
_LEAST_CURVATURE = 1e-6
# a step of this length ends the search
_SETTLED = 1e-4
# share of the largest eigenvalue below which a change of the direction's length, which changes nothing, is recognised
_FREE_LENGTH = 1e-6
# of 1 - leverage: beyond it the first order says nothing of the row
_LEAST_REST = 1e-3
# leverage beyond which a row says nothing of the choice between functions
_LARGEST_LEVERAGE = 0.999
# numbers in the Jacobian beyond which directions are refined on a part of the rows, of at least so many per parameter
_MOST_NUMBERS = 4e7
_ROWS_PER_PARAMETER = 4
_TINY = 1e-300


class IndexFit(NamedTuple):
    """A function of one or several indices fitted to labels, and what a Gauss-Newton step needs of it."""

    function: Any
    """Of t (n,) with the derivative `slope` (n,), or of t (n, k) with the gradient `slopes` (n, k)."""
    values: np.ndarray
    """At the rows."""
    basis: np.ndarray
    """(n, p), of which the function is a combination at the rows."""
    inverse: np.ndarray
    """(p, p): basis @ inverse @ basis^T is the smoother."""
    error: float
    """Mean squared residual."""
    freedom: float
    """Trace of the smoother."""

    def gcv(self, extra: float = 0.0) -> float:
        """error / (1 - freedom/n)^2 with dearer degrees of freedom and `extra` ones."""
        n = len(self.values)
        return self.error / max(1 - (FREEDOM_COST * self.freedom + extra) / n, 1 / n) ** 2

    def slopes(self, indices: np.ndarray) -> np.ndarray:
        """(n, k), also of one index."""
        return self.function.slope(indices)[:, None] if indices.ndim == 1 else self.function.slopes(indices)

    def leverage(self) -> np.ndarray:
        """The diagonal of the smoother."""
        return np.einsum("ij,ij->i", self.basis @ self.inverse, self.basis)

    def information(self, labels: np.ndarray, spent: float) -> float:
        """(n - spent) log(leave-one-out error) + freedom log n, `spent` for what else has been fitted.

        This is BIC with the leave-one-out error in place of that of the fit. Errors of a direction are multiplied by
        the slope of its link, so the outermost rows of a steep one have the largest residuals; plain BIC spends degrees
        on them that are disastrous beyond.
        """
        n = labels.size
        error = mean_square((labels - self.values) / (1 - np.minimum(self.leverage(), _LARGEST_LEVERAGE)))
        floor = np.finfo(float).eps * float(np.var(labels)) + _TINY
        return float(max(n - spent, 1) * np.log(error + floor) + self.freedom * np.log(n))


class Refined(NamedTuple):
    directions: np.ndarray
    """A unit vector (d,), or unit columns (d, k)."""
    fit: IndexFit
    objective: float
    """GCV at the directions, plus the penalty."""


def unit(directions: np.ndarray) -> np.ndarray:
    """The vector, or every column, with length 1; zeros stay."""
    norms = np.linalg.norm(directions, axis=0 if directions.ndim == 2 else None)
    return directions / np.where(norms > 0, norms, 1.0)


def orthonormal(directions: np.ndarray) -> np.ndarray:
    """The orthonormal columns nearest to these."""
    left, _, right = np.linalg.svd(directions, full_matrices=False)
    return left @ right


def refine(
    rows: np.ndarray,
    labels: np.ndarray,
    directions: np.ndarray,
    smoother: Callable[[np.ndarray, np.ndarray], IndexFit],
    steps: int,
    *,
    retract: Callable[[np.ndarray], np.ndarray] = unit,
    penalty: float = 0.0,
    settled: float = _SETTLED,
) -> Refined:
    """Minimise min_f mean (y - f(Z W))^2 over W by Gauss-Newton with variable projection.

    With B the basis of f, P its smoother and W0 the start, the step solves

        (J^T J / n + damping + penalty) step = J^T (y - f) / n - penalty (W - W0),
        J = (1 - P) [diag(df/dt_1) Z, ..., diag(df/dt_k) Z],

    Kaufman's (1975) approximation, in which f follows the directions. Damping and penalty are relative to the mean
    curvature of each direction's own block, so that a term with a flat link moves as freely as one with a steep link.
    Damping falls after a step that lowers the GCV (plus penalty |W - W0|^2), else it grows. `retract` brings W back to
    where it may be, by default to unit columns; `penalty` holds it near the start where rows are few.
    """
    n, d = rows.shape
    directions = retract(directions)
    start, k = directions, directions.size // d
    indices = rows @ directions
    fit = smoother(indices, labels)
    damping, held = _FIRST_DAMPING, np.zeros(k)

    def objective(found: IndexFit, w: np.ndarray) -> float:
        return found.gcv() + float(np.sum(held * np.sum((w - start) ** 2, axis=0)))

    for step in range(steps):
        jacobian = (fit.slopes(indices)[:, :, None] * rows[:, None, :]).reshape(n, k * d)
        cross = fit.basis.T @ jacobian
        gram = (jacobian.T @ jacobian - cross.T @ fit.inverse @ cross) / n
        levels = np.diag(gram).reshape(k, d).mean(axis=1)
        if not levels.max() > 0:
            break
        levels = np.maximum(levels, _LEAST_CURVATURE * levels.max())
        if step == 0:
            # fixed, so that all trials are judged by one objective
            held = penalty * levels
        residual = labels - fit.values
        force = (jacobian.T @ residual - cross.T @ (fit.inverse @ (fit.basis.T @ residual))) / n
        force -= (held * (directions - start)).T.ravel()
        now = objective(fit, directions)
        for _ in range(_TRIES):
            ridge = np.repeat(damping * levels + held, d)
            change = np.linalg.solve(gram + np.diag(ridge), force).reshape(k, d).T
            trial = retract(directions + change.reshape(directions.shape))
            trial_indices = rows @ trial
            trial_fit = smoother(trial_indices, labels)
            if objective(trial_fit, trial) < now:
                break
            damping *= _DAMPING_FACTOR
        else:
            break
        moved = float(np.max(np.sum((trial - directions) ** 2, axis=0)))
        directions, indices, fit = trial, trial_indices, trial_fit
        damping = max(damping / _DAMPING_FACTOR, _LEAST_DAMPING)
        if moved < settled**2:
            break
    return Refined(directions, fit, objective(fit, directions))


def left_out_error(rows: np.ndarray, labels: np.ndarray, direction: np.ndarray, fit: IndexFit) -> float:
    """Mean squared error of every row predicted from the others, direction and link both fitted, to first order.

    The residual is divided by 1 - h_i, with P the smoother, s the slopes and J = diag(s) Z,

        h = diag(P + (1 - P) J (J^T (1 - P) J)^-1 J^T (1 - P)).

    Rows on a steep part of the link have h near 1, where the first order says too much: predictions are clipped to the
    range of the labels.
    """
    scaled = rows * fit.slopes(rows @ direction)
    cross = fit.basis.T @ scaled
    rest = scaled - fit.basis @ (fit.inverse @ cross)
    gram = scaled.T @ rest
    leverage = fit.leverage()
    # the length of the direction is free, so one eigenvalue is about 0
    leverage += np.einsum(
        "ij,ij->i", rest @ np.linalg.pinv((gram + gram.T) / 2, rcond=_FREE_LENGTH, hermitian=True), rest
    )
    residual = (labels - fit.values) / np.maximum(1 - leverage, _LEAST_REST)
    predicted = np.clip(labels - residual, labels.min(), labels.max())
    return float(np.mean((labels - predicted) ** 2))


def least_squares(basis: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients, and the inverse Gram matrix, through its correlation matrix without directions of rounding errors.

    One step of iterative refinement follows: the columns of heavy-tailed indices are nearly collinear.
    """
    gram = basis.T @ basis
    scale = np.sqrt(np.maximum(np.diag(gram), _TINY))
    inverse = np.linalg.pinv(gram / np.outer(scale, scale), rcond=1e-13, hermitian=True) / np.outer(scale, scale)
    coefficients = inverse @ (basis.T @ labels)
    coefficients += inverse @ (basis.T @ (labels - basis @ coefficients))
    return coefficients, inverse


def mean_square(values: np.ndarray) -> float:
    return float(values @ values) / values.size


def most_rows(columns: int, count: int) -> int:
    """The rows on which `count` directions of so many columns are refined."""
    return int(max(_MOST_NUMBERS / (columns * count), _ROWS_PER_PARAMETER * columns * count))
