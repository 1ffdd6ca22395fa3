"""What the bounds and schemes for exact scores say of learned ones: networks trained on rows of a rough density."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.functions.rough_densities import rough_density
from unlazy.numerics.reverse_diffusion import run_reverse, time_grid
from unlazy.numerics.reverse_law import line_cells, reverse_law
from unlazy.observables.transport import distance_to_law
from unlazy.training.diffusion.network_rates import BINS, FIRST_TIME, LAST_TIME, cells, hidden_layers, train_on
from unlazy.training.diffusion.relu_score import ReluScore, diffused_masses, score_targets

_SMOOTHNESS, _WEIGHTS = 2, 18.0
_STEPS, _STARTS, _REVERSE_STEPS = 50, 2, 60


def learned_score(rng: np.random.Generator, n: int) -> tuple[ReluScore, np.ndarray]:
    """A network trained on n rows, and the law of the rows on `BINS` bins of [-1, 1]."""
    masses = rough_density(_SMOOTHNESS, rng).masses(BINS)
    hidden = hidden_layers(n ** (1 / (2 * _SMOOTHNESS + 1)), _WEIGHTS, 2)
    return train_on(rng, rng.multinomial(n, masses) / n, n, hidden, _STEPS, _STARTS).network, masses


def learned_cost(rng: np.random.Generator, n: int, times: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """KL(data || samples) and the integral of the squared score error for a start from p_T at each of the times T.

    Both begin at the time 1e-6: the divergence is that of noisy data and samples, on cells of 1/256, and exact on them.
    """
    network, masses = learned_score(rng, n)
    where = cells()
    target, weight = score_targets(where, masses)
    wrong = weight * (network.answer(where.x, where.times) - target) ** 2
    edges = line_cells(max(times), BINS)
    truth = diffused_masses(masses, edges, FIRST_TIME)
    divergences = []
    for time in times:
        start = diffused_masses(masses, edges, time)
        found = reverse_law(network, time_grid(time, FIRST_TIME, _REVERSE_STEPS), edges, start)
        seen = truth > 1e-12
        divergences.append(np.sum(truth[seen] * np.log(truth[seen] / np.maximum(found[seen], 1e-300))))
    return np.array(divergences), np.array([wrong[where.times <= time].sum() for time in times])


def learned_chain(
    rng: np.random.Generator, n: int, scheme: str, reverse_steps: int, first_time: float, particles: int
) -> tuple[float, float]:
    """W1 from the points of a scheme to the law of its limit of short steps, and from that law to that of the data.

    Points start at the quantiles of N(0, 1) at time 4 and move by `ranked_normals`. The limit is that of the reverse
    equation, so that the scheme is one of those with noise.
    """
    from scipy.special import ndtri

    network, masses = learned_score(rng, n)
    edges = line_cells(LAST_TIME, BINS)
    law = np.r_[0.0, np.cumsum(reverse_law(network, time_grid(LAST_TIME, first_time, 120), edges))]
    data = np.r_[0.0, np.cumsum(diffused_masses(masses, edges, first_time))]
    start = ndtri((np.arange(particles) + 0.5) / particles)
    points = run_reverse(
        rng,
        lambda x, t: network(x, np.full(x.shape, t)),
        start,
        time_grid(LAST_TIME, first_time, reverse_steps),
        scheme=scheme,
        denoise=False,
        ranked=True,
    )
    learning = float(np.sum(np.abs(law - data)[1:-1] * (edges[2:] - edges[:-2]) / 2))
    return distance_to_law(np.exp(first_time) * points, lambda x: np.interp(x, edges, law), -4.0, 4.0), learning
