"""The project's root finder: elementwise, bracketed, for one positive unknown on a logarithmic scale.

A fixed point x = T(x) of a map that grows slower than x is the root of the increasing function log x - log
T(x).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_WIDTH = 2 * np.finfo(np.float64).eps


class ConvergenceError(ArithmeticError):
    """A numerical method did not reach its tolerance, so there is no number to return."""


def increasing_root(
    function: Callable[..., np.ndarray],
    low: ArrayLike,
    high: ArrayLike,
    *args: ArrayLike,
    max_iterations: int = 200,
) -> np.ndarray:
    """The root x in [low, high], 0 < low <= high, of an increasing function, elementwise.

    Inverse quadratic interpolation in log x wherever it is safe, bisection of the logarithmic bracket
    elsewhere, until the bracket is a few units in the last place wide: about ten evaluations for smooth
    functions (Chandrupatla 1997).

    `function(x, *args)` receives the elements still open as one-dimensional arrays: `low`, `high` and
    `args` are broadcast together, and converged elements drop out. Its values may be infinite but not NaN.
    A bracket without a change of sign, a NaN or too many iterations raise `ConvergenceError`.
    """
    broadcast = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (low, high, *args)))
    shape = broadcast[0].shape
    x1, x2, *parameters = (a.reshape(-1) for a in broadcast)
    f1, f2 = function(x1, *parameters), function(x2, *parameters)
    valid = (x1 > 0) & (x1 <= x2) & (f1 <= 0) & (f2 >= 0)
    _require(valid, "a bracket needs 0 < low <= high and f(low) <= 0 <= f(high)", x1, x2, f1, f2)

    root = np.where(f1 == 0, x1, x2)
    active = np.flatnonzero((f1 != 0) & (f2 != 0))
    x1, x2, f1, f2 = x1[active], x2[active], f1[active], f2[active]
    step = np.full(active.size, 0.5)
    for _ in range(max_iterations):
        if active.size == 0:
            return root.reshape(shape)
        x = x1 * np.exp(step * _log_ratio(x2, x1))
        f = function(x, *(p[active] for p in parameters))
        _require(~np.isnan(f), "the function is NaN inside its bracket", x1, x2, f1, f2)
        exhausted = (x == x1) | (x == x2)
        same = np.sign(f) == np.sign(f1)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        x1, f1 = x, f

        width = np.abs(_log_ratio(x2, x1))
        done = (width <= 2 * _WIDTH) | (f1 == 0) | exhausted
        root[active[done]] = np.where(np.abs(f1) <= np.abs(f2), x1, x2)[done]
        step = _interpolation_step(x1, x2, x3, f1, f2, f3, width)
        active, x1, x2, f1, f2, step = (a[~done] for a in (active, x1, x2, f1, f2, step))
    _require(active < 0, f"no convergence in {max_iterations} iterations", x1, x2, f1, f2)
    return root.reshape(shape)


def _interpolation_step(
    x1: np.ndarray,
    x2: np.ndarray,
    x3: np.ndarray,
    f1: np.ndarray,
    f2: np.ndarray,
    f3: np.ndarray,
    width: np.ndarray,
) -> np.ndarray:
    """The next trial point as a fraction of the logarithmic way from x1 to x2."""
    with np.errstate(all="ignore"):
        span = _log_ratio(x3, x2)
        position, value = _log_ratio(x1, x2) / span, (f1 - f2) / (f3 - f2)
        safe = (value**2 < position) & ((1 - value) ** 2 < 1 - position)
        quadratic = f1 / (f2 - f1) * f3 / (f2 - f3)
        quadratic += _log_ratio(x3, x1) / _log_ratio(x2, x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        step = np.where(safe & np.isfinite(quadratic), quadratic, 0.5)
        least = np.minimum(_WIDTH / width, 0.5)
        return np.clip(step, least, 1 - least)


def _log_ratio(x: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """log(x / reference), accurate also where the two nearly agree or their quotient overflows."""
    near = np.abs(x - reference) < 0.5 * reference
    difference = np.where(near, x - reference, 0.0)
    return np.where(near, np.log1p(difference / reference), np.log(x) - np.log(reference))


def _require(holds: np.ndarray, text: str, low: Any, high: Any, f_low: Any, f_high: Any) -> None:
    if holds.all():
        return
    first = np.flatnonzero(~holds)[0]
    raise ConvergenceError(
        f"{text}: {np.count_nonzero(~holds)} of {holds.size} elements, the first with "
        f"f({low[first]:.17g}) = {f_low[first]:g}, f({high[first]:.17g}) = {f_high[first]:g}"
    )
