"""Densities that density estimation and sampling are tried on: sums of normal ones in one dimension."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import check_array


def normal_densities(points: np.ndarray, centres: np.ndarray, deviation: float) -> np.ndarray:
    """The density of N(centre, deviation^2) at each point, for each centre, (points, centres).

    >>> print(normal_densities(points=[0, 1], centres=[0, 2], deviation=1).round(4))
    [[0.3989 0.054 ]
     [0.242  0.242 ]]
    """
    points, centres = check_array("points", points, ndim=1), check_array("centres", centres, ndim=1)
    deviation = float(check_array("deviation", deviation, low=1e-100, high=1e100, ndim=0))
    ratio = (points[:, None] - centres) / deviation
    return np.exp(-(np.minimum(np.abs(ratio), 1e100) ** 2) / 2) / (np.sqrt(2 * np.pi) * deviation)


class Normal(NamedTuple):
    """The law N(centre, 1)."""

    centre: float

    def score(self, x: Any, xp: Any = np) -> Any:
        return self.centre - x


class TwoNormals(NamedTuple):
    """The law left_weight N(-centre, deviation^2) + (1 - left_weight) N(centre, deviation^2)."""

    left_weight: float
    centre: float
    deviation: float

    def density(self, points: np.ndarray) -> np.ndarray:
        left, right = normal_densities(points, np.array([-self.centre, self.centre]), self.deviation).T
        return self.left_weight * left + (1 - self.left_weight) * right

    def score(self, x: Any, xp: Any = np) -> Any:
        """The derivative of the log density, elementwise; `xp` is the module of arrays to compute with."""
        log_odds = np.log(self.left_weight / (1 - self.left_weight)) - 2 * self.centre * x / self.deviation**2
        left = 0.5 * (1 + xp.tanh(log_odds / 2))
        return (self.centre * (1 - 2 * left) - x) / self.deviation**2
