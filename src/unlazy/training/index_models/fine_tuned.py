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

    r_squared: Array
    """Test R^2 of the new task for every number of its samples, (layers, sizes)."""
    best_overlap: Array
    """The median neuron's largest overlap with a task's direction, (layers,)."""


def fine_tuned_scores(
    key: Array,
    layers: Sequence[str],
    n: Sequence[int],
    *,
    d: int,
    tasks: int,
    width: int,
    largest_n: int,
    fresh: int,
    task_samples_per_squared_dimension: float,
    relative_step_size: ArrayLike,
    noise_variance: ArrayLike,
) -> FineTuned:
    """Train neurons on the sum of He3 of `tasks` coordinates, then fit tanh(2 x_2) + |x_4| from n samples.

    The layers are `exact` (one coordinate per neuron), `localised` and `constant` (the last third of the
    steps a quarter as long, or as long), `subspace` (random among the tasks' coordinates) and `random` (the start).
    """
    train_key, draw_key, bias_key = jax.random.split(key, 3)
    numbers = normal(draw_key, ((2 * width + largest_n + fresh) * d + largest_n,))
    start, other, x = jnp.split(numbers[:-largest_n].reshape(-1, d), (width, 2 * width))
    start = start / jnp.linalg.norm(start, axis=1, keepdims=True)
    rule = AdditiveRule(as_link("He3"), tasks, d, relative_step_size / (d * tasks) ** 0.5, noise_variance)
    steps = round(task_samples_per_squared_dimension * tasks * d**2)
    localised, constant = train_to_rest(train_key, start, rule, steps, (0.25, 1.0))
    inside = jnp.where(jnp.arange(d) < tasks, other, 0.0)
    found = {
        "exact": jnp.eye(d)[jnp.arange(width) % tasks],
        "localised": localised,
        "constant": constant,
        "subspace": inside / jnp.linalg.norm(inside, axis=1, keepdims=True),
        "random": start,
    }
    signs, biases = jax.random.uniform(bias_key, (2 * width,), float, -2.5, 2.5).reshape(2, width)
    target = jnp.tanh(2 * x[:, 1]) + jnp.abs(x[:, 3])
    labels = target[:largest_n] + jnp.sqrt(noise_variance) * numbers[-largest_n:]

    def score(weights: Array, size: Array) -> Array:
        features = jnp.maximum(jnp.sign(signs) * (x @ weights.T) + biases, 0.0)
        return lasso_score(features[:largest_n], labels, size, features[largest_n:], target[largest_n:])

    stacked = jnp.stack([found[name] for name in layers])
    by_size = jax.vmap(score, (None, 0))
    scores = jax.vmap(by_size, (0, None))(stacked, jnp.asarray(n))
    return FineTuned(scores, jnp.median(jnp.abs(stacked[..., :tasks]).max(axis=2), axis=1))
