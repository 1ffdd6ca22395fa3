"""How far two samples are apart."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array

_PIVOTS = 1_000_000
# POT imports every array library it finds, which takes seconds; it is given NumPy arrays only
_UNUSED = ("POT_BACKEND_DISABLE_PYTORCH", "POT_BACKEND_DISABLE_TENSORFLOW", "POT_BACKEND_DISABLE_CUPY")


def wasserstein_distance(sample: np.ndarray, other: np.ndarray) -> float:
    """Exact W1, the least mean Euclidean length of transport, between samples (n, d) and (m, d) of equal weights."""
    sample, other = check_array("sample", sample, ndim=2), check_array("other", other, ndim=2)
    if sample.shape[1] != other.shape[1]:
        raise InputError(f"other must have {sample.shape[1]} columns like sample, got shape {other.shape}")
    for name in _UNUSED:
        os.environ.setdefault(name, "1")
    import ot

    return float(ot.emd2([], [], ot.dist(sample, other, metric="euclidean"), numItermax=_PIVOTS))


def distance_to_law(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> float:
    """W1 between a sample (n,) and a law on [low, high], by the quantiles (i - 1/2)/n of the law."""
    x = np.linspace(low, high, 20_001)
    ranks = (np.arange(sample.size) + 0.5) / sample.size
    return float(np.abs(np.sort(sample) - np.interp(ranks, cdf(x), x)).mean())


def expected_deviation(n: ArrayLike, share: ArrayLike) -> np.ndarray:
    """E|F_n - F| where n draws have the share F_n below a point and their law has F: exact, by De Moivre's formula.

    With k the first whole number above n F, 2 (k/n) (1 - F) times the probability of k of n. The integral over the line
    is E W1 of the empirical measure; for large n it is sqrt(2/(pi n)) int sqrt(F (1 - F)).
    """
    from scipy.special import gammaln, xlog1py, xlogy

    n, share = np.broadcast_arrays(check_array("n", n, low=1), check_array("share", share, low=0, high=1))
    k = np.minimum(np.floor(n * share) + 1, n)
    chances = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, share) + xlog1py(n - k, -share)
    return 2 * k / n * (1 - share) * np.exp(chances)
