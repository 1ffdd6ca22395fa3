"""First layers that several tasks trained, or random ones in their subspace, with a Lasso readout of a new task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal
from unlazy.training.index_models.diverse_tasks import learn
from unlazy.training.index_models.lasso import lasso_cv

_MEAN = (2 / jnp.pi) ** 0.5
_TANH = 0.79703
"""The deviation of tanh(2 z)."""


class FineTuned(NamedTuple):
    """By first layer, in the order in which they were asked for."""

    risk: Array
    """Mean squared error for every number of tasks in the new target and of its samples, (layers, targets, sizes)."""
    best_overlap: Array
    """The median neuron's largest overlap with a task's direction, (layers,)."""


def fine_tuned_risks(
    key: Array,
    layers: Sequence[str],
    new_tasks: Sequence[int],
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
    """Train neurons on a sum of `tasks`, then fit M'^(-1/2) sum_m g_m(<x, theta_m>) of M' of them from n noisy samples.

    The new links g_m have mean 0 and variance 1: tanh(2 z) and |z| in turn. The layers are `exact` (one task per
    neuron), `localised`, `subspace` (random in the tasks' span) and `random` (the start); all get the same biases,
    signs and samples.
    """
    train_key, draw_key, bias_key = jax.random.split(key, 3)
    learned = learn(
        train_key,
        d=d,
        tasks=tasks,
        width=width,
        task_samples_per_squared_dimension=task_samples_per_squared_dimension,
        relative_step_size=relative_step_size,
    )
    directions = learned.directions
    numbers = normal(draw_key, (width * tasks + (largest_n + fresh) * d + largest_n,))
    inside, x, noise = jnp.split(numbers, (width * tasks, numbers.size - largest_n))
    inside, x = inside.reshape(width, tasks) @ directions, x.reshape(-1, d)
    found = {
        "exact": directions[jnp.arange(width) % tasks],
        "localised": learned.weights,
        "subspace": inside / jnp.linalg.norm(inside, axis=1, keepdims=True),
        "random": learned.start,
    }
    stacked = jnp.stack([found[name] for name in layers])
    signs, biases = jax.random.uniform(bias_key, (2 * width,), float, -2.5, 2.5).reshape(2, width)
    z = x @ directions.T
    parts = jnp.where(jnp.arange(tasks) % 2, (jnp.abs(z) - _MEAN) / (1 - _MEAN**2) ** 0.5, jnp.tanh(2 * z) / _TANH)
    within = jnp.arange(tasks) < jnp.asarray(new_tasks)[:, None]
    targets = parts @ (within / jnp.sqrt(jnp.asarray(new_tasks))[:, None]).T

    def risk(weights: Array, target: Array, size: Array) -> Array:
        features = jax.nn.relu(jnp.sign(signs) * (x @ weights.T) + biases)
        fit = lasso_cv(features[:largest_n], target[:largest_n] + jnp.sqrt(noise_variance) * noise, size, sweeps=8)
        return ((features[largest_n:] @ fit.coefficients + fit.intercept - target[largest_n:]) ** 2).mean()

    by_size = jax.vmap(risk, (None, None, 0))
    by_target = jax.vmap(by_size, (None, 1, None))
    risks = jax.vmap(by_target, (0, None, None))(stacked, targets, jnp.asarray(n))
    return FineTuned(risks, jnp.median(jnp.abs(stacked @ directions.T).max(axis=2), axis=1))
