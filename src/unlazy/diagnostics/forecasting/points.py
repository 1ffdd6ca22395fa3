"""Errors of one method at several sizes, and why some of them are not to be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# forecasts were tested up to ten times the rows that they are made from
FARTHEST = 10.0
# of a 95% interval
QUANTILE = 1.959963984540054
# as in `learning_curve.engine`
MOST_DEVIATION = 0.3
_FEWEST_ROWS = 20


class Points(NamedTuple):
    """Errors at several n, in units of the target's variance; NaN out of range."""

    n: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    in_range: np.ndarray
    reliable: np.ndarray
    reasons: tuple[str, ...]
    """Why a forecast is out of range or not reliable, empty where it is."""


def make_points(
    n: np.ndarray,
    error: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    in_range: np.ndarray,
    reliable: np.ndarray,
    near: np.ndarray,
    pool: int,
    ridge: float,
    far: str = "far beyond these rows for this ridge",
) -> Points:
    def reason(i: int) -> str:
        if in_range[i] and reliable[i]:
            return ""
        if not near[i]:
            if ridge == 0:
                return "without a ridge nothing is known beyond the rows at hand"
            return f"more than {FARTHEST:g} times the {pool} rows that the forecast is made from"
        if not in_range[i]:
            return "too far beyond these rows for this ridge"
        if pool < _FEWEST_ROWS:
            return "fewer than 20 rows"
        if np.log(high[i] / low[i]) > 2 * QUANTILE * MOST_DEVIATION:
            return "few rows carry the error"
        if n[i] > pool:
            return far
        return "uneven rows"

    return Points(n, error, low, high, in_range, reliable, tuple(reason(i) for i in range(n.size)))
