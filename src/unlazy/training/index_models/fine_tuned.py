"""First layers that several tasks trained, random ones and ideal ones, with a Lasso readout of a new task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.functions.elementwise import as_link
from unlazy.random import normal
from unlazy.training.index_models.additive_chain import AdditiveRule, train_to_rest
from unlazy.training.index_models.lasso import lasso_score


class FineTuned(NamedTuple):
    """By first layer, in the order in which they were asked for."""

    score: Array
    """Test R^2 of the new task for every number of its samples, (layers, sizes)."""
    overlap: Array
    """The median neuron's largest overlap with a task's direction, (layers,)."""


def fine_tuned_scores(
    key: Array,
    layers: Sequence[str],
    sizes: Sequence[int],
    *,
    d: int,
    tasks: int,
    neurons: int,
    most_samples: int,
    fresh: int,
    samples: float,
    step: ArrayLike,
    noise: ArrayLike,
) -> FineTuned:
    """Train neurons on the sum of He3 of `tasks` coordinates for samples M d^2 steps, then fit tanh(2 x_2) + |x_4|.

    The layers are `exact` (one coordinate per neuron), `localised` and `constant` (the last third of the
    steps a quarter as long, or as long), `subspace` (random among the tasks' coordinates) and `random` (the start).
    """
    train_key, draw_key, bias_key = jax.random.split(key, 3)
    n = most_samples
    numbers = normal(draw_key, ((2 * neurons + n + fresh) * d + n,))
    start, other, x = jnp.split(numbers[:-n].reshape(-1, d), (neurons, 2 * neurons))
    start = start / jnp.linalg.norm(start, axis=1, keepdims=True)
    rule = AdditiveRule(as_link("He3"), tasks, d, step / (d * tasks) ** 0.5, noise)
    localised, constant = train_to_rest(train_key, start, rule, round(samples * tasks * d**2), (0.25, 1.0))
    inside = jnp.where(jnp.arange(d) < tasks, other, 0.0)
    found = {
        "exact": jnp.eye(d)[jnp.arange(neurons) % tasks],
        "localised": localised,
        "constant": constant,
        "subspace": inside / jnp.linalg.norm(inside, axis=1, keepdims=True),
        "random": start,
    }
    signs, biases = jax.random.uniform(bias_key, (2 * neurons,), float, -2.5, 2.5).reshape(2, neurons)
    target = jnp.tanh(2 * x[:, 1]) + jnp.abs(x[:, 3])
    labels = target[:n] + noise * numbers[-n:]

    def score(weights: Array, size: Array) -> Array:
        features = jnp.maximum(jnp.sign(signs) * (x @ weights.T) + biases, 0.0)
        return lasso_score(features[:n], labels, size, features[n:], target[n:])

    stacked = jnp.stack([found[name] for name in layers])
    by_size = jax.vmap(score, (None, 0))
    scores = jax.vmap(by_size, (0, None))(stacked, jnp.asarray(sizes))
    return FineTuned(scores, jnp.median(jnp.abs(stacked[..., :tasks]).max(axis=2), axis=1))
