"""Score networks for data on a line of R^d, of several dimensions at once: one compiled program, vmapped.

Networks have inputs and outputs for the largest dimension. In R^d the other coordinates are 0, of data and noise alike,
and their outputs do not count: that is a network of R^d, with weights that do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.data.unit_vectors import unit_vectors
from unlazy.functions.rough_densities import rough_density
from unlazy.models.score_network import ScoreNetwork, moments
from unlazy.numerics.reverse_diffusion import time_grid
from unlazy.observables.transport import distance_to_law, expected_deviation
from unlazy.random import normal
from unlazy.training.diffusion.reverse import reverse_samples
from unlazy.training.loop import train

_FIRST_TIME, _LAST_TIME = 1e-3, 4.0
_BATCH, _STEP_SIZE, _AVERAGE, _REVERSE_STEPS = 256, 1e-2, 0.995, 200
_SMOOTHNESS = 2.0


class LineDraws(NamedTuple):
    """W1 along the line, mean distance off it with and without the last denoising step, (dimensions,)."""

    along: np.ndarray
    off_line: np.ndarray
    noisy_off_line: np.ndarray


@lru_cache(maxsize=4)
def _program(largest: int, width: int, steps: int, draws: int) -> Any:
    """Train on rows (n, largest) of which `used` coordinates count, and draw with and without denoising."""
    times = time_grid(_LAST_TIME, _FIRST_TIME, _REVERSE_STEPS)
    span = np.log(_LAST_TIME / _FIRST_TIME)

    def one(key: Array, rows: Array, used: Array) -> tuple[Array, Array]:
        start_key, train_key, draw_key, run_key = jax.random.split(key, 4)
        d = used.sum()

        def loss(model: tuple[ScoreNetwork, ScoreNetwork], key: Array) -> Array:
            drawn = normal(key, (_BATCH, largest + 2), jnp.float32)
            ranks = jax.scipy.special.ndtr(drawn[:, largest:])
            batch = rows[jnp.minimum((len(rows) * ranks[:, 0]).astype(jnp.int32), len(rows) - 1)]
            at = _FIRST_TIME * jnp.exp(jnp.float32(span) * (jnp.arange(_BATCH) + ranks[:, 1]) / _BATCH)
            scale, deviation = moments(at.astype(jnp.float32))
            noise = drawn[:, :largest] * used
            points = scale[:, None] * batch + deviation[:, None] * noise
            wrong = (model[0].noise(points, at) - noise) * used
            return jnp.sum(wrong**2) / (_BATCH * d)

        adam = optax.adam(optax.cosine_decay_schedule(_STEP_SIZE, steps))

        def update(gradient: Any, state: Any, weights: Any = None) -> tuple[Any, Any]:
            change, state = adam.update(gradient[0], state, weights[0])
            follow = jax.tree.map(lambda w, c, a: (1 - _AVERAGE) * (w + c - a), weights[0], change, weights[1])
            return (change, follow), state

        optimiser = optax.GradientTransformation(lambda weights: adam.init(weights[0]), update)
        start = ScoreNetwork.random(start_key, largest, width=width)
        network = train((start, start), loss, optimiser, steps, trained=lambda m: m, key=train_key).model[1]

        def score(x: Array, t: Array) -> Array:
            return network(x * used, t) * used

        begin = normal(draw_key, (draws, largest), jnp.float32) * used
        noisy = reverse_samples(run_key, score, begin, times, denoise=False) * used
        last = jnp.full(draws, _FIRST_TIME, jnp.float32)
        clean = (noisy - jnp.float32(np.expm1(-2 * _FIRST_TIME)) * score(noisy, last)) * np.exp(_FIRST_TIME)
        return noisy, clean

    return jax.jit(jax.vmap(one))


def line_networks(
    rng: np.random.Generator, d: Sequence[int], n: int, *, width: int, steps: int, draws: int
) -> tuple[LineDraws, float]:
    """A network for each dimension, trained on the same n places of a line, and E W1 of the places themselves."""
    grid = np.linspace(-1, 1, 4001)
    cdf = rough_density(_SMOOTHNESS, rng, terms=20).cdf(grid[:, None])
    places = np.interp(rng.random(n), cdf, grid)
    empirical = float(np.trapezoid(expected_deviation(n, np.clip(cdf, 0, 1)), grid))
    # an entry of the rows has about unit variance, as columns that are standardised
    units = places.std() / np.sqrt(np.array(d))
    directions = np.zeros((len(d), max(d)))
    for line, dimension in zip(directions, d, strict=True):
        line[:dimension] = unit_vectors(rng, 1, dimension)[0]
    used = (np.arange(max(d)) < np.array(d)[:, None]).astype(np.float32)
    rows = (places[:, None] * directions[:, None, :] / units[:, None, None]).astype(np.float32)
    with jax.enable_x64(False):
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), len(d))
        drawn = _program(max(d), width, steps, draws)(keys, jnp.asarray(rows), jnp.asarray(used))
        noisy, clean = (units[:, None, None] * np.asarray(part, np.float64) for part in drawn)

    def law(x: np.ndarray) -> np.ndarray:
        return np.interp(x, grid, cdf)

    def off(points: np.ndarray, line: np.ndarray) -> float:
        return float(np.linalg.norm(points - np.outer(points @ line, line), axis=1).mean())

    measured = [
        (distance_to_law(after @ line, law, -1, 1), off(after, line), off(before, line))
        for before, after, line in zip(noisy, clean, directions, strict=True)
    ]
    return LineDraws(*np.transpose(measured)), empirical
