"""The noise of Langevin dynamics, for the end of a chain."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import check_known


class LangevinNoiseState(NamedTuple):
    """The number of updates so far and the key of the next one."""

    updates: Array
    key: Array


def langevin_kick(normals: Array, temperature: ArrayLike, step_size: ArrayLike) -> Array:
    """sqrt(2 temperature step_size) xi, what a step of Langevin dynamics adds, in the precision of the normals xi."""
    return jnp.sqrt(2 * jnp.asarray(temperature) * jnp.asarray(step_size)).astype(normals.dtype) * normals


def langevin_noise(
    temperature: ArrayLike, step_size: optax.ScalarOrSchedule, seed: ArrayLike = 0
) -> optax.GradientTransformation:
    """Add independent N(0, 2 temperature step_size) numbers to updates that are already scaled by -step_size.

    Behind `optax.sgd(step_size)` it gives x <- x - eta grad F(x) + sqrt(2 temperature eta) xi, whose stationary law
    tends to exp(-F/temperature) with the step size eta. `step_size`, the same as in front, may be a schedule; both
    numbers may be traced. Mean-field dynamics of N particles, whose loss is a function of all of them, need N times the
    gradient: `optax.chain(optax.scale(N), optax.add_decayed_weights(2 * confinement), optax.sgd(step_size),
    langevin_noise(temperature, step_size))`; without the N they are N times too slow.

    `optax.add_noise` and `optax.noisy_sgd` (0.2.8) do the same only with the variance 2 temperature/eta, as theirs is
    added to the gradient and scaled by eta afterwards, and only with `gamma=0`: by default `noisy_sgd` anneals its
    variance, 0.01 at first, like steps^-0.55. With a schedule they cannot.

    >>> import jax, jax.numpy as jnp, optax
    >>> step_size, start = 0.1, jnp.zeros(4000)
    >>> noise = langevin_noise(temperature=0.2, step_size=step_size)
    >>> optimiser = optax.chain(optax.scale(0.5), optax.sgd(step_size), noise)  # F = x^2/4
    >>> def step(state, _):
    ...     x, memory = state
    ...     change, memory = optimiser.update(x, memory, x)
    ...     return (optax.apply_updates(x, change), memory), None
    >>> (x, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), length=100)
    >>> bool(abs(x.var() - 0.2 / (0.5 * (1 - step_size * 0.5 / 2))) < 0.04)
    True
    """
    check_known("temperature", temperature, low=0, ndim=0)
    check_known("seed", seed, low=0, ndim=0, whole=True)
    if not callable(step_size):
        check_known("step_size", step_size, low=0, ndim=0)

    def init(params: Any) -> LangevinNoiseState:
        del params
        return LangevinNoiseState(jnp.zeros((), jnp.int32), jax.random.key(seed))

    def update(updates: Any, state: LangevinNoiseState, params: Any = None) -> tuple[Any, LangevinNoiseState]:
        del params
        size = step_size(state.updates) if callable(step_size) else step_size
        key, own = jax.random.split(state.key)
        noise = optax.tree.random_like(own, updates, jax.random.normal)
        noisy = jax.tree.map(lambda step, xi: step + langevin_kick(xi, temperature, size), updates, noise)
        return noisy, LangevinNoiseState(optax.safe_increment(state.updates), key)

    return optax.GradientTransformation(init, update)
