"""Damped Gauss-Newton steps for the direction of one index, the link being fitted anew at every trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.estimators.index.links import LinkFit

Smoother = Callable[[np.ndarray, np.ndarray], LinkFit]

_TRIES = 4
_FIRST_DAMPING = 1.0
_LEAST_DAMPING = 1e-6
_SETTLED = 1e-4
_FREE_LENGTH = 1e-6
_LEAST_REST = 1e-3


class Refined(NamedTuple):
    direction: np.ndarray
    """Unit vector."""
    fit: LinkFit
    objective: float
    """GCV of the link at the direction, plus the penalty."""


def unit(vector: np.ndarray) -> np.ndarray:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 0 else vector


def refine(
    rows: np.ndarray,
    labels: np.ndarray,
    direction: np.ndarray,
    smoother: Smoother,
    steps: int,
    *,
    penalty: float = 0.0,
    center: np.ndarray | None = None,
    settled: float = _SETTLED,
) -> Refined:
    """Minimise min_g mean (y - g(z.w))^2 over unit vectors w by Gauss-Newton with variable projection.

    With s = g'(z.w), B the basis of the link, and P its smoother, the step solves

        (J^T J / n + (damping + penalty) I) step = J^T (y - g) / n - penalty (w - center),    J = (1 - P) diag(s) Z,

    Kaufman's (1975) approximation, in which the link follows the direction. Damping is relative to tr J^T J / d and
    falls by 4 after a step that lowers the GCV (plus penalty |w - center|^2), else it grows by 4. `penalty` is in units
    of tr J^T J / (n d) as well; `center`, by default the start, holds the direction where rows are few.
    """
    n, d = rows.shape
    direction = unit(direction)
    center = direction if center is None else center
    index = rows @ direction
    fit = smoother(index, labels)
    damping, held = _FIRST_DAMPING, 0.0

    def objective(found: LinkFit, w: np.ndarray) -> float:
        return found.gcv() + held * float(np.sum((w - center) ** 2))

    for step in range(steps):
        slopes = fit.link.slope(index)
        scaled = rows * slopes[:, None]
        cross = fit.basis.T @ scaled
        gram = (scaled.T @ scaled - cross.T @ fit.inverse @ cross) / n
        level = float(np.trace(gram)) / d
        if not level > 0:
            break
        if step == 0:
            # fixed, so that all trials are judged by one objective
            held = penalty * level
        residual = labels - fit.values
        force = (scaled.T @ residual - cross.T @ (fit.inverse @ (fit.basis.T @ residual))) / n
        force -= held * (direction - center)
        now = objective(fit, direction)
        for _ in range(_TRIES):
            change = np.linalg.solve(gram + (damping * level + held) * np.eye(d), force)
            trial = unit(direction + change)
            trial_index = rows @ trial
            trial_fit = smoother(trial_index, labels)
            if objective(trial_fit, trial) < now:
                break
            damping *= 4
        else:
            break
        moved = float(np.sum((trial - direction) ** 2))
        direction, index, fit = trial, trial_index, trial_fit
        damping = max(damping / 4, _LEAST_DAMPING)
        if moved < settled**2:
            break
    return Refined(direction, fit, objective(fit, direction))


def left_out_error(rows: np.ndarray, labels: np.ndarray, direction: np.ndarray, fit: LinkFit) -> float:
    """Mean squared error of every row predicted from the others, direction and link both fitted, to first order.

    The residual is divided by 1 - h_i, with P the smoother, s the slopes and J = diag(s) Z,

        h = diag(P + (1 - P) J (J^T (1 - P) J)^-1 J^T (1 - P)).

    Rows on a steep part of the link have h near 1, where the first order says too much: predictions are clipped to the
    range of the labels.
    """
    scaled = rows * fit.link.slope(rows @ direction)[:, None]
    cross = fit.basis.T @ scaled
    rest = scaled - fit.basis @ (fit.inverse @ cross)
    gram = scaled.T @ rest
    leverage = np.einsum("ij,ij->i", fit.basis @ fit.inverse, fit.basis)
    # the length of the direction is free, so one eigenvalue is about 0
    leverage += np.einsum(
        "ij,ij->i", rest @ np.linalg.pinv((gram + gram.T) / 2, rcond=_FREE_LENGTH, hermitian=True), rest
    )
    residual = (labels - fit.values) / np.maximum(1 - leverage, _LEAST_REST)
    predicted = np.clip(labels - residual, labels.min(), labels.max())
    return float(np.mean((labels - predicted) ** 2))
