"""The one result "error against rows"."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array

# a relative standard deviation beyond it says that few rows carry the mean, and its interval is not normal
MOST_DEVIATION = 0.3
# of a 95% interval
QUANTILE = 1.959963984540054
# with fewer, tests found errors beyond the intervals
FEWEST_ROWS = 20


class Interval(NamedTuple):
    low: Any
    high: Any


class Curve(NamedTuple):
    """Expected errors after training on n rows, and how well they are known.

    Arrays have the shape of what was asked for; None stands for what has no meaning for the learner.
    """

    n: np.ndarray
    error: np.ndarray
    """On new rows, label noise included, summed over outputs; NaN where not `in_range`."""
    interval: Interval
    """What other rows of the same number would say, with the probability asked for; NaN for moments."""
    in_range: np.ndarray
    """False where so many rows are too far beyond those at hand, and there is no prediction."""
    reliable: np.ndarray
    """False also where tests found errors beyond the interval: unequal leverages (`fast`, `hybrid`), a negative
    effective ridge of some row (`pointwise`), a mean that few rows carry (relative standard deviation above 0.3), or
    fewer than 20 rows; with kernel="one-step" fewer than 5 rows per dimension, strongly correlated inputs, an
    index that is far from normal, or residuals that depend on other directions; for networks more rows than effective
    dimensions."""
    ridge: Any = None
    features: Any = None
    """Infinity for the kernel itself."""
    r2: Any = None
    """1 - error / variance of y."""
    training_error: Any = None
    method: Any = None
    """'fast', 'hybrid' or 'pointwise'; 'one-step' with that kernel, 'moments' after `fit_moments`."""
    point_errors: Any = None
    """The expected error on each row of the pool when it is not trained on, in a last axis; NaN unless `pointwise`."""
    reasons: tuple[str, ...] = ()
    """Of a forecast: why it is out of range or not reliable, empty where it is."""

    @property
    def low(self) -> np.ndarray:
        return self.interval.low

    @property
    def high(self) -> np.ndarray:
        return self.interval.high


def log_normal_interval(error: np.ndarray, deviation: np.ndarray, confidence: float = 0.95) -> Interval:
    """Of an error whose logarithm has that standard deviation."""
    from scipy.special import ndtri

    quantile = float(ndtri((1 + confidence) / 2))
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = (error * np.exp(sign * quantile * deviation) for sign in (-1, 1))
    return Interval(low, high)


def checked_sizes(sizes: ArrayLike, low: int) -> np.ndarray:
    """Whole numbers of rows to forecast for."""
    found = np.atleast_1d(check_array("sizes", sizes, low=low, high=1e15, whole=True))
    if found.ndim != 1:
        raise InputError(f"sizes must have at most 1 dimension, got shape {found.shape}")
    return found.astype(np.int64)
