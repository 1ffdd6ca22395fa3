"""A mean-field network whose predictions are watched while it runs: averaged over windows, and at single times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from unlazy.models.mean_field import ConvexLoss, network_functional, predictions
from unlazy.random import normals_at
from unlazy.training.mean_field.langevin import noisy_step, variation_gradient


def watch_predictions(
    key: Array,
    rows: tuple[Array, ...],
    *,
    loss: ConvexLoss,
    amplitude: float,
    particles: int,
    temperature: float,
    confinement: float,
    step_size: float,
    burn_in: int,
    steps: int,
    averaged: Sequence[int] | Array,
    snapshots: int,
    every: int,
) -> tuple[Array, Array]:
    """The predictions at the rows, averaged over the last of `steps` after a burn-in, and at `snapshots` single times.

    The particles start from the Gaussian of the confinement; predictions are seen every few steps. Returns arrays
    (windows, n), one for each number of steps in `averaged`, and (snapshots, n).
    """
    inputs, labels = rows[:2]
    functional = network_functional(loss, amplitude)

    def one_step(number: Any, cloud: Array) -> Array:
        return noisy_step(
            key,
            number,
            cloud,
            variation_gradient(functional, cloud, rows),
            temperature=temperature,
            confinement=confinement,
            step_size=step_size,
        )

    windows = (jnp.asarray(averaged) + every - 1) // every
    burnt = burn_in // every
    seen = burnt + steps // every
    begins = seen - windows
    apart = max(steps // every // snapshots, 1)

    def advance(carry: tuple[Array, Array, Array], index: Array) -> tuple[tuple[Array, Array, Array], None]:
        cloud, totals, kept = carry
        cloud = jax.lax.fori_loop(index * every, (index + 1) * every, one_step, cloud)
        found = predictions(cloud, inputs, amplitude)
        totals = totals + (index >= begins)[:, None] * found
        place = jnp.clip((index - burnt) // apart, 0, snapshots - 1)
        return (cloud, totals, kept.at[place].set(found)), None

    prior_scale = math.sqrt(temperature / (2 * confinement))
    first = prior_scale * normals_at(key, seen * every, (particles, inputs.shape[1]))
    start = (first, jnp.zeros((len(windows), len(labels))), jnp.zeros((snapshots, len(labels))))
    (_, totals, kept), _ = jax.lax.scan(advance, start, jnp.arange(seen))
    return totals / windows[:, None], kept
