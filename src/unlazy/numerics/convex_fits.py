"""Exact fits of sum_i loss(y_i, x_i.w + b) + (penalty/2) |w|^2 for the square, logistic and hinge loss, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.numerics.ridge import ridge_coefficients
from unlazy.numerics.roots import ConvergenceError

_NEWTON_STEPS = 60
_DECREMENT = 1e-12
_INTERIOR_STEPS = 80
_GAP = 1e-8
_RESIDUAL = 1e-7


def convex_fit(
    loss: str, design: np.ndarray, labels: np.ndarray, penalty: float, *, fit_intercept: bool = False
) -> tuple[np.ndarray, float]:
    """The weights w and b, which is 0 without `fit_intercept`; one that is not penalised is for the logistic loss only.

    Labels are 1 or -1, any numbers for the square loss. Fewer samples than coordinates are fitted in their span.
    """
    n, d = design.shape
    if fit_intercept and loss != "logistic":
        raise InputError(f"fit_intercept must be false with the {loss} loss, which is fitted without one, got true")
    if loss == "square":
        return ridge_coefficients(design, labels, penalty), 0.0
    basis = None
    if n < d:
        basis, triangle = np.linalg.qr(design.T)
        design = triangle.T
    signed = (np.column_stack([design, np.ones(n)]) if fit_intercept else design) * labels[:, None]
    if loss == "hinge":
        weights, offset = _hinge(signed, penalty), 0.0
    else:
        penalties = np.full(signed.shape[1], float(penalty))
        penalties[min(n, d) :] = 0.0
        found = _logistic(signed, penalties)
        weights, offset = found[: min(n, d)], float(found[-1]) if fit_intercept else 0.0
    return (weights if basis is None else basis @ weights), offset


def _logistic(signed: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Newton's method with the step halved until the objective falls.

    The Hessian is formed in single precision and kept while steps shrink tenfold: the gradient, in double precision,
    decides how exact the answer is.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.special import expit

    coarse = signed.astype(np.float32)
    weights = np.zeros(signed.shape[1])
    margins = np.zeros(len(signed))
    factor, last = None, np.inf

    def objective(margins: np.ndarray, weights: np.ndarray) -> float:
        return float(np.logaddexp(0.0, -margins).sum() + penalty @ weights**2 / 2)

    value = objective(margins, weights)
    for _ in range(_NEWTON_STEPS):
        share = expit(-margins)
        gradient = penalty * weights - signed.T @ share
        if factor is None:
            scaled = coarse * np.sqrt(share * (1 - share)).astype(np.float32)[:, None]
            hessian = scaled.T @ scaled
            hessian[np.diag_indices_from(hessian)] += penalty.astype(np.float32)
            factor = cho_factor(hessian, overwrite_a=True, check_finite=False)
        step = -cho_solve(factor, gradient, check_finite=False)
        decrease = float(-gradient @ step)
        if decrease <= _DECREMENT * len(signed):
            return weights + step
        if decrease > 0.01 * last:
            factor = None
        moved, length = signed @ step, 1.0
        while (new := objective(margins + length * moved, weights + length * step)) > value - 1e-4 * length * decrease:
            length /= 2
            if length < 1e-10:
                raise ConvergenceError(f"the logistic fit stalled: squared Newton decrement {decrease:.3g}")
        if length < 1:
            factor = None
        weights, margins, value, last = weights + length * step, margins + length * moved, new, decrease
    raise ConvergenceError(f"the logistic fit did not converge: squared Newton decrement {decrease:.3g}")


def _hinge(signed: np.ndarray, penalty: float) -> np.ndarray:
    """The dual, max sum_i a_i - |B^T a|^2 / (2 penalty) over 0 <= a <= 1, by Mehrotra's interior-point method.

    w = B^T a / penalty; with below and above the multipliers of the two bounds, B w - 1 - below + above = 0.
    """
    n = len(signed)
    at = _Iterate(np.full(n, 0.5), np.ones(n), np.ones(n))
    for _ in range(_INTERIOR_STEPS):
        weights = signed.T @ at.dual / penalty
        residual = signed @ weights - 1 - at.below + at.above
        gap = at.dual @ at.below + (1 - at.dual) @ at.above
        if gap <= _GAP * n and np.abs(residual).max() <= _RESIDUAL:
            return weights
        direction = _newton_direction(signed, penalty, at, residual)
        move = direction(np.zeros(n), np.zeros(n))
        ahead = _moved(at, move, _longest(at, move))
        after = ahead.dual @ ahead.below + (1 - ahead.dual) @ ahead.above
        centre = (after / gap) ** 3 * gap / (2 * n)
        move = direction(centre - move.dual * move.below, centre + move.dual * move.above)
        at = _moved(at, move, 0.995 * _longest(at, move))
    raise ConvergenceError(f"the hinge fit did not converge: duality gap {gap / n:.3g} per sample")


class _Iterate(NamedTuple):
    dual: np.ndarray
    below: np.ndarray
    above: np.ndarray


def _newton_direction(
    signed: np.ndarray, penalty: float, at: _Iterate, residual: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], _Iterate]:
    """The step to complementarity products `lower` and `upper`, for one factorisation."""
    from scipy.linalg import cho_factor, cho_solve

    dual, below, above = at
    room = 1 - dual
    diagonal = below / dual + above / room
    scaled = signed / np.sqrt(diagonal)[:, None]
    system = scaled.T @ scaled
    system[np.diag_indices_from(system)] += penalty
    factor = cho_factor(system, overwrite_a=True, check_finite=False)

    def direction(lower: np.ndarray, upper: np.ndarray) -> _Iterate:
        right = (-residual + lower / dual - below - upper / room + above) / diagonal
        move = right - (signed @ cho_solve(factor, signed.T @ right)) / diagonal
        return _Iterate(move, lower / dual - below - below * move / dual, upper / room - above + above * move / room)

    return direction


def _moved(at: _Iterate, move: _Iterate, length: float) -> _Iterate:
    return _Iterate(*(value + length * step for value, step in zip(at, move, strict=True)))


def _longest(at: _Iterate, move: _Iterate) -> float:
    """The longest step, at most 1, that keeps 0 <= dual <= 1 and the multipliers non-negative."""
    pairs = ((at.dual, move.dual), (1 - at.dual, -move.dual), (at.below, move.below), (at.above, move.above))
    return min(_reach(value, step) for value, step in pairs)


def _reach(values: np.ndarray, step: np.ndarray) -> float:
    """The longest step, at most 1, that keeps the values non-negative."""
    falling = step < 0
    return min(1.0, float((-values[falling] / step[falling]).min(initial=1.0)))
