"""Many small tanh networks in one program: a fixed number of particles is cut into networks of N, and N is traced.

The gradient of the mean over networks is that of each network, for which the number of particles is N.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.numerics.monte_carlo import placed_in_cells, window_shares
from unlazy.random import uniform
from unlazy.theory.mean_field.optimum import MeanFieldOptimum
from unlazy.training.mean_field import langevin

TOTAL, BLOCK = 128, 8
"""Particles of one program, and those of a block: networks are whole blocks."""


def network_shares(particles: ArrayLike) -> Array:
    """The matrix that averages blocks of 8 particles over the networks of N particles they belong to."""
    network = jnp.arange(TOTAL // BLOCK) * BLOCK // particles
    return (network[:, None] == network) * (BLOCK / jnp.asarray(particles, jnp.float32))


def block_predictions(cloud: Array, inputs: Array, shares: Array, amplitude: float) -> Array:
    """The predictions of the network of each block, (blocks, n), of particles (TOTAL, 2)."""
    hidden = amplitude * jnp.tanh(cloud[:, :1] * inputs + cloud[:, 1:])
    return shares @ hidden.reshape(len(shares), BLOCK, -1).mean(axis=1)


def relax_networks(
    key: Array,
    optimum: MeanFieldOptimum,
    inputs: np.ndarray,
    targets: np.ndarray,
    particles: ArrayLike,
    *,
    amplitude: float,
    temperature: float,
    confinement: float,
    step_size: float,
    every: int,
    edges: Sequence[int],
    segment: int = 8,
    starts: int = 5,
) -> dict[str, Array]:
    """How networks of N particles, started from independent samples of mu*, relax: averages over windows of time.

    They are observed at the start and after every so many steps; `edges` are the numbers of observations between which
    these are averaged. The first `segment` observations are made from several starts, the last of which goes on.

    `square` is N times the squared deviation of the predictions from those of mu*, `offset` the deviation, `drift` N
    times the growth of E|x|^2/2 in a unit of time, 0 in the mean at stationarity, and `scaled_energy_gap` N (F - F*).
    """
    z, y, mean = (jnp.asarray(a, jnp.float32) for a in (inputs, targets, optimum.predictions))
    start_key, run_key = jax.random.split(key)
    shares = network_shares(particles)

    def predictions(cloud: Array) -> Array:
        return block_predictions(cloud, z, shares, amplitude)

    def functional(cloud: Array) -> Array:
        return jnp.mean((predictions(cloud) - y) ** 2) / 2

    def observables(cloud: Array) -> dict[str, Any]:
        values = predictions(cloud)
        force = langevin.variation_gradient(functional, cloud) + 2 * confinement * cloud
        pulled = jnp.mean(jnp.sum((cloud - step_size / 2 * force) * force, axis=1))
        return {
            "square": particles * jnp.mean(jnp.sum((values - mean) ** 2, axis=1)),
            "offset": jnp.mean(values - mean, axis=0),
            "drift": particles * (cloud.shape[1] * temperature - pulled),
        }

    count = starts * TOTAL
    ranks = uniform(start_key, (3 * count,), dtype=jnp.float32)
    law, side = (optimum.grid.points, optimum.law.grid_masses), float(np.sqrt(optimum.grid.volume))
    fresh = placed_in_cells(*law, side, ranks[:count], ranks[count:].reshape(count, 2), jnp)
    fresh = fresh.reshape(starts, TOTAL, 2)

    def piece(cloud: Array, number: Array) -> tuple[Array, dict[str, Array]]:
        done = langevin.run(
            jax.random.fold_in(run_key, number),
            jnp.where(number < starts, fresh[jnp.minimum(number, starts - 1)], cloud),
            functional,
            steps=every * segment,
            temperature=temperature,
            confinement=confinement,
            step_size=step_size,
            observables=observables,
            observe_every=every * segment,
            record_at=[every * observation for observation in range(segment + 1)],
            record_observables=True,
        )
        return done.particles, done.records | {"scaled_energy_gap": particles * (done.energies - optimum.energy)}

    _, records = jax.lax.scan(piece, fresh[0], jnp.arange(starts - 1 + edges[-1] // segment))
    average = jnp.asarray(window_shares(edges), jnp.float32)

    def windows(values: Any) -> Array:
        later = values[starts:, 1:].reshape(-1, *values.shape[2:])
        return jnp.tensordot(average, jnp.concatenate([values[:starts].mean(axis=0), later]), axes=1)

    return {name: windows(values) for name, values in records.items()}
