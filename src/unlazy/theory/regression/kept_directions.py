"""What the degrees-of-freedom criterion keeps at its minimum: least squares on a few directions, nothing elsewhere.

With a covariance S and a prior B of the tasks that share their eigenvectors, t_j = l_j p_j is the variance of the
signal along direction j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape

_LARGEST = 1e280


class KeptDirections(NamedTuple):
    """Every field has the broadcast shape of n, noise_variance and degrees_of_freedom_weight."""

    kept: np.ndarray
    """Number of directions that the metric keeps."""
    criterion: np.ndarray
    """Expected R - s2."""
    risk: np.ndarray


def least_squares_risk(
    signal_spectrum: ArrayLike, n: ArrayLike, noise_variance: ArrayLike, kept: ArrayLike
) -> np.ndarray:
    """The risk of least squares on the `kept` directions of largest signal, ridge 0 there and nothing elsewhere.

        tail + (s2 + tail) k / (n - k - 1),     tail = sum_{j > k} t_j

    with t_j (`signal_spectrum`, in any order) the variance of the signal along direction j: what is not kept is lost,
    and is noise for what is. Exact for Gaussian inputs whose covariance and prior share their eigenvectors, and
    k <= n - 2; infinite for larger k, unless nothing is noise. n, noise_variance and kept broadcast.

    >>> print(least_squares_risk(signal_spectrum=[1, 0.25, 0.01], n=20, noise_variance=0.5, kept=[0, 1, 2]))
    [1.26   0.3022 0.07  ]
    """
    signal = check_array("signal_spectrum", signal_spectrum, low=0, high=_LARGEST, ndim=1)
    n = check_array("n", n, above=0)
    noise_variance = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    kept = check_array("kept", kept, low=0, high=signal.size)
    if (broken := kept != np.floor(kept)).any():
        raise InputError(f"kept must be whole numbers of directions, got {kept[broken].flat[0]:g}")
    common_shape(n=n, noise_variance=noise_variance, kept=kept)
    tail = _tails(signal)[kept.astype(int)]
    lost = noise_variance + tail
    spare = np.where(n - kept > 1, n - kept - 1, 1.0)
    price = np.where(n - kept > 1, lost * (kept / spare), np.inf)
    # without noise as many inputs as directions are enough
    free = (kept == 0) | ((lost == 0) & (kept <= n))
    return (tail + np.where(free, 0.0, price))[()]


def degrees_of_freedom_minimiser(
    signal_spectrum: ArrayLike, n: ArrayLike, noise_variance: ArrayLike, degrees_of_freedom_weight: ArrayLike
) -> KeptDirections:
    """Where `degrees_of_freedom_criterion` is least for one metric over many tasks, and what that metric is worth.

    In every m_j of a diagonal metric, R is a ratio of linear functions, thus monotone: a minimiser has m_j = 0 or
    infinity, and its fit is least squares on the directions that it keeps. With the k largest of t_j
    (`signal_spectrum`) and n inputs

        E R - s2 = (1 - k/n) sum_{j > k} t_j + (sp2 - s2) k/n,

    of which this is the minimum over k <= n - 2; `risk` is `least_squares_risk` there. R takes the signal that is not
    kept for free noise, so that with a slow decay it keeps too many directions. Exact for Gaussian inputs whose
    covariance and prior share their eigenvectors, on average over many tasks and inputs; n, noise_variance and
    degrees_of_freedom_weight broadcast.

    >>> found = degrees_of_freedom_minimiser(
    ...     signal_spectrum=[1, 0.25, 0.01], n=20, noise_variance=0.5, degrees_of_freedom_weight=1
    ... )
    >>> print(found.kept, found.criterion, found.risk)
    2 0.059 0.07
    """
    signal = check_array("signal_spectrum", signal_spectrum, low=0, high=_LARGEST, ndim=1)
    n = check_array("n", n, above=0)
    noise_variance = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    weight = check_array("degrees_of_freedom_weight", degrees_of_freedom_weight, low=0)
    common_shape(n=n, noise_variance=noise_variance, degrees_of_freedom_weight=weight)
    counts, tails = np.arange(signal.size + 1), _tails(signal)
    shares = counts / n[..., None]
    values = (1 - shares) * tails + (weight - noise_variance)[..., None] * shares
    values = np.where(counts <= np.maximum(n[..., None] - 2, 0), values, np.inf)
    kept = np.argmin(values, axis=-1)
    criterion = np.take_along_axis(values, kept[..., None], -1)[..., 0]
    return KeptDirections(kept[()], criterion[()], least_squares_risk(signal, n, noise_variance, kept))


def _tails(signal: np.ndarray) -> np.ndarray:
    """What the k largest entries leave of the sum, for k = 0, ..., d."""
    return np.append(np.cumsum(np.sort(signal))[::-1], 0.0)
