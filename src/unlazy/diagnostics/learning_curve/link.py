"""The link of a single-index model as a smoothing spline of targets on an index that is known to a cosine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.elementwise import Link
from unlazy.numerics.gaussian import normal_nodes

_KNOTS = 16
HIDDEN_NODES = 20
_TABLE = 200
_SMOOTHINGS = np.logspace(-7, 2, 28)
ROUNDING = 1e-10
# of a standardised index; nearer ones make a spline of nothing but rounding errors
_LEAST_GAP = 0.02
_FEWEST_KNOTS = 4


class FittedLink(NamedTuple):
    link: Link
    unexplained: float
    """The variance of y that the index does not explain."""
    smoothing: float


def fitted_link(index: np.ndarray, targets: np.ndarray, cosine: float, smoothing: float | None) -> FittedLink:
    """The natural spline g whose mean given the index fits the targets."""
    from scipy.interpolate import CubicSpline

    n = index.size
    knots = _separate(np.quantile(index, np.linspace(0, 1, _KNOTS), method="nearest"))
    if knots.size < _FEWEST_KNOTS:
        raise InputError(
            "X must take more values along the direction of y for kernel='one-step', whose theory has a normal index: "
            f"there are {knots.size}, at least {_FEWEST_KNOTS} are needed"
        )
    basis = NaturalSpline(knots, np.eye(knots.size))
    if cosine < 1:
        hidden, weights = normal_nodes(HIDDEN_NODES)
        table = np.linspace(knots[0], knots[-1], _TABLE)
        averaged = np.einsum("h,shk->sk", weights, basis(cosine * table[:, None] + width(cosine) * hidden))
        design = CubicSpline(table, averaged)(index)
    else:
        design = basis(index)

    gaps, bend = np.diff(knots), CubicSpline(knots, np.eye(knots.size), bc_type="natural")(knots, 2)
    penalty = sum(
        gap / 6 * (np.outer(a, a) + np.outer(b, b) + np.outer(a + b, a + b))
        for gap, a, b in zip(gaps, bend[:-1], bend[1:], strict=True)
    )
    gram, moment = design.T @ design / n, design.T @ targets / n
    energy = float(np.mean(targets**2))
    best = (math.inf, moment, 0.0, 0.0)
    for level in _SMOOTHINGS if smoothing is None else (smoothing,):
        matrix = gram + level * penalty + ROUNDING * np.trace(gram) * np.eye(knots.size)
        solved = np.linalg.solve(matrix, np.column_stack([moment, gram]))
        solution, freedom = solved[:, 0], np.trace(solved[:, 1:])
        residual = max(energy - 2 * float(solution @ moment) + float(solution @ gram @ solution), 0.0)
        free = max(1 - freedom / n, 1 / n)
        if residual / free**2 < best[0]:
            best = (residual / free**2, solution, residual / free, level)
    _, coefficients, unexplained, chosen = best
    return FittedLink(Link("spline", NaturalSpline(knots, coefficients)), unexplained, float(chosen))


def _separate(places: np.ndarray) -> np.ndarray:
    """The ascending places without those that are too near to the one before."""
    kept = [places[0]]
    for place in places[1:]:
        if place - kept[-1] >= _LEAST_GAP:
            kept.append(place)
    return np.array(kept)


def width(cosine: float) -> float:
    return math.sqrt(max((1 - cosine) * (1 + cosine), 0.0))


class NaturalSpline:
    """The natural cubic spline through values at the knots, straight beyond them; values may have a second axis."""

    def __init__(self, knots: np.ndarray, values: np.ndarray):
        from scipy.interpolate import CubicSpline

        self._knots, self._spline = knots, CubicSpline(knots, values, bc_type="natural")
        self._first, self._last = self._spline(knots[0], 1), self._spline(knots[-1], 1)

    def __call__(self, x: Any) -> np.ndarray:
        x, (low, high) = np.asarray(x, dtype=np.float64), (self._knots[0], self._knots[-1])
        below = np.multiply.outer(np.minimum(x - low, 0.0), self._first)
        return self._spline(np.clip(x, low, high)) + below + np.multiply.outer(np.maximum(x - high, 0.0), self._last)


@dataclass(frozen=True)
class Rescaled:
    """scale (f(x) - mean)."""

    function: Callable[[Any], Any]
    mean: float
    scale: float

    def __call__(self, x: Any) -> Any:
        return self.scale * (self.function(x) - self.mean)
