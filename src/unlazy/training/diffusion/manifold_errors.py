"""How far estimates of a rough law on a line of R^d are from it, with and without knowing that there is a line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.data.unit_vectors import unit_vectors
from unlazy.functions.rough_densities import rough_density
from unlazy.training.diffusion.linear_support import kernel_draws, line_errors, network_draws

_GRID = np.linspace(-1, 1, 1001)
_TABLE = np.linspace(-1, 1, 8001)
"""Where the distribution function is tabulated for drawing, in steps of a quarter of the shortest wave."""
_TERMS = 20
"""Down to wavelengths of 0.001 of the interval, far below what a few thousand rows resolve."""


def manifold_errors(
    rng: np.random.Generator,
    smoothness: float,
    n: Sequence[int],
    d: int,
    *,
    data_sets: int,
    drawn_points: int,
    steps: int,
) -> np.ndarray:
    """W1 of spline, empirical measure, the angle to the line, W1 of kernel density and of a network, (6, n).

    The last three are of one data set, against as many `drawn_points` at the quantiles of the law, and NaN where there
    are none, or no `steps` of training; the network comes with and without its last denoising step.
    """
    table = rough_density(smoothness, rng, terms=_TERMS).cdf(_TABLE[:, None])
    truth = np.interp(_GRID, _TABLE, table)
    quantiles = np.interp((np.arange(drawn_points) + 0.5) / max(drawn_points, 1), table, _TABLE)
    # before anything that depends on d, so that one rng gives the same places on the line in every dimension
    places = [np.interp(rng.random((data_sets, size)), table, _TABLE) for size in n]
    directions = unit_vectors(rng, data_sets, d)
    found = []
    for along in places:
        on_line = line_errors(along, directions, _GRID, truth)
        found.append([*on_line, *_in_space(rng, along[0], directions[0], quantiles, steps)])
    return np.transpose(found)


def _in_space(
    rng: np.random.Generator, along: np.ndarray, direction: np.ndarray, quantiles: np.ndarray, steps: int
) -> list[float]:
    from unlazy.observables.transport import wasserstein_distance

    points = quantiles.size
    drawn = [kernel_draws(rng, along, direction, points)] if points else []
    if points and steps:
        drawn += network_draws(rng, along[:, None] * direction, points, steps)
    found = [wasserstein_distance(drawn_points, quantiles[:, None] * direction) for drawn_points in drawn]
    return found + [np.nan] * (3 - len(found))
