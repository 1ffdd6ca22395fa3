"""How far the laws of trained score networks on [-1, 1] are from the densities of their data, next to splines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unlazy.numerics.reverse_diffusion import time_grid
from unlazy.numerics.reverse_law import line_cells, reverse_law
from unlazy.training.diffusion.density_fits import HISTOGRAM, draw_histograms, fit_cells, kernel_errors, rate_cells
from unlazy.training.diffusion.rate_errors import geometric_mean
from unlazy.training.diffusion.relu_score import (
    DenoisingCells,
    ReluScore,
    TrainedRelu,
    denoising_cells,
    score_targets,
    train_relu,
)

FIRST_TIME, LAST_TIME = 1e-6, 4.0
"""Where the reverse diffusion stops, with noise of 0.0014, and where it starts."""
BINS = 512
_WINDOWS, _CELLS, _REVERSE_STEPS = 6, 128, 60
_BANDWIDTHS = np.array([0.15, 0.3, 0.6, 1.2])


class LawErrors(NamedTuple):
    """Total variation, W1, and the integral of the squared score error over time."""

    total_variation: float
    distance: float
    score_error: float


def cells() -> DenoisingCells:
    """Where the risk is evaluated, for histograms of `BINS` bins."""
    return denoising_cells(BINS, FIRST_TIME, LAST_TIME, _WINDOWS, _CELLS)


def hidden_layers(bumps: float, factor: float, depth: int) -> dict[float, tuple[int, ...]]:
    """Layers for windows of time, each four times as late as the one before: factor weights per bump that noise leaves.

    At the time t the noise leaves some min(bumps, t^(-1/2)) bumps. The first window has all times below 1/bumps^2.
    """
    ends = LAST_TIME * 4.0 ** -np.arange(max(1, np.ceil(np.log(LAST_TIME * bumps**2) / np.log(4))))[::-1]
    left = np.minimum(bumps, 2 / np.sqrt(ends))
    return {float(end): _layers(factor * (1 + count), depth) for end, count in zip(ends, left, strict=True)}


def _layers(size: float, depth: int) -> tuple[int, ...]:
    """`depth` equal layers with about `size` weights in all, for two inputs and one output."""
    # (depth - 1) w^2 + (depth + 3) w + 1 weights
    linear, square = depth + 3, depth - 1
    width = size / linear if square == 0 else (np.sqrt(linear**2 + 4 * square * size) - linear) / (2 * square)
    return (max(2, round(width)),) * depth


@lru_cache(maxsize=1)
def _line() -> tuple[np.ndarray, np.ndarray]:
    return line_cells(LAST_TIME, BINS), time_grid(LAST_TIME, FIRST_TIME, _REVERSE_STEPS)


def law_errors(network: ReluScore, masses: np.ndarray) -> LawErrors:
    """The errors of a network for data of the law `masses` (BINS,), its reverse diffusion started at N(0, 1)."""
    edges, times = _line()
    found = reverse_law(network, times, edges)
    outside = (found.size - BINS) // 2
    truth = np.concatenate([np.zeros(outside), masses, np.zeros(outside)])
    off = np.abs(np.cumsum(found - truth))[:-1]
    distance = np.sum(off * (edges[2:] - edges[:-2]) / 2)
    where = cells()
    target, weight = score_targets(where, masses)
    wrong = network.answer(where.x, where.times) - target
    return LawErrors(float(np.abs(found - truth).sum() / 2), float(distance), float(weight @ wrong**2))


def clip_at(n: int) -> float:
    """The largest score in units of 1/sigma, a constant times sqrt(log n) as in the theorem."""
    return float(np.sqrt(2 * np.log(n)))


def train_on(
    rng: np.random.Generator, shares: np.ndarray, n: int, hidden: dict[float, tuple[int, ...]], steps: int, starts: int
) -> TrainedRelu:
    """A network for a histogram (BINS,) of n observations, by the denoising risk over all noise."""
    where = cells()
    points = (where.x, where.times, *score_targets(where, shares))
    return train_relu(rng, *points, hidden, steps=steps, starts=starts, clip=clip_at(n))


def network_errors(
    rng: np.random.Generator,
    smoothness: int,
    n: Sequence[int],
    *,
    densities: int,
    references: int,
    bumps: float,
    factor: float,
    depth: int,
    steps: int,
    starts: int,
) -> dict[str, np.ndarray]:
    """Geometric means over `densities` of the errors of networks for bumps n^(1/(2s+1)) bumps, splines and kernels.

    Splines are fitted to `references` more densities: the spline's error of the same data is a control variate of the
    network's. `spline_gain` is by how much the risk on the data is lower with splines than with the uniform law,
    `risk_gap` by how much it is higher with networks than with splines.
    """
    drawn = draw_histograms(rng, smoothness, n, densities + references)
    masses = _merged(drawn.masses)
    shares = _merged(drawn.counts) / np.array(n)[:, None]
    kernel = [kernel_errors(c, p, _BANDWIDTHS)[1] for c, p in zip(drawn.counts, drawn.densities, strict=True)]
    networks, risks = np.empty((len(n), densities, 3)), np.empty((len(n), densities, 2))
    splines = np.empty((len(n), densities + references, 3))
    where = cells()
    exact, true_weight = score_targets(where, masses)
    for i, size in enumerate(n):
        hidden = hidden_layers(bumps * size ** (1 / (2 * smoothness + 1)), factor, depth)
        found = _merged(fit_cells(drawn.counts[:, i], rate_cells(size, smoothness, 1, smoothness), smoothness).masses)
        fitted, off = score_targets(where, found)[0], found - masses
        splines[i, :, 0] = np.abs(off).sum(axis=1) / 2
        splines[i, :, 1] = 2 * np.abs(np.cumsum(off, axis=1)).mean(axis=1)
        splines[i, :, 2] = (true_weight * (fitted - exact) ** 2).sum(axis=1)
        for j in range(densities):
            trained = train_on(rng, shares[j, i], size, hidden, steps, starts)
            networks[i, j] = law_errors(trained.network, masses[j])
            target, weight = score_targets(where, shares[j, i])
            spline_risk, untrained = weight @ (fitted[j] - target) ** 2, weight @ target**2
            risks[i, j] = trained.risks[0] - spline_risk, untrained - spline_risk
    control = geometric_mean(splines, axis=1) / geometric_mean(splines[:, :densities], axis=1)
    error, distance, score_error = (geometric_mean(networks, axis=1) * control).T
    spline_error, spline_distance, spline_score_error = geometric_mean(splines, axis=1).T
    return {
        "network_error": error,
        "network_distance": distance,
        "network_score_error": score_error,
        "spline_error": spline_error,
        "spline_distance": spline_distance,
        "spline_score_error": spline_score_error,
        "kernel_density_error": geometric_mean(kernel, axis=0),
        "risk_gap": risks[..., 0].mean(axis=1),
        "spline_gain": risks[..., 1].mean(axis=1),
    }


def _merged(histograms: np.ndarray) -> np.ndarray:
    return histograms.reshape(*histograms.shape[:-1], BINS, HISTOGRAM // BINS).sum(axis=-1)
