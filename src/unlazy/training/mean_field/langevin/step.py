"""The one step of Langevin dynamics, with given noise or with that of its number."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.optim.langevin_noise import langevin_kick
from unlazy.random import normals_at


def langevin_step(
    noise: Array,
    particles: Array,
    gradient: Array,
    *,
    temperature: ArrayLike,
    confinement: ArrayLike,
    step_size: ArrayLike,
) -> Array:
    """x - eta (G + 2 lambda_1 x) + sqrt(2 lambda_2 eta) xi with the gradient G and standard normal numbers xi.

    lambda_1 is the confinement, lambda_2 the temperature; the precision is that of the particles.
    """
    rate, weight, heat = (jnp.asarray(x, particles.dtype) for x in (step_size, confinement, temperature))
    return particles - rate * (gradient + 2 * weight * particles) + langevin_kick(noise, heat, rate)


def noisy_step(key: Array, number: ArrayLike, particles: Array, gradient: Array, **numbers: ArrayLike) -> Array:
    """`langevin_step` with the noise that `unlazy.random.normals_at` has for step `number`."""
    noise = normals_at(key, number, particles.shape, particles.dtype)
    return langevin_step(noise, particles, gradient, **numbers)
