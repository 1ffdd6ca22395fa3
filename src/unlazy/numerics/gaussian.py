"""The project's Gaussian averages: E f(mean + deviation z) and its linear part, for kinked and steep functions too."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.elementwise import LINKS, Link
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import frozen, hermite_rule

_LAST_REFINEMENT = 3
_ELSEWHERE = 0.3819
_SETTLED = 1e-10
_TOLERATED = 1e-5
_PROBES = 9
_MOST_VALUES = 1 << 20
_TINY = 1e-300
_MOST_HERMITE = 80
_MOST_NODES = 2000
_REACH = 8.5


class NormalAverages(NamedTuple):
    """Of f(mean + deviation z), z standard normal; each field has the broadcast shape of means and deviations."""

    mean: np.ndarray
    """E f."""
    linear: np.ndarray
    """E[z f]."""
    rest: np.ndarray
    """E (f - mean - linear z)^2, what is neither constant nor linear in z."""


def normal_averages(name: str, function: Link, means: ArrayLike, deviations: ArrayLike) -> NormalAverages:
    """E f, E[z f] and the rest of E f^2 for f(mean + deviation z), elementwise over means and deviations >= 0.

    The composite rule of `Hermite.grid`, with the breakpoints of f carried to those of z, refined until the averages
    of some of the elements agree to 1e-10; a function whose averages still change by 1e-5 is tried with a breakpoint at
    0 and then refused under `name`.
    """
    shape = np.broadcast_shapes(np.shape(means), np.shape(deviations))
    means = np.broadcast_to(means, shape).reshape(-1).astype(np.float64)
    deviations = np.broadcast_to(deviations, shape).reshape(-1).astype(np.float64)
    closed_form = _CLOSED_FORMS.get(function.name) if LINKS.get(function.name) is function else None
    if closed_form is not None:
        mean, linear, second = closed_form(means, deviations)
        found = np.stack([mean, linear, np.maximum(second - mean**2 - linear**2, 0.0)])
    else:
        found = _refined(name, function, means, deviations)
    return NormalAverages(*found.reshape(3, *shape))


def normal_nodes(count: int, name: str = "nodes") -> tuple[np.ndarray, np.ndarray]:
    """Points and weights for E f(z), read-only: Gauss-Hermite up to 80, beyond equidistant, denser at the centre.

    Both are exact to rounding for f that is analytic and grows slowly; the distance of neighbours at 0 is pi / sqrt(2
    count) and 17 / count. `name` is what errors call the number.
    """
    count = check_whole(name, count, 1, _MOST_NODES)
    if count > _MOST_HERMITE:
        points = np.linspace(-_REACH, _REACH, count)
        weights = np.exp(-(points**2) / 2)
        return frozen(points, weights / weights.sum())
    return hermite_rule(count)


def _refined(name: str, function: Link, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    order = np.lexsort((deviations, means))
    probes = np.unique(order[np.linspace(0, order.size - 1, _PROBES).astype(int)])
    for refinement in range(_LAST_REFINEMENT + 1):
        found = _on_grid(name, function, means[probes], deviations[probes], refinement)
        # points that are finer and elsewhere: two symmetric rules err alike on a jump near the centre
        other = _on_grid(name, function, means[probes], deviations[probes], refinement + 1, (_ELSEWHERE,))
        second = max((other[0] ** 2 + other[1] ** 2 + other[2]).max(), _TINY)
        difference = np.abs(found - other)
        change = max(difference[:2].max() / math.sqrt(second), difference[2].max() / second)
        if change <= _SETTLED:
            break
    if not change <= _TOLERATED and not function.breakpoints:
        # points gather at breakpoints, and most activations and links are steepest, or have their kink, at 0
        return _refined(name, function._replace(breakpoints=(0.0,)), means, deviations)
    if not change <= _TOLERATED:
        raise InputError(
            f"{name} must be square integrable and smooth between breakpoints = {function.breakpoints}: with twice the "
            f"quadrature points its Gaussian averages still change by {change:.2g}; name kinks and jumps by "
            "Link(name, function, breakpoints=...)"
        )
    return _on_grid(name, function, means, deviations, refinement)


def _on_grid(
    name: str,
    function: Link,
    means: np.ndarray,
    deviations: np.ndarray,
    refinement: int,
    extra: tuple[float, ...] = (),
) -> np.ndarray:
    if not function.breakpoints:
        points, weights = Hermite().grid(refinement, extra)
        block = max(_MOST_VALUES // points.size, 1)
        parts = [
            _sums(name, function, means[i : i + block], deviations[i : i + block], points, weights)
            for i in range(0, means.size, block)
        ]
        return np.concatenate(parts, axis=1)
    found = np.empty((3, means.size))
    for i, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
        breaks = [(b - mean) / deviation for b in function.breakpoints] if deviation > 0 else []
        grid = Hermite().grid(refinement, [*breaks, *extra])
        found[:, i : i + 1] = _sums(name, function, means[i : i + 1], deviations[i : i + 1], *grid)
    return found


def _sums(
    name: str,
    function: Link,
    means: np.ndarray,
    deviations: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    places = means[:, None] + deviations[:, None] * points
    with np.errstate(all="ignore"):
        values = check_array(name, function(places), finite=False)
    if values.ndim and values.shape != places.shape:
        raise InputError(f"{name} must return one number per point, got shape {values.shape} for {places.shape}")
    values = np.broadcast_to(values, places.shape)
    infinite = ~np.isfinite(values)
    if infinite.any():
        raise InputError(f"{name} must be finite, got {values[infinite][0]:g} at {places[infinite][0]:g}")
    with np.errstate(over="ignore", invalid="ignore"):
        mean, linear = values @ weights, values @ (weights * points)
        rest = (values - mean[:, None] - linear[:, None] * points) ** 2 @ weights
    found = np.stack([mean, linear, rest])
    if not np.isfinite(found).all():
        raise InputError(f"{name} must be square integrable, got values up to {np.abs(values).max():g}")
    return found


def _erf_averages(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, ...]:
    """E erf^2 = 1 - 8 T(sqrt(2) mean / sqrt(1 + 2 w^2), 1 / sqrt(1 + 4 w^2)) with Owen's T."""
    from scipy.special import erf, owens_t

    width = 1 + 2 * deviation**2
    scaled = mean / np.sqrt(width)
    linear = 2 * deviation / np.sqrt(math.pi * width) * np.exp(-(scaled**2))
    return erf(scaled), linear, 1 - 8 * owens_t(math.sqrt(2) * scaled, 1 / np.sqrt(1 + 4 * deviation**2))


def _relu_averages(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, ...]:
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(deviation > 0, mean / deviation, np.inf * np.sign(mean))
    positive = np.where(np.isnan(ratio), 0.5, ndtr(ratio))
    with np.errstate(over="ignore", invalid="ignore"):
        density = np.where(np.isfinite(ratio), np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi), 0.0)
    first = mean * positive + deviation * density
    return first, deviation * positive, (mean**2 + deviation**2) * positive + mean * deviation * density


_CLOSED_FORMS = {"erf": _erf_averages, "relu": _relu_averages}
