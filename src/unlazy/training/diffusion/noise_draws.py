"""Score networks that are trained on finitely many noise draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.training.diffusion.density_fits import draw_histograms, middles
from unlazy.training.diffusion.network_rates import (
    BINS,
    FIRST_TIME,
    LAST_TIME,
    clip_at,
    hidden_layers,
    law_errors,
    train_on,
)
from unlazy.training.diffusion.relu_score import draw_denoising, train_relu


def drawn_errors(
    rng: np.random.Generator,
    smoothness: int,
    n: int,
    draws: Sequence[int],
    *,
    bumps: float,
    factor: float,
    steps: int,
    starts: int,
) -> tuple[float, np.ndarray]:
    """The total variation with all noise, and with n times `draws` draws, times uniform and log-uniform, (2, draws).

    All of one density and its data.
    """
    drawn = draw_histograms(rng, smoothness, (n,), 1)
    masses, counts = drawn.masses.reshape(BINS, -1).sum(axis=1), drawn.counts[0, 0]
    rows = np.repeat(middles(), counts)
    hidden = hidden_layers(bumps * n ** (1 / (2 * smoothness + 1)), factor, 2)
    whole = train_on(rng, counts.reshape(BINS, -1).sum(axis=1) / n, n, hidden, steps, starts).network
    found = np.empty((2, len(draws)))
    for i, uniform in enumerate((True, False)):
        for j, count in enumerate(draws):
            points = draw_denoising(rng, rows, n * count, FIRST_TIME, LAST_TIME, uniform=uniform)
            trained = train_relu(rng, *points, hidden, steps=steps, starts=starts, clip=clip_at(n))
            found[i, j] = law_errors(trained.network, masses).total_variation
    return law_errors(whole, masses).total_variation, found
