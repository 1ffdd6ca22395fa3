"""Online SGD on an additive index model: one neuron as a chain of its overlaps, and a network of neurons.

    y = M^(-1/2) sum_l link(<x, theta_l>) + noise,      x ~ N(0, I_d), theta_1, ..., theta_M orthonormal
    w <- normalise(w + c (x - <w, x> w)),               c = (step_size/d) y link'(<w, x>), cut to |c| <= clip / sqrt(d)

one fresh pair (x, y) per step, correlation loss, activation = link. What the neurons of a network have in
common is the data alone, so that each of them is such a chain; the network is needed where they are used together.
`unlazy.theory.index_models.additive` has the flow. Source: Oko, Song, Suzuki & Wu (2024), first phase of their
algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unlazy.functions.elementwise import Link
from unlazy.random import chi_square, short_normals
from unlazy.training.index_models.online_index import TrainedLayer, move_together
from unlazy.training.loop import evolve

_BLOCK = 64
_PIECE = 16
"""Steps of a network that are made at once; a block is a multiple."""


class AdditiveRule(NamedTuple):
    """The model and the update; all numbers may be traced."""

    link: Link
    tasks: Any
    """M, at most the columns of the overlaps."""
    d: Any
    """At least M + 3."""
    step_size: Any
    noise_variance: Any = 0.0
    clip: Any = 1.0


class Escape(NamedTuple):
    """How long chains took; infinite where they had not arrived when the loop ended."""

    n: Array
    """Samples of each chain, (chains,)."""
    median_n: Array
    """Samples until half of the chains had arrived."""
    overlaps: Array
    """At the end of the loop, (chains, largest_tasks)."""


class _Draws(NamedTuple):
    along: Array
    rest: Array
    noise: Array
    tasks: Array
    """(..., largest_tasks, chains); the others are (..., chains)."""


def init(key: Array, width: int, largest_tasks: int, tasks: Any, d: Any, start_overlap: Any) -> Array:
    """Overlaps (width, largest_tasks) of uniform unit weights with the tasks; if > 0 `start_overlap` with the first."""
    numbers = short_normals(key, (width, largest_tasks + 1))
    drawn = jnp.where(jnp.arange(largest_tasks) < tasks, numbers[:, :-1], 0.0)
    rest = chi_square(d - tasks, numbers[:, -1])
    drawn = drawn / jnp.sqrt((drawn**2).sum(axis=1) + rest)[:, None]
    return jnp.where(start_overlap > 0, jnp.zeros((width, largest_tasks)).at[:, 0].set(start_overlap), drawn)


def escape(key: Array, start: Array, rule: AdditiveRule, target_overlap: Any, limit: Any) -> Escape:
    """Run chains from `start` until half have an |overlap| of `target_overlap`; `limit` may be traced.

    The overlaps `start` are (chains, largest_tasks). One step is exact for every d: with u ~ N(0, 1), g ~ N(0, I_M) and
    R ~ chi^2_{d-1-M}, the tasks see z = m u + v, v = (I - m m^T)^(1/2) g, and
    m <- (m + c v) / sqrt(1 + c^2 (|g|^2 + R)). Columns of `start` beyond the M-th must be 0 and stay it. The loop ends
    after `limit` < 2^31 samples, rounded up to a block.
    """
    chains, largest_tasks = start.shape
    needed = (chains + 1) // 2

    def move(state: tuple[Array, Array], given: tuple[Array, _Draws]) -> tuple[tuple[Array, Array], None]:
        overlaps, arrived = state
        step, draws = given
        overlaps = _chain_step(overlaps, draws, rule)
        there = jnp.abs(overlaps).max(axis=0) >= target_overlap
        return (overlaps, jnp.where(there, jnp.minimum(arrived, step), arrived)), None

    def block(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        overlaps, arrived, done = state
        draws = _draw(jax.random.fold_in(key, done), chains, largest_tasks, rule, start.dtype)
        steps = (done + 1 + jnp.arange(_BLOCK)).astype(arrived.dtype)
        (overlaps, arrived), _ = jax.lax.scan(move, (overlaps, arrived), (steps, draws))
        return overlaps, arrived, done + _BLOCK

    def going(state: tuple[Array, Array, Array]) -> Array:
        _, arrived, done = state
        return (jnp.isfinite(arrived).sum() < needed) & (done < limit)

    there = jnp.abs(start).max(axis=1) >= target_overlap
    # chains last: they are what a processor handles side by side
    first = (start.T, jnp.where(there, 0.0, jnp.inf), jnp.int32(0))
    overlaps, arrived, _ = jax.lax.while_loop(going, block, first)
    return Escape(arrived, jnp.sort(arrived)[needed - 1], overlaps.T)


def _draw(key: Array, chains: int, largest_tasks: int, rule: AdditiveRule, dtype: Any) -> _Draws:
    numbers = short_normals(key, (_BLOCK, largest_tasks + 3, chains), dtype)
    kept = (jnp.arange(largest_tasks) < rule.tasks)[:, None]
    rest = chi_square(rule.d - 1 - rule.tasks, numbers[:, 1])
    return _Draws(numbers[:, 0], rest, numbers[:, 2], numbers[:, 3:] * kept)


def _chain_step(overlaps: Array, draws: _Draws, rule: AdditiveRule) -> Array:
    kept = (jnp.arange(len(overlaps)) < rule.tasks)[:, None]
    square = (overlaps**2).sum(axis=0)
    across = (overlaps * draws.tasks).sum(axis=0) / (1 + jnp.sqrt(jnp.maximum(1 - square, 0.0)))
    moved = draws.tasks - overlaps * across
    z = overlaps * draws.along + moved
    label = (
        jnp.where(kept, rule.link(z), 0.0).sum(axis=0) / jnp.sqrt(rule.tasks)
        + jnp.sqrt(rule.noise_variance) * draws.noise
    )
    c = _step(label, draws.along, rule)
    length = 1 + c**2 * ((draws.tasks**2).sum(axis=0) + draws.rest)
    return (overlaps + c * moved) / jnp.sqrt(length)


def _step(label: Array, along: Array, rule: AdditiveRule) -> Array:
    most = rule.clip / jnp.sqrt(rule.d)
    return jnp.clip(rule.step_size / rule.d * label * rule.link.slope(along), -most, most)


def train_network(key: Array, weights: Array, rule: AdditiveRule, steps: int, records: int = 1) -> TrainedLayer:
    """Train the unit rows of `weights` (width, d) on the same `steps` samples, with `records` evenly spaced records.

    The overlaps are those with each task, (records, width, M). The tasks are the first M coordinate axes, which loses
    nothing for inputs and starts without a preferred direction; M = `rule.tasks` and d = `rule.d` must be plain
    integers here. `steps` is rounded up to full blocks per record.
    """
    d, tasks = weights.shape[1], rule.tasks
    blocks = -(-steps // (records * _BLOCK))

    def block(number: Array, weights: Array) -> Array:
        numbers = short_normals(jax.random.fold_in(key, number), (_BLOCK, d + 1), weights.dtype)
        labels = (
            rule.link(numbers[:, :tasks]).sum(axis=1) / jnp.sqrt(tasks) + jnp.sqrt(rule.noise_variance) * numbers[:, d]
        )
        pieces = numbers[:, :d].reshape(-1, _PIECE, d), labels.reshape(-1, _PIECE)

        def piece(weights: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
            return move_together(weights, *given, lambda along, _, label: _step(label, along, rule)), None

        return jax.lax.scan(piece, weights, pieces)[0]

    ends = [blocks * (place + 1) for place in range(records)]
    return TrainedLayer(*evolve(block, weights, ends[-1], record=lambda weights: weights[:, :tasks], record_at=ends))


def train_to_rest(key: Array, weights: Array, rule: AdditiveRule, steps: int, last: Sequence[float]) -> Array:
    """The weights of `train_network` if the last third of the steps has the step size times each of `last`."""
    first_key, last_key = jax.random.split(key)
    halfway = train_network(first_key, weights, rule, steps - steps // 3).weights

    def finish(step_size: Array) -> Array:
        return train_network(last_key, halfway, rule._replace(step_size=step_size), steps // 3).weights

    return jax.vmap(finish)(rule.step_size * jnp.asarray(last))
