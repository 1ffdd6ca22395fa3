"""Density estimation by maximum mean discrepancy: clouds at the optimum of given data, and a fit with its rivals."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.models.functionals import mmd_functional
from unlazy.random import normal, uniform
from unlazy.theory.mean_field.normal_mixture import TwoNormals, normal_densities
from unlazy.theory.mean_field.optimum import MeanFieldOptimum
from unlazy.training.mean_field.langevin import run, variation_gradient


class TestFunctions(NamedTuple):
    """exp(-(x - centre)^2/(2 deviation^2)), whose growth in a step is a control variate."""

    centres: np.ndarray
    deviation: float


def watch_clouds(
    key: Array,
    optimum: MeanFieldOptimum,
    data: np.ndarray,
    *,
    particles: int,
    total: int,
    bandwidth: float,
    smoothing: float,
    places: np.ndarray,
    tests: TestFunctions,
    temperature: float,
    confinement: float,
    step_size: ArrayLike,
    steps: int,
    average_from: int,
    every: int,
) -> dict[str, Array]:
    """Time averages of clouds of N particles in one dimension, `total` in all, started from samples of their optimum.

    `scaled_energy_gap` is N (F - F*), `square` N times the squared deviation of the density from the optimum's, summed
    over places, and `offset` that deviation. `drift` is N times the expected growth, in a unit of time, of the mean of
    x^2/2 and of the test functions: 0 in the mean at stationarity, exactly for every step size.
    """
    single = mmd_functional(data, bandwidth, smoothing)
    best = normal_densities(places, optimum.grid.points[:, 0], smoothing) @ optimum.law.grid_masses
    best, spots, centres = (jnp.asarray(array, jnp.float32) for array in (best, places, tests.centres))

    def clouds(cloud: Array) -> Array:
        return cloud.reshape(total // particles, particles, 1)

    def functional(cloud: Array) -> Array:
        return jax.vmap(single)(clouds(cloud)).mean()

    def observables(cloud: Array) -> dict[str, Any]:
        ratio = (spots - clouds(cloud)) / smoothing
        density = jnp.exp(-(ratio**2) / 2).mean(axis=1) / (np.sqrt(2 * np.pi) * smoothing)
        energy = functional(cloud) + confinement * jnp.mean(cloud**2)
        force = variation_gradient(functional, cloud) + 2 * confinement * cloud
        moved, heat = cloud - step_size * force, 2 * temperature * step_size
        wide = tests.deviation**2 + heat
        after = tests.deviation / jnp.sqrt(wide) * jnp.exp(-((moved - centres) ** 2) / (2 * wide))
        bumped = after - jnp.exp(-((cloud - centres) ** 2) / (2 * tests.deviation**2))
        grown = jnp.concatenate([(moved**2 + heat - cloud**2) / 2, bumped], axis=1).mean(axis=0)
        return {
            "scaled_energy_gap": particles * (energy - optimum.energy),
            "drift": particles / step_size * grown,
            "square": particles * jnp.mean(jnp.sum((density - best) ** 2, axis=1)),
            "offset": jnp.mean(density - best, axis=0),
        }

    start_key, walk_key = jax.random.split(key)
    ranks = uniform(start_key, (total,), dtype=jnp.float32)
    cumulative = jnp.asarray(np.cumsum(optimum.law.grid_masses), jnp.float32)
    start = jnp.interp(ranks, cumulative, jnp.asarray(optimum.grid.points[:, 0], jnp.float32))[:, None]
    return run(
        walk_key,
        start,
        functional,
        steps=steps,
        temperature=temperature,
        confinement=confinement,
        step_size=step_size,
        observables=observables,
        observe_every=every,
        average_from=average_from,
    ).averages


def fit_and_rivals(
    key: Array,
    truth: TwoNormals,
    n: int,
    points: np.ndarray,
    *,
    particles: int,
    bandwidth: float,
    smoothing: float,
    kernel_bandwidths: np.ndarray,
    **dynamics: Any,
) -> dict[str, Any]:
    """Squared errors of densities at equally spaced points: of N particles, and of kernel density estimates.

    n data are drawn from the truth, of equal weights. The particles start at the first ones; their density is seen at
    the end and averaged over time, by `dynamics` of `langevin.run`. Of the rivals one has the bandwidth that is best
    for the sample, which needs the truth, and one Silverman's.
    """
    if truth.left_weight != 0.5:
        raise InputError(f"truth must have left_weight 0.5, got {truth.left_weight:g}")
    data_key, walk_key = jax.random.split(key)
    draws = normal(data_key, (2 * n,), jnp.float32)
    data = truth.centre * jnp.sign(draws[:n]) + truth.deviation * draws[n:]
    right = jnp.asarray(truth.density(points), jnp.float32)

    def density(centres: Array, deviation: ArrayLike) -> Array:
        ratio = (jnp.asarray(points, jnp.float32)[:, None] - centres) / deviation
        return jnp.exp(-(ratio**2) / 2).mean(axis=1) / (np.sqrt(2 * np.pi) * deviation)

    def error(estimate: Array) -> Array:
        return jnp.sum((estimate - right) ** 2) * (points[1] - points[0])

    found = run(
        walk_key,
        data[:particles, None],
        # the data themselves are the rows: what they add to F on their own moves no particle
        mmd_functional([0.0], bandwidth, smoothing),
        data=data[:, None],
        observables=lambda cloud: density(cloud[:, 0], smoothing),
        **dynamics,
    )
    kernels = jax.lax.map(lambda h: density(data, h), jnp.asarray(kernel_bandwidths, jnp.float32))
    errors = jax.vmap(error)(kernels)
    return {
        "snapshot_error": error(density(found.particles[:, 0], smoothing)),
        "average_error": error(found.averages),
        "best_bandwidth_error": errors.min(),
        "silverman_error": error(density(data, 1.06 * data.std() * n**-0.2)),
        "average_density": found.averages,
        "kernel_density": kernels[errors.argmin()],
    }
