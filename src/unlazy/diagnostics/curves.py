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
# set on thirteen tables, see `benchmarks.intervals`
_MODEL_ERROR = 0.5
_MOST_ABOVE = 2.4
_MOST_RATIO = 4.0
# over the number of rows: the frequency of what none of them shows, at most, with a probability of 95%
_RULE_OF_THREE = 3.0


class Interval(NamedTuple):
    low: Any
    high: Any


class Curve(NamedTuple):
    """Expected errors after training on n rows, and how well they are known.

    Arrays have the shape of what was asked for; None stands for what has no meaning for the learner.
    """

    n: np.ndarray
    test_error: np.ndarray
    """On new rows, label noise included, summed over outputs; NaN where not `in_range`."""
    interval: Interval
    """Where the error of training on n rows lies, with the probability asked for; NaN for moments."""
    in_range: np.ndarray
    """False where so many rows are too far beyond those at hand, and there is no prediction."""
    reliable: np.ndarray
    """False also where the interval is of little use (ends of a 95% one that differ by more than a factor of 4),
    where N rows do not vouch for an error below max (y - mean)^2 / N, because rows of a kind that none of them
    shows may carry most of it, for unequal leverages (`fast`, `hybrid`), and for fewer than 20 rows; with
    kernel="one-step" fewer than 5 rows per dimension, strongly correlated inputs, an index that is far from normal,
    or residuals that depend on other directions; for networks more rows than effective dimensions."""
    penalty: Any = None
    width: Any = None
    """Infinity for the kernel itself."""
    r_squared: Any = None
    """1 - test_error / variance of y."""
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


def forecast_deviation(deviation: ArrayLike, freedom: ArrayLike, times: ArrayLike) -> np.ndarray:
    """The standard deviation of log error with so many times the rows at hand, from that with these rows.

        s(n)^2 = s(N)^2 + (0.5 (df/N) log(n/N))^2

    `freedom` is the share df/N of the rows that the fit uses up, which is what bounds the gain of more of them: the
    second term is how far forecasts of the gain were off on real tables (see `LearningCurve`).
    """
    return np.hypot(deviation, _MODEL_ERROR * np.asarray(freedom) * np.log(times))


def forecast_interval(
    error: np.ndarray,
    deviation: np.ndarray,
    above: np.ndarray,
    pool_error: np.ndarray,
    pool_deviation: np.ndarray,
    confidence: float = 0.95,
) -> Interval:
    """Of errors read off a pool, from the standard deviations of their logarithms, times `above` on the upper side.

    With more rows than the pool has (else NaN) the error is at most what it is with the pool, unless it is forecast to
    rise.
    """
    from scipy.special import ndtri

    quantile = float(ndtri((1 + confidence) / 2))
    with np.errstate(over="ignore", invalid="ignore"):
        low = error * np.exp(-quantile * deviation)
        high = error * np.exp(quantile * above * deviation)
        bound = np.maximum(error, pool_error) * np.exp(quantile * above * pool_deviation)
    return Interval(low, np.fmin(high, bound))


def upper_factor(tail: np.ndarray) -> np.ndarray:
    """How much wider an interval is above than below, from the tail E e^4 / (E e^2)^2 of left-out errors (normal: 3).

    A mean of squares with heavy tails is mostly too low: half the tail, between 1 and 2.4.
    """
    return np.clip(tail / 2, 1.0, _MOST_ABOVE)


def is_useful(deviation: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Whether the ends of the 95% interval differ by a factor of at most 4."""
    with np.errstate(invalid="ignore"):
        return QUANTILE * (1 + above) * deviation <= np.log(_MOST_RATIO)


def is_vouched_for(error: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Whether rows of a kind that none at hand shows would raise the error by no more than a factor of 4.

    N rows that show none leave room for a share 3/N of them (the rule of three, 95%). Missed altogether, and as far out
    as the farthest of the centred targets (N, outputs), they add 3 max |y|^2 / N to the error: too much where the
    inputs nearly determine the targets.
    """
    farthest = float(np.max(np.sum(targets**2, axis=1)))
    with np.errstate(invalid="ignore"):
        return _RULE_OF_THREE * farthest / len(targets) <= (_MOST_RATIO - 1) * error


def checked_n(n: ArrayLike, low: int) -> np.ndarray:
    """Whole numbers of rows to forecast for."""
    found = np.atleast_1d(check_array("n", n, low=low, high=1e15, whole=True))
    if found.ndim != 1:
        raise InputError(f"n must have at most 1 dimension, got shape {found.shape}")
    return found.astype(np.int64)
