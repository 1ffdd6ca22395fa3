"""Averages over standard normal vectors in a few dimensions, and chances of cones under normal laws."""

from __future__ import annotations

from functools import cache

import numpy as np

from unlazy.numerics.quadrature import gauss_rule

_REACH = 7.2
# the strip around the real axis in which softmax of orthonormal contrasts is analytic: pi / sqrt 2
_STRIP = np.pi / np.sqrt(2)
_ACCURACY = {1: 30.0, 2: 21.0, 3: 15.0}
_FINEST = {1: 0.01, 2: 0.06, 3: 0.25}
_LARGEST_STEP = 0.5
_SOBOL = 12
_COARSE_SOBOL = 9


@cache
def grid(dimension: int, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (r, N) and weights (N,) of the trapezoid rule for N(0, I) with the given step, in a ball."""
    count = int(np.ceil(_REACH / step))
    line = step * np.arange(-count, count + 1)
    nodes = np.stack(np.meshgrid(*[line] * dimension, indexing="ij")).reshape(dimension, -1)
    square = (nodes**2).sum(axis=0)
    nodes, square = nodes[:, square <= _REACH**2], square[square <= _REACH**2]
    weights = np.exp(-square / 2)
    return nodes, weights / weights.sum()


@cache
def sobol(dimension: int, power: int = _SOBOL) -> tuple[np.ndarray, np.ndarray]:
    """2^power scrambled Sobol points of N(0, I), the same on every call, whitened to mean 0 and covariance I."""
    from scipy.stats import qmc

    draws = qmc.MultivariateNormalQMC(np.zeros(dimension), seed=1729).random(2**power).T
    draws -= draws.mean(axis=1, keepdims=True)
    draws = np.linalg.solve(np.linalg.cholesky(draws @ draws.T / draws.shape[1]), draws)
    return draws, np.full(draws.shape[1], 1 / draws.shape[1])


def nodes_for(dimension: int, deviation: float, accuracy: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Nodes for functions of z = m + deviation xi with the singularities of softmax.

    The trapezoid rule errs by exp(-2 pi strip / (deviation step)): 1e-13, 1e-9 and 3e-7 in one, two and three
    dimensions, for deviations below 46, 11 and 3.7, beyond which the step stays; or `accuracy` as minus the logarithm.
    In more dimensions Sobol points.
    """
    if dimension > 3:
        return sobol(dimension, _SOBOL if accuracy is None else _COARSE_SOBOL)
    wanted = accuracy or _ACCURACY[dimension]
    step = 2 * np.pi * _STRIP / (wanted * max(deviation, 1e-3))
    # steps of a coarse ladder, so that the nodes stay the same while the deviation settles
    step = 2.0 ** (np.floor(4 * np.log2(step)) / 4)
    finest = _FINEST[dimension] * _ACCURACY[dimension] / wanted
    return grid(dimension, float(np.clip(step, finest, _LARGEST_STEP)))


def cone_chance(mean: np.ndarray, covariance: np.ndarray) -> float:
    """P(all coordinates of N(mean, covariance) > 0): closed in one and two dimensions, one integral in three.

    In more dimensions by Genz's transformation at Sobol points (errors of about 1e-5).
    """
    from scipy.special import ndtr

    from unlazy.numerics.orthant_moments import orthant_moments

    # a cluster without variance has sure scores
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-24))
    low = -mean / deviation
    correlation = covariance / np.outer(deviation, deviation)
    size = len(mean)
    if size == 1:
        return float(ndtr(-low[0]))
    if size == 2:
        r = np.clip(correlation[0, 1], -1 + 1e-12, 1 - 1e-12)
        return float(orthant_moments(low[0], low[1], r, np.sqrt((1 - r) * (1 + r))).chance)
    if size == 3:
        start = np.clip(low[0], -9.0, 9.0)
        x, weights = gauss_rule(start, 9 - start, 200)
        first = correlation[0, 1:]
        rest = np.sqrt(np.maximum((1 - first) * (1 + first), 1e-14))
        r = np.clip((correlation[1, 2] - first[0] * first[1]) / (rest[0] * rest[1]), -1 + 1e-12, 1 - 1e-12)
        h, k = ((low[i + 1] - first[i] * x) / rest[i] for i in (0, 1))
        chance = orthant_moments(h, k, np.full_like(h, r), np.full_like(h, np.sqrt((1 - r) * (1 + r)))).chance
        return min(float(weights @ (np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * chance)), 1.0)
    return _genz(-low, correlation)


def _genz(high: np.ndarray, correlation: np.ndarray) -> float:
    """P(x < high) by one conditional normal number after another (Genz 1992)."""
    from scipy.special import ndtr, ndtri
    from scipy.stats import qmc

    size = len(high)
    root = np.linalg.cholesky(correlation + 1e-13 * np.eye(size))
    uniform = qmc.Sobol(size - 1, seed=1729).random(2**15).T
    total, draws = np.ones(uniform.shape[1]), np.zeros((size, uniform.shape[1]))
    for i in range(size):
        share = ndtr((high[i] - root[i, :i] @ draws[:i]) / root[i, i])
        total *= share
        if i < size - 1:
            draws[i] = ndtri(np.clip(uniform[i] * share, 1e-300, 1 - 1e-16))
    return float(total.mean())
