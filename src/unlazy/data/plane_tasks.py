"""Regression tasks that share a plane: each is a sum of tanh units in the first two coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unlazy.random import normal

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike


class PlaneTasks(NamedTuple):
    """Training data, and fresh inputs with what their labels are without noise."""

    inputs: Array
    """(n, d)."""
    labels: Array
    """(n, tasks)."""
    fresh_inputs: Array
    fresh_values: Array


def plane_tasks(
    key: Array, n: int, d: int, tasks: int, noise_variance: ArrayLike, *, units: int = 3, fresh: int = 500
) -> PlaneTasks:
    """x ~ N(0, I_d), and sum_k tanh(u_k . (x_1, x_2)) with `units` normal u_k for every task."""
    import jax
    import jax.numpy as jnp

    input_key, unit_key, noise_key, fresh_key = jax.random.split(key, 4)
    inputs, new = normal(input_key, (n, d)), normal(fresh_key, (fresh, d))
    directions = normal(unit_key, (2, units * tasks))
    train, targets = (jnp.tanh(x[:, :2] @ directions).reshape(len(x), units, tasks).sum(axis=1) for x in (inputs, new))
    return PlaneTasks(inputs, train + jnp.sqrt(noise_variance) * normal(noise_key, (n, tasks)), new, targets)
