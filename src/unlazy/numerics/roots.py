"""The project's root finders and searches on a line: elementwise, and each keeps a bracket.

    increasing_root   of an increasing function of x > 0, to the last digits over hundreds of decades
    root_between      the same on a linear scale, for x of any sign
    newton_root       of an increasing function with a slope, from a start
    bisect            where a property is lost
    expanded          how far one has to go until something holds, for the end of a bracket
    golden_minimum    of a function with one minimum
    scalar_root, scalar_minimum     of a function of one number: SciPy's, which is faster for one

A fixed point x = T(x) of a map that grows slower than x is the root of the increasing function log x - log
T(x).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_WIDTH = 2 * np.finfo(np.float64).eps
_TINY = 1e-290
_SMALL = 1e-16
_GOLDEN = (math.sqrt(5) - 1) / 2


class ConvergenceError(ArithmeticError):
    """A numerical method did not reach its tolerance, so there is no number to return."""


class _Scale(NamedTuple):
    least: float
    """Numbers must be larger."""
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """How far x is from a reference."""
    between: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    """The place a share of the way from one to another."""
    unit: Callable[[np.ndarray, np.ndarray], Any]
    """What the distance of a place from another is to be known to the last digits of, given the larger first end."""


def increasing_root(
    function: Callable[..., np.ndarray],
    low: ArrayLike,
    high: ArrayLike,
    *args: ArrayLike,
    max_iterations: int = 200,
) -> np.ndarray:
    """The root x in [low, high], 0 < low <= high, of an increasing function, elementwise; SciPy knows no log scale.

    Inverse quadratic interpolation in log x wherever it is safe, bisection of the logarithmic bracket elsewhere, until
    the bracket is a few units in the last place wide: about ten evaluations for smooth functions (Chandrupatla 1997).
    `scipy.optimize.elementwise.find_root` takes 1.1 (1,000 elements) to 4 times as long (30), and time to import.

    `function(x, *args)` receives the elements still open as one-dimensional arrays: `low`, `high` and
    `args` are broadcast together, and converged elements drop out. Its values may be infinite but not NaN.
    A bracket without a change of sign, a NaN or too many iterations raise `ConvergenceError`.
    """
    return _bracketed(_LOGARITHMIC, function, low, high, args, max_iterations)


def root_between(
    function: Callable[..., np.ndarray],
    low: ArrayLike,
    high: ArrayLike,
    *args: ArrayLike,
    max_iterations: int = 200,
) -> np.ndarray:
    """`increasing_root` on a linear scale: low and high may have any sign.

    To the last digits of x, or of 1e-16 of the larger end where x is smaller than that.
    """
    return _bracketed(_LINEAR, function, low, high, args, max_iterations)


def newton_root(
    equation: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    low: np.ndarray,
    high: np.ndarray,
    start: np.ndarray,
    tolerance: float | np.ndarray,
    max_iterations: int = 200,
) -> np.ndarray:
    """The root in [low, high] of an increasing function from `start`, all of shape (k,).

    `equation(x, rows)` gives values and slopes at the elements still open. Newton's step wherever it stays in the
    bracket and is at most half as long as the step before, else bisection: Newton alone may fall into two-cycles. An
    element is frozen once its Newton step or its bracket is at most `tolerance` (1 + |x|), lest rounding errors, which
    do not halve, call for bisection.
    """
    root, low, high = start.astype(float), low.astype(float), high.astype(float)
    tolerance = np.broadcast_to(tolerance, root.shape)
    last = high - low
    active = np.arange(root.size)
    for _ in range(max_iterations):
        if not active.size:
            return root
        x = root[active]
        value, slope = equation(x, active)
        left = low[active] = np.where(value <= 0, x, low[active])
        right = high[active] = np.where(value >= 0, x, high[active])
        step = -value / np.maximum(slope, _TINY)
        close = tolerance[active] * (1 + np.abs(x))
        settled = np.abs(step) <= close
        target = x + step
        safe = (target >= left) & (target <= right) & (2 * np.abs(step) <= last[active])
        target = np.where(settled | safe, target, (left + right) / 2)
        last[active] = np.abs(target - x)
        root[active] = target
        active = active[~(settled | (right - left <= close))]
    if active.size:
        raise ConvergenceError(
            f"Newton's method in a bracket did not settle in {max_iterations} steps: {active.size} of {root.size} "
            f"elements, the first at {root[active[0]]:.17g} with a last step of {last[active[0]]:.3g}"
        )
    return root


def bisect(
    holds: Callable[[np.ndarray], Any], low: ArrayLike, high: ArrayLike, steps: int = 60
) -> tuple[np.ndarray, np.ndarray]:
    """Two places, between which a property that holds at `low` and not at `high` is lost, elementwise."""
    low, high = np.asarray(low), np.asarray(high)
    for _ in range(steps):
        middle = (low + high) / 2
        here = holds(middle)
        low, high = np.where(here, middle, low), np.where(here, high, middle)
    return low, high


def expanded(
    reached: Callable[[np.ndarray], np.ndarray], start: np.ndarray, factor: float, most: int = 400
) -> np.ndarray:
    """`start` times the least power of the factor at which `reached` holds, elementwise."""
    found = start.copy()
    for _ in range(most):
        wanting = ~reached(found)
        if not wanting.any():
            return found
        with np.errstate(over="ignore"):
            found[wanting] *= factor
    raise ConvergenceError(f"no bracket from {start[wanting][0]:g} to {found[wanting][0]:g}")


def golden_minimum(
    function: Callable[[np.ndarray], np.ndarray], low: ArrayLike, high: ArrayLike, steps: int
) -> np.ndarray:
    """Where a function with one minimum between low and high is least, elementwise, by golden sections.

    `function` receives the two places of a section as (2, ...), and a place is known to the root of its values' digits.
    """
    low, high = np.asarray(low), np.asarray(high)
    for _ in range(steps):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = function(np.stack([left, right]))
        shrink = at_left <= at_right
        low, high = np.where(shrink, low, left), np.where(shrink, right, high)
    return (low + high) / 2


def scalar_root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """The root between two places where the function has opposite signs, to the tolerance (Brent 1973)."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=tolerance, rtol=4 * np.finfo(float).eps))


