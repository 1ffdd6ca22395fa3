"""Linear regression tasks with coefficients from one prior, on inputs that they share or of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unlazy.random import normal

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike


class LinearTasks(NamedTuple):
    """Tasks in groups that share their inputs."""

    inputs: Array
    """X, (groups, n, d)."""
    labels: Array
    """Y = X B + noise, (groups, n, tasks of a group)."""
    coefficients: Array
    """B, (groups, d, tasks of a group)."""


def linear_tasks(
    key: Array,
    spectrum: ArrayLike,
    prior: ArrayLike,
    n: int,
    tasks: int,
    noise_variance: ArrayLike,
    *,
    shared: bool = True,
) -> LinearTasks:
    """y = x.b + noise with independent features of the variances `spectrum` and coefficients of the variances `prior`.

    `shared`: all tasks are one group on n inputs. Otherwise every task is a group on n inputs of its own.
    """
    import jax
    import jax.numpy as jnp

    spectrum, prior = jnp.asarray(spectrum), jnp.asarray(prior)
    groups, together = (1, tasks) if shared else (tasks, 1)
    input_key, task_key = jax.random.split(key)
    inputs = normal(input_key, (groups, n, spectrum.size)) * jnp.sqrt(spectrum)
    drawn = normal(task_key, (groups, spectrum.size + n, together))
    coefficients, noise = drawn[:, : spectrum.size] * jnp.sqrt(prior)[:, None], drawn[:, spectrum.size :]
    return LinearTasks(inputs, inputs @ coefficients + jnp.sqrt(noise_variance) * noise, coefficients)


def first_tasks(data: LinearTasks, tasks: ArrayLike) -> LinearTasks:
    """The data in which means over all tasks are means over the first so many, a number that may be traced.

    Labels and coefficients of these are scaled up, those of the others are 0.
    """
    import jax.numpy as jnp

    groups, _, together = data.labels.shape
    number = jnp.arange(groups * together).reshape(groups, 1, together)
    scale = jnp.where(number < tasks, jnp.sqrt(groups * together / jnp.asarray(tasks)), 0.0)
    return data._replace(labels=scale * data.labels, coefficients=scale * data.coefficients)
