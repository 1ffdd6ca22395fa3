"""How well score networks of given size can do at all, when they are trained on the law itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.functions.rough_densities import rough_density
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.training.diffusion.network_rates import BINS, cells, hidden_layers, law_errors
from unlazy.training.diffusion.relu_score import score_targets, train_relu


def size_errors(
    rng: np.random.Generator,
    smoothness: int,
    bumps: Sequence[float],
    *,
    factor: float,
    depth: int,
    steps: int,
    starts: int,
) -> np.ndarray:
    """Weights, score error and total variation of networks that are trained on the law itself, (3, bumps)."""
    masses = rough_density(smoothness, rng).masses(BINS)
    where = cells()
    found = []
    for count in bumps:
        points = (where.x, where.times, *score_targets(where, masses))
        network = train_relu(rng, *points, hidden_layers(count, factor, depth), steps=steps, starts=starts).network
        errors = law_errors(network, masses)
        found.append((network.size, errors.score_error, errors.total_variation))
    return np.transpose(found)


def bump_errors(
    rng: np.random.Generator, factors: Sequence[float], *, bumps: int, depth: int, steps: int, starts: int
) -> np.ndarray:
    """Weights and largest error of networks for one diffused B-spline, over its largest value, (2, factors).

    The B-spline is that of degree 2 in the middle of `bumps` cells of [-1, 1]; `factors` are weights per bump.
    """
    basis, where = SplineBasis(bumps + 2, 2), cells()
    middle = 1 + bumps // 2
    targets = np.empty(where.x.size)
    for time in np.unique(where.times):
        here = where.times == time
        diffused = basis.diffused(where.x[here], float(time))
        targets[here] = diffused.value[:, middle] * np.exp(diffused.log_scale)
    targets /= targets.max()
    even = np.full(targets.size, 1 / targets.size)
    found = []
    for factor in factors:
        hidden = hidden_layers(bumps, factor, depth)
        network = train_relu(rng, where.x, where.times, targets, even, hidden, steps=steps, starts=starts).network
        found.append((network.size, np.abs(network.answer(where.x, where.times) - targets).max()))
    return np.transpose(found)
