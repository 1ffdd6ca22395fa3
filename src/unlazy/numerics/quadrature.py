"""The project's Gauss rules, remembered by their number of points: on an interval, on panels, for a normal number."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Quadrature(NamedTuple):
    """The integral of f is the sum of weights times f(points)."""

    points: np.ndarray
    weights: np.ndarray


@cache
def unit_rule(count: int) -> Quadrature:
    """`count` Gauss-Legendre points on [0, 1], exact for polynomials of degree 2 count - 1."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return frozen((1 + points) / 2, weights / 2)


@cache
def hermite_rule(count: int) -> Quadrature:
    """`count` points for E f(z), z standard normal, exact for polynomials of degree 2 count - 1."""
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    return frozen(points, weights / weights.sum())


def gauss_rule(low: ArrayLike, length: ArrayLike, count: int) -> Quadrature:
    """`count` points on each [low, low + length], along a new last axis; the length keeps the digits of short ones."""
    points, weights = unit_rule(count)
    length = np.asarray(length)[..., None]
    return Quadrature(np.asarray(low)[..., None] + length * points, length * weights)


def panels(edges: ArrayLike, count: int) -> Quadrature:
    """`count` points on each of the panels between increasing edges (k + 1,), one panel after the other."""
    rule = gauss_rule(np.asarray(edges)[:-1], np.diff(edges), count)
    return Quadrature(rule.points.ravel(), rule.weights.ravel())


def frozen(points: np.ndarray, weights: np.ndarray) -> Quadrature:
    """A rule that may be remembered: nobody can write into it."""
    points.flags.writeable = weights.flags.writeable = False
    return Quadrature(points, weights)
