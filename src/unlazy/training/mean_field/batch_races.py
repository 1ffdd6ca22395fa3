"""Energies of a tanh network on a budget of gradient evaluations, by any estimate of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from unlazy.theory.mean_field.dual import typical_cloud
from unlazy.theory.mean_field.optimum import MeanFieldOptimum
from unlazy.training.mean_field.langevin import run
from unlazy.training.mean_field.networks import scalar_functional


def race_energies(
    key: Array,
    law: MeanFieldOptimum,
    rows: tuple[np.ndarray, np.ndarray],
    at: Sequence[int],
    late: tuple[int, int],
    *,
    near: Array | float,
    particles: int,
    amplitude: float,
    used: Array | int,
    **dynamics: Any,
) -> tuple[Array, Array]:
    """F after the steps `at`, and its mean over 500 steps between two late ones, or as far as the run goes.

    The particles start at a typical cloud of the law if `near` is above 1/2, else from N(0, I): one of two starts for
    all runs, as a further draw would cost half a second of compilation. Of a batch the first `used` rows count, or all
    if it has fewer: one program for many sizes.
    """
    used = jnp.minimum(used, dynamics.get("batch_size", len(rows[0])))
    plain = scalar_functional(amplitude)

    def functional(cloud: Array, seen: Any) -> Array:
        if len(seen[0]) == len(rows[0]):
            return plain(cloud, seen)
        return scalar_functional(amplitude, jnp.arange(len(seen[0])) < used)(cloud, seen)

    watched = np.minimum(np.linspace(*late, 500).astype(int), at[-1])
    stops = np.unique([*at, *watched])
    far = np.random.default_rng(1).standard_normal((particles, 2))
    close = typical_cloud(law, particles, rng=np.random.default_rng(1))
    start = jnp.where(near > 0.5, jnp.asarray(close, jnp.float32), jnp.asarray(far, jnp.float32))
    data = tuple(jnp.asarray(column, jnp.float32) for column in rows)
    options: dict[str, Any] = {"data": data, "steps": at[-1], "record_at": stops.tolist(), "used": used, **dynamics}
    found = run(key, start, functional, **options).energies
    energy, last = (found[np.searchsorted(stops, steps)] for steps in (at, watched))
    return energy, last.mean()