def scalar_minimum(
    function: Callable[[float], float], low: float, high: float, tolerance: float
) -> tuple[float, float]:
    """Where a function with one minimum between two places is least, to the tolerance, and its value (Brent 1973)."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": tolerance})
    return float(found.x), float(found.fun)


def _bracketed(
    scale: _Scale,
    function: Callable[..., np.ndarray],
    low: ArrayLike,
    high: ArrayLike,
    args: tuple[ArrayLike, ...],
    max_iterations: int,
) -> np.ndarray:
    broadcast = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (low, high, *args)))
    shape = broadcast[0].shape
    x1, x2, *parameters = (a.reshape(-1) for a in broadcast)
    f1, f2 = function(x1, *parameters), function(x2, *parameters)
    valid = (x1 > scale.least) & (x1 <= x2) & (f1 <= 0) & (f2 >= 0)
    _require(valid, f"a bracket needs {scale.least:g} < low <= high and f(low) <= 0 <= f(high)", x1, x2, f1, f2)

    root = np.where(f1 == 0, x1, x2)
    active = np.flatnonzero((f1 != 0) & (f2 != 0))
    ends = np.maximum(np.abs(x1), np.abs(x2))
    x1, x2, f1, f2 = x1[active], x2[active], f1[active], f2[active]
    step = np.full(active.size, 0.5)
    for _ in range(max_iterations):
        if active.size == 0:
            return root.reshape(shape)
        x = scale.between(x1, x2, step)
        f = function(x, *(p[active] for p in parameters))
        _require(~np.isnan(f), "the function is NaN inside its bracket", x1, x2, f1, f2)
        exhausted = (x == x1) | (x == x2)
        same = np.sign(f) == np.sign(f1)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        x1, f1 = x, f

        width = np.abs(scale.distance(x2, x1)) / scale.unit(x1, ends[active])
        done = (width <= 2 * _WIDTH) | (f1 == 0) | exhausted
        root[active[done]] = np.where(np.abs(f1) <= np.abs(f2), x1, x2)[done]
        step = _interpolation_step(scale.distance, x1, x2, x3, f1, f2, f3, width)
        active, x1, x2, f1, f2, step = (a[~done] for a in (active, x1, x2, f1, f2, step))
    _require(active < 0, f"no convergence in {max_iterations} iterations", x1, x2, f1, f2)
    return root.reshape(shape)


def _interpolation_step(
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray],
    x1: np.ndarray,
    x2: np.ndarray,
    x3: np.ndarray,
    f1: np.ndarray,
    f2: np.ndarray,
    f3: np.ndarray,
    width: np.ndarray,
) -> np.ndarray:
    """The next trial point as a fraction of the way from x1 to x2."""
    with np.errstate(all="ignore"):
        span = distance(x3, x2)
        position, value = distance(x1, x2) / span, (f1 - f2) / (f3 - f2)
        safe = (value**2 < position) & ((1 - value) ** 2 < 1 - position)
        quadratic = f1 / (f2 - f1) * f3 / (f2 - f3)
        quadratic += distance(x3, x1) / distance(x2, x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        step = np.where(safe & np.isfinite(quadratic), quadratic, 0.5)
        least = np.minimum(_WIDTH / width, 0.5)
        return np.clip(step, least, 1 - least)


def _log_ratio(x: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """log(x / reference), accurate also where the two nearly agree or their quotient overflows."""
    near = np.abs(x - reference) < 0.5 * reference
    difference = np.where(near, x - reference, 0.0)
    return np.where(near, np.log1p(difference / reference), np.log(x) - np.log(reference))


_LOGARITHMIC = _Scale(
    0.0, _log_ratio, lambda x, end, share: x * np.exp(share * _log_ratio(end, x)), lambda x, ends: 1.0
)
_LINEAR = _Scale(
    -math.inf,
    np.subtract,
    lambda x, end, share: x + share * (end - x),
    lambda x, ends: np.maximum(np.abs(x), _SMALL * ends),
)


def _require(holds: np.ndarray, text: str, low: Any, high: Any, f_low: Any, f_high: Any) -> None:
    if holds.all():
        return
    first = np.flatnonzero(~holds)[0]
    raise ConvergenceError(
        f"{text}: {np.count_nonzero(~holds)} of {holds.size} elements, the first with "
        f"f({low[first]:.17g}) = {f_low[first]:g}, f({high[first]:.17g}) = {f_high[first]:g}"
    )
