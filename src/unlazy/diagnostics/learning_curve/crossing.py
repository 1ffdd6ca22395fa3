"""Where a curve that falls, on the whole, crosses a level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_PRECISION = 1.005
_MOST_STEPS = 12


def crossing(curve: Callable[[float], float], level: float, start: float, most: float, least: float = 1.0) -> float:
    """The whole number at which the curve falls to the level: infinity if it does not up to `most`, `least` if there.

    Doubles or halves from `start` until the level lies between, then interpolates on logarithmic axes, to 0.5% or the
    next whole number. NaN ends the search: the curve is not known beyond.
    """
    high, above = float(start), curve(start)
    low, below = high, above
    if above <= level:
        while below <= level:
            if low <= least:
                return least
            high, above = low, below
            low = max(np.floor(low / 2), least)
            below = curve(low)
    else:
        while not above <= level:
            if np.isnan(above) or high >= most:
                return np.inf
            low, below = high, above
            high = min(2 * high, most)
            above = curve(high)
    for _ in range(_MOST_STEPS):
        if high - low <= 1 or high <= _PRECISION * low:
            break
        steps = np.log([below / level, below / above]) if np.isfinite(below) and above > 0 else np.array([0.5, 1.0])
        share = np.clip(steps[0] / steps[1], 0.05, 0.95)
        middle = np.clip(np.rint(low * (high / low) ** share), low + 1, high - 1)
        value = curve(middle)
        if value <= level:
            high, above = middle, value
        else:
            low, below = middle, value
    return float(high)
