"""Clouds of particles in problem Q, in NumPy: compiling the engine of `langevin` for each shape costs more than these.

Problem Q is that of `theory.mean_field.gaussian_problem`, one mode; positions are in units of the noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.theory.mean_field.gaussian_problem import GaussianMoments, Modes

_AT_ONCE = 200_000
"""Numbers that are kept of a block of steps, or of rows drawn ahead."""


class CloudRun(NamedTuple):
    """What clouds leave behind: their moments at the checkpoints, and averages over the last three quarters."""

    moments: GaussianMoments
    particle_variance: float
    """Of deviations from the cloud's mean, unbiased."""
    wander: float
    """The squared distance of the cloud's mean from the optimum."""
    energy: float
    """F."""


def run_clouds(
    rng: np.random.Generator,
    modes: Modes,
    temperature: float,
    step_size: float,
    steps: int,
    *,
    particles: int,
    clouds: int,
    start_mean: float,
    start_variance: float,
    checkpoints: Sequence[int],
    n: int,
    batch_size: int = 0,
    reshuffled: bool = False,
) -> CloudRun:
    """`clouds` clouds of N particles from N(start_mean, start_variance), in single precision.

    Mini-batches of `batch_size` of `n` rows, 0 for all, estimate the field h, of which the rows have the variance 1.
    """
    a, b, field, target = (float(np.asarray(number)) for number in modes)
    best = (field + b * target) / (a + b)
    line = np.linspace(-1.0, 1.0, n)
    kick = np.sqrt(2 * temperature * step_size)
    # in units of the noise, and particles first, as sums over a short last axis are slow
    x = np.sqrt(start_variance) / kick * rng.standard_normal((particles, clouds), np.float32)
    x = (start_mean / kick + x).astype(np.float32)
    fields = batch_means(rng, field + line / line.std(), batch_size, clouds, reshuffled)
    noise, keep = np.empty_like(x), np.float32(1 - step_size * a)
    toward, push = np.float32(-step_size * b / particles), step_size * b * target / kick
    found, sums, total = {}, np.zeros(3), np.add.reduce(x)
    for block in _blocks(steps, max(1, _AT_ONCE // clouds)):
        centres, seconds = np.empty((2, len(block), clouds), np.float32)
        for place, step in enumerate(block):
            if step:
                x *= keep
                x += toward * total + (push + step_size / kick * next(fields)).astype(np.float32)
                rng.standard_normal(dtype=np.float32, out=noise)
                x += noise
            total = np.add.reduce(x, out=centres[place])
            np.einsum("ij,ij->j", x, x, out=seconds[place])
        total, centre, second = total.copy(), kick / particles * centres.astype(float), kick**2 / particles * seconds
        spread = (second - centre**2) * (particles / (particles - 1))
        for step in set(checkpoints) & set(block):
            place = step - block[0]
            found[step] = centre[place].mean(), spread[place].mean(), centre[place].var(ddof=1)
        late = np.array(block) > steps // 4
        energy = a / 2 * second - field * centre + b / 2 * (centre - target) ** 2
        sums += [values[late].sum() / clouds for values in (spread, (centre - best) ** 2, energy)]
    moments = GaussianMoments(*np.transpose([found[step] for step in checkpoints]))
    return CloudRun(moments, *(sums / (steps - steps // 4)))


def _blocks(steps: int, length: int) -> Iterator[range]:
    for first in range(0, steps + 1, length):
        yield range(first, min(first + length, steps + 1))


def batch_means(
    rng: np.random.Generator, rows: np.ndarray, batch_size: int, clouds: int, reshuffled: bool
) -> Iterator[Any]:
    """The mean of the rows that each of `clouds` clouds sees, step after step."""
    n = len(rows)
    while not batch_size:
        yield np.full(clouds, rows.mean())
    ahead = max(1, _AT_ONCE // (clouds * n))
    while reshuffled:
        order = rng.permuted(np.tile(rows, (ahead * clouds, 1)), axis=1)
        means = (
            order[:, : n // batch_size * batch_size].reshape(ahead, clouds, n // batch_size, batch_size).mean(axis=3)
        )
        yield from means.transpose(0, 2, 1).reshape(-1, clouds)
    while True:
        # Floyd's algorithm: a number that is taken gives way to the largest one allowed
        chosen = rng.integers(0, n - batch_size + 1 + np.arange(batch_size), (ahead * clouds, batch_size))
        for place in range(1, batch_size):
            taken = (chosen[:, :place] == chosen[:, place, None]).any(axis=1)
            chosen[taken, place] = n - batch_size + place
        yield from rows[chosen].mean(axis=1).reshape(ahead, clouds)
