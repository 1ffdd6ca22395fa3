"""Densities that density estimation and sampling are tried on: sums of normal ones in one dimension."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import check_array


def normal_densities(places: np.ndarray, centres: np.ndarray, deviation: float) -> np.ndarray:
    """The density of N(centre, deviation^2) at each place, for each centre, (places, centres)."""
    places, centres = check_array("places", places, ndim=1), check_array("centres", centres, ndim=1)
    deviation = float(check_array("deviation", deviation, low=1e-100, high=1e100, ndim=0))
    ratio = (places[:, None] - centres) / deviation
    return np.exp(-(np.minimum(np.abs(ratio), 1e100) ** 2) / 2) / (np.sqrt(2 * np.pi) * deviation)


class Normal(NamedTuple):
    """The law N(mean, 1)."""

    mean: float

    def score(self, x: Any, numpy: Any = np) -> Any:
        return self.mean - x


class TwoNormals(NamedTuple):
    """The law weight N(-mode, deviation^2) + (1 - weight) N(mode, deviation^2)."""

    weight: float
    mode: float
    deviation: float

    def density(self, places: np.ndarray) -> np.ndarray:
        left, right = normal_densities(places, np.array([-self.mode, self.mode]), self.deviation).T
        return self.weight * left + (1 - self.weight) * right

    def score(self, x: Any, numpy: Any = np) -> Any:
        """The derivative of the log density, elementwise; `numpy` is the module of arrays to compute with."""
        log_odds = np.log(self.weight / (1 - self.weight)) - 2 * self.mode * x / self.deviation**2
        left = 0.5 * (1 + numpy.tanh(log_odds / 2))
        return (self.mode * (1 - 2 * left) - x) / self.deviation**2
