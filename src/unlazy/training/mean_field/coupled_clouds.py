"""Two clouds of particles with the same noise and different starts: how fast they forget where they began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normals_at
from unlazy.training.mean_field.langevin import run


def mean_differences(
    key: Array,
    potential: Callable[[Array], Array],
    d: int,
    *,
    interaction: ArrayLike,
    target_mean: ArrayLike,
    start_mean: float,
    start_variance: float,
    particles: int,
    record_at: Sequence[int],
    **dynamics: Any,
) -> Array:
    """E tanh(x.u) of the cloud from N(a u, v) minus that of the cloud from N(-a u, v), after the steps of `record_at`.

    F = E V(x.u) + (interaction/2)(E tanh(x.u) - target_mean)^2 for a random unit vector u of R^d that the particles do
    not know, V the `potential`; a and v are `start_mean` and `start_variance`. Deviations, noise and step bias that are
    common to both cancel. `dynamics` are options of `langevin.run`.
    """
    line_key, start_key, walk_key = jax.random.split(key, 3)
    line = normals_at(line_key, 0, (d,))
    line /= jnp.linalg.norm(line)
    around = jnp.sqrt(start_variance) * normals_at(start_key, 0, (particles, d))

    def functional(cloud: Array) -> Array:
        place = cloud @ line
        return potential(place).mean() + interaction / 2 * (jnp.tanh(place).mean() - target_mean) ** 2

    def mean(side: Array) -> Array:
        found = run(
            walk_key,
            around + side * start_mean * line,
            functional,
            observables=lambda cloud: jnp.tanh(cloud @ line).mean(),
            observe_every=record_at[-1],
            record_at=record_at,
            record_observables=True,
            **dynamics,
        )
        return found.records

    right, left = jax.vmap(mean)(jnp.asarray([1.0, -1.0]))
    return right - left
