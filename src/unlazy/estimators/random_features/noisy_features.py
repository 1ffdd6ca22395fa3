"""Means and covariance of random features of rows with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.functions.elementwise import Link
from unlazy.numerics.gaussian import normal_nodes

_NODES = 400
# the table of noise-averaged features: points per unit of the noise, which is taken as at least _FINEST
_DENSITY, _FINEST = 12, 0.02
_BLOCK = 1 << 20
_MOST_ORDERS = 20
_NEGLECTED = 1e-3
_MOST_ROWS = 2000
_MOST_COPIES, _MOST_SAMPLES = 4096, 1 << 17
_POINTS_AT_ONCE = 1 << 15
_FINER = 64


class NoisyFeatures(NamedTuple):
    """Random features of rows x_i + delta z, z ~ N(0, I)."""

    mean: np.ndarray
    """E_z sigma, (n, N)."""
    covariance: np.ndarray
    """Gamma, the covariance over z averaged over the rows, (N, N)."""


def noisy_features(function: Link, delta: float, hidden: np.ndarray, cosines: np.ndarray) -> NoisyFeatures:
    """Mean and covariance of sigma(h + delta z_a) for h = `hidden` (n, N) and normal z with correlations `cosines`.

    The covariance is an average over the rows, for which 2000 drawn ones stand if there are more. The series in powers
    of the correlations is cut where what it still misses off the diagonal is below 1e-3 of the covariance; on the
    diagonal nothing is missed. Where 20 orders do not reach that, as for steep activations of one or two inputs, whose
    features are nearly copies of each other, the covariance is that of many noisy copies of the rows.
    """
    n, count = hidden.shape
    if delta == 0:
        return NoisyFeatures(function(hidden), np.zeros((count, count)))
    some = hidden
    if n > _MOST_ROWS:
        some = hidden[np.random.default_rng(0).choice(n, _MOST_ROWS, replace=False)]
    table = _hermite_table(function, delta, hidden)
    mean, spread = table(hidden, 0), np.mean(table(some, -1), axis=0)
    covariance, missing = np.zeros((count, count)), spread
    off_diagonal = np.clip(cosines - np.diag(np.diagonal(cosines)), -1, 1)
    power = np.ones_like(off_diagonal)
    for order in range(1, _MOST_ORDERS + 1):
        part = table(some, order)
        power = power * off_diagonal
        covariance += power * (part.T @ part / len(some))
        missing = missing - np.mean(part**2, axis=0)
        reach = math.sqrt(np.mean((power * off_diagonal) ** 2) * count)
        if reach * max(missing.max(), 0.0) <= _NEGLECTED * spread.max():
            covariance[np.diag_indices(count)] = spread
            return NoisyFeatures(mean, covariance)
    return NoisyFeatures(mean, _sampled_covariance(function, delta, some, table(some, 0), cosines))


def _sampled_covariance(
    function: Link, delta: float, hidden: np.ndarray, mean: np.ndarray, cosines: np.ndarray
) -> np.ndarray:
    """The covariance over noisy copies, at Sobol points that are shifted at random for every row."""
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    values, vectors = np.linalg.eigh(cosines)
    kept = values > 1e-10 * values[-1]
    factor = (vectors[:, kept] * np.sqrt(values[kept])).T
    n, count = hidden.shape
    copies = 2 ** int(math.log2(min(max(_MOST_SAMPLES / n, 64), _MOST_COPIES)))
    points = Sobol(len(factor), scramble=False).random(copies)
    rng = np.random.default_rng(0)
    covariance = np.zeros((count, count))
    for i in range(n):
        shifted = np.clip((points + rng.random(len(factor))) % 1.0, 1e-16, 1 - 1e-16)
        centred = function(hidden[i] + delta * ndtri(shifted) @ factor) - mean[i]
        covariance += centred.T @ centred / (n * copies)
    return covariance


def _hermite_table(function: Link, delta: float, hidden: np.ndarray) -> Callable[[np.ndarray, int], np.ndarray]:
    """h, k -> E[He_k(z) sigma(h + delta z)] / sqrt(k!); k = -1 is the variance of sigma(h + delta z).

    Interpolated between the least and the largest of `hidden` if they are many.
    """
    from scipy.interpolate import CubicSpline

    points, weights = normal_nodes(_NODES)
    low = float(hidden.min())
    high = max(float(hidden.max()), low + _FINEST)
    size = math.ceil((high - low) / min(max(delta, _FINEST), 1.0) * _DENSITY) + 4
    rows = [weights]
    previous, polynomial = np.zeros_like(points), np.ones_like(points)
    for order in range(_MOST_ORDERS):
        # He_k / sqrt(k!) by its recurrence
        following = (points * polynomial - math.sqrt(order) * previous) / math.sqrt(order + 1)
        previous, polynomial = polynomial, following
        rows.append(weights * polynomial)
    basis = np.stack(rows, axis=1)

    def computed(places: np.ndarray) -> np.ndarray:
        table = np.empty((places.size, basis.shape[1] + 1))
        block = max(_BLOCK // points.size, 1)
        for start in range(0, places.size, block):
            part = slice(start, start + block)
            values = function(places[part, None] + delta * points)
            table[part, :-1] = values @ basis
            table[part, -1] = (values - table[part, :1]) ** 2 @ weights
        return table

    if size >= hidden.size and len(hidden) <= _MOST_ROWS:
        # so few that all of them are asked for
        columns = computed(hidden.ravel())
        return lambda h, order: columns[:, order].reshape(h.shape)
    places = np.linspace(low, high, size)
    columns = computed(places)
    finer = np.linspace(low, high, _FINER * size)
    return lambda h, order: _between(CubicSpline(places, columns[:, order])(finer), low, high, h)


def _between(values: np.ndarray, low: float, high: float, h: np.ndarray) -> np.ndarray:
    """Linear interpolation at even places, which need not be looked up: ten times as fast as SciPy's spline."""
    places, found = h.ravel(), np.empty(h.size)
    slopes = np.diff(values, append=values[-1])
    for start in range(0, h.size, _POINTS_AT_ONCE):
        part = slice(start, start + _POINTS_AT_ONCE)
        offset = (places[part] - low) * ((values.size - 1) / (high - low))
        index = np.minimum(offset.astype(np.intp), values.size - 1)
        found[part] = values[index] + (offset - index) * slopes[index]
    return found.reshape(h.shape)
