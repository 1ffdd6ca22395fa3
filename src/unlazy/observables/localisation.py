"""How the neurons of a network share tasks: what their overlaps with the tasks say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import ArrayLike


class Localisation(NamedTuple):
    """Numbers at every record but `overlap` and `covered_share`, which are at the end."""

    overlap: Array
    """|<w_j, theta_m>|, (largest_width, tasks)."""
    best_overlap: Array
    """The median over neurons of the best overlap."""
    worst_task_overlap: Array
    """The best overlap of the task that is found worst."""
    best_task_share: Array
    """The share of the best task in a neuron's squared overlaps, median over neurons."""
    arrived_share: Array
    """The share of neurons with an overlap of at least the target."""
    covered_share: Array
    """The share of tasks with such a neuron, for every width, on average over all choices of so many neurons."""


def localisation(overlaps: Array, target_overlap: float, width: Sequence[int]) -> Localisation:
    """What overlaps (records, largest_width, tasks) of any sign say about neurons that do not see each other's work."""
    overlaps = jnp.abs(overlaps)
    best, squares = overlaps.max(axis=2), overlaps**2
    found = (overlaps[-1] >= target_overlap).sum(axis=0)
    return Localisation(
        overlaps[-1],
        jnp.median(best, axis=1),
        overlaps.max(axis=1).min(axis=1),
        jnp.median(squares.max(axis=2) / squares.sum(axis=2), axis=1),
        (best >= target_overlap).mean(axis=1),
        1 - chance_to_miss(found, overlaps.shape[1], jnp.asarray(width, float)[:, None]).mean(axis=1),
    )


def chance_to_miss(found: Array, total: int, width: ArrayLike) -> Array:
    """The chance C(K - k, N) / C(K, N) that N of K neurons are without any of the k that found a task."""
    others = total - found
    enough = others >= width
    others = jnp.where(enough, others, width)
    logs = gammaln(others + 1) - gammaln(others - width + 1) + gammaln(total - width + 1) - gammaln(total + 1)
    return jnp.where(enough, jnp.exp(logs), 0.0)
