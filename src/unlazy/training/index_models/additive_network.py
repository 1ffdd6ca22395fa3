"""Online SGD on an additive index model: a network whose neurons see the same samples.

    y = sum_l a_l link_l(<x, theta_l>) + noise,         x ~ N(0, I_d), |theta_l| = 1
    w <- normalise(w + c (x - <w, x> w)),               c = (step_size/d) y sigma'(<w, x>), cut to |c| <= clip/sqrt(d)

one fresh pair (x, y) per step, correlation loss, activation sigma. What the neurons have in common is the data alone.
`unlazy.theory.index_models.additive` has the flow of one neuron, `task_race` the start. Source: Oko, Song, Suzuki & Wu
(2024), first phase of their algorithm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unlazy.functions.elementwise import Elementwise, Link
from unlazy.random import short_normals
from unlazy.training.index_models.online_index import TrainedLayer, move_together
from unlazy.training.loop import evolve

_BLOCK = 64
"""Steps whose random numbers are drawn together."""
_PIECE = 16
"""Steps of a network that are made at once; a block is a multiple."""


class AdditiveRule(NamedTuple):
    """The model and the update; all numbers may be traced."""

    link: Elementwise | Link
    """Of arrays whose last axis is the tasks: each may have a link of its own."""
    strengths: Array
    """a_l, (largest_tasks,), the factor M^(-1/2) included; 0 for tasks that are not there."""
    d: Any
    """Coordinates of the weights beyond the d-th must be 0 and stay it."""
    step_size: Any
    activation: Link
    noise_variance: Any = 0.0
    directions: Array | None = None
    """theta_l, unit rows (largest_tasks, columns of the weights); by default the first coordinate axes."""
    clip: Any = 1.0

    def fields(self, x: Array) -> Array:
        """<x, theta_l> of rows x."""
        return x[..., : self.strengths.size] if self.directions is None else x @ self.directions.T

    def target(self, x: Array) -> Array:
        """y without noise, of rows x."""
        return self.link(self.fields(x)) @ self.strengths


class Escape(NamedTuple):
    """When a share of the neurons had arrived, and where."""

    n: Array
    """Samples until then; infinite if the loop ended before."""
    overlaps: Array
    """With the tasks at the end of the loop, (width, largest_tasks), 0 for tasks that are not there."""


def escape(key: Array, weights: Array, rule: AdditiveRule, target_overlap: Any, limit: Any, share: Any = 0.5) -> Escape:
    """Train the unit rows of `weights` until a share of them has an |overlap| of `target_overlap` with some task.

    Looked at after every 64 samples. The loop ends after `limit` < 2^31 samples, rounded up to a block. All numbers may
    be traced.
    """
    there = rule.strengths > 0

    def overlaps(weights: Array) -> Array:
        return jnp.where(there, jnp.abs(rule.fields(weights)), 0.0)

    def arrived(weights: Array) -> Array:
        # a count, so that a share of 1/2 is exact
        return (overlaps(weights).max(axis=1) >= target_overlap).sum() >= share * len(weights)

    def going(state: tuple[Array, Array]) -> Array:
        weights, done = state
        return ~arrived(weights) & (done < limit)

    def block(state: tuple[Array, Array]) -> tuple[Array, Array]:
        weights, done = state
        return _block(jax.random.fold_in(key, done), weights, rule), done + _BLOCK

    weights, done = jax.lax.while_loop(going, block, (weights, jnp.int32(0)))
    n = jnp.where(arrived(weights), done.astype(weights.dtype), jnp.inf)
    return Escape(n, overlaps(weights))


def train_network(key: Array, weights: Array, rule: AdditiveRule, steps: int, records: int = 1) -> TrainedLayer:
    """Train the unit rows of `weights` (width, d) on the same `steps` samples, with `records` evenly spaced records.

    The overlaps are those with each task, (records, width, largest_tasks). `steps` is rounded up to full blocks per
    record.
    """
    blocks = -(-steps // (records * _BLOCK))

    def block(number: Array, weights: Array) -> Array:
        return _block(jax.random.fold_in(key, number), weights, rule)

    ends = [blocks * (place + 1) for place in range(records)]
    return TrainedLayer(*evolve(block, weights, ends[-1], record=rule.fields, record_at=ends))


def _block(key: Array, weights: Array, rule: AdditiveRule) -> Array:
    columns = weights.shape[1]
    numbers = short_normals(key, (_BLOCK, columns + 1), weights.dtype)
    x = jnp.where(jnp.arange(columns) < rule.d, numbers[:, :-1], 0.0)
    labels = rule.target(x) + jnp.sqrt(rule.noise_variance) * numbers[:, -1]
    most = rule.clip / jnp.sqrt(rule.d)

    def size(along: Array, _: Array, label: Array) -> Array:
        return jnp.clip(rule.step_size / rule.d * label * rule.activation.slope(along), -most, most)

    def piece(weights: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
        return move_together(weights, *given, size), None

    return jax.lax.scan(piece, weights, (x.reshape(-1, _PIECE, columns), labels.reshape(-1, _PIECE)))[0]
