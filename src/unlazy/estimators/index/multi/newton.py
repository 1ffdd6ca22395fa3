"""Damped Gauss-Newton steps for several directions at once, the function of their indices being fitted anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from unlazy.estimators.index.search import effective_rows, null_error

_TRIES = 4
_FIRST_DAMPING = 1.0
_LEAST_DAMPING = 1e-6
_SETTLED = 1e-4
_FREEDOM_COST = 1.4
_CERTAIN = 0.25
_FEWEST_FREE = 30
_ARCSINH = 1.5
# numbers in the Jacobian: beyond it directions are refined on a part of the rows
_MOST_NUMBERS = 4e7


class IndexFunction(Protocol):
    """f of indices t (n, k), with its gradient (n, k)."""

    def __call__(self, indices: Any) -> np.ndarray: ...

    def slopes(self, indices: Any) -> np.ndarray: ...


class JointFit(NamedTuple):
    """A function of several indices fitted to labels, and what a Gauss-Newton step needs of it."""

    function: Any
    """An `IndexFunction`."""
    values: np.ndarray
    basis: np.ndarray
    """(n, p), of which f is a combination at the rows."""
    inverse: np.ndarray
    """(p, p): basis @ inverse @ basis^T is the smoother."""
    error: float
    """Mean squared residual."""
    freedom: float
    """Trace of the smoother."""

    def gcv(self, extra: float = 0.0) -> float:
        """error / (1 - freedom/n)^2 with dearer degrees of freedom and `extra` ones."""
        n = len(self.values)
        return self.error / max(1 - (_FREEDOM_COST * self.freedom + extra) / n, 1 / n) ** 2


JointSmoother = Callable[[np.ndarray, np.ndarray], JointFit]


class Joint(NamedTuple):
    directions: np.ndarray
    """(d, k), unit columns."""
    fit: JointFit
    objective: float
    """GCV at the directions, plus the penalty."""


def unit_columns(directions: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(directions, axis=0)
    return directions / np.where(norms > 0, norms, 1.0)


def orthonormal(directions: np.ndarray) -> np.ndarray:
    """The orthonormal columns nearest to these."""
    left, _, right = np.linalg.svd(directions, full_matrices=False)
    return left @ right


def joint_refine(
    rows: np.ndarray,
    labels: np.ndarray,
    directions: np.ndarray,
    smoother: JointSmoother,
    steps: int,
    *,
    retract: Callable[[np.ndarray], np.ndarray] = unit_columns,
    penalty: float = 0.0,
    settled: float = _SETTLED,
) -> Joint:
    """Minimise min_f mean (y - f(W^T z))^2 over W (d, k) by Gauss-Newton with variable projection.

    As `refine` for one index, with J = (1 - P) [diag(df/dt_1) Z, ..., diag(df/dt_k) Z]. Damping and penalty are
    relative to the mean curvature of each direction's own block, so that a term with a flat link moves as freely as one
    with a steep link. Source: Kaufman (1975).
    """
    n, d = rows.shape
    directions = retract(directions)
    start = directions
    k = directions.shape[1]
    indices = rows @ directions
    fit = smoother(indices, labels)
    damping = _FIRST_DAMPING
    held = np.zeros(k)

    def objective(found: JointFit, w: np.ndarray) -> float:
        return found.gcv() + float(held @ np.sum((w - start) ** 2, axis=0))

    for step in range(steps):
        slopes = fit.function.slopes(indices)
        jacobian = (slopes[:, :, None] * rows[:, None, :]).reshape(n, k * d)
        cross = fit.basis.T @ jacobian
        gram = (jacobian.T @ jacobian - cross.T @ fit.inverse @ cross) / n
        levels = np.diag(gram).reshape(k, d).mean(axis=1)
        if not levels.max() > 0:
            break
        levels = np.maximum(levels, 1e-6 * levels.max())
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
            trial = retract(directions + change)
            trial_indices = rows @ trial
            trial_fit = smoother(trial_indices, labels)
            if objective(trial_fit, trial) < now:
                break
            damping *= 4
        else:
            break
        moved = float(np.max(np.sum((trial - directions) ** 2, axis=0)))
        directions, indices, fit = trial, trial_indices, trial_fit
        damping = max(damping / 4, _LEAST_DAMPING)
        if moved < settled**2:
            break
    return Joint(directions, fit, objective(fit, directions))


def is_certain(fit: JointFit, labels: np.ndarray, columns: int) -> bool:
    """Whether a fit leaves less than a quarter of what fits of noise leave, of y and of arcsinh-compressed y.

    The second keeps a few outliers that the fit hits from passing for a signal. If few rows hold the variance even of
    compressed y, as with rare labels, those count, not n.
    """
    low, middle, high = np.quantile(labels, [0.25, 0.5, 0.75])
    width = high - low if high > low else 1.35 * float(labels.std())
    tamed = np.arcsinh(_ARCSINH * (labels - middle) / width)
    parameters = columns * fit.function.count + fit.freedom
    if labels.size - parameters < _FEWEST_FREE:
        return False
    least = _CERTAIN * null_error(effective_rows(tamed), parameters)
    if not fit.error < least * float(np.var(labels)):
        return False
    error = np.mean((tamed - np.arcsinh(_ARCSINH * (fit.values - middle) / width)) ** 2)
    return bool(error < least * tamed.var())


def most_rows(columns: int, count: int) -> int:
    """The rows on which `count` directions of so many columns are refined."""
    return int(max(_MOST_NUMBERS / (columns * count), 4 * columns * count))
