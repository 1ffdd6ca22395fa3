"""Chains for the certificate: annealed importance resampling with Metropolis-adjusted Langevin steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normals_at

KEPT_CLOUDS = 8
_TARGET_ACCEPTANCE = 0.7
_ANNEALING_SHARE = 0.6
_LOG_WEIGHT_DEVIATION = 0.5


class Chains(NamedTuple):
    """Chains of both halves, (2, m, ...), with their neurons at the rows, and the common logarithm of the step."""

    particles: Array
    values: Array
    ancestors: Array
    log_step: Array


class Frozen(NamedTuple):
    """V / lambda_2 = values @ pull + |x|^2 / (2 prior_variance)."""

    inputs: Array
    prior_variance: Array

    def potential(self, particles: Array, values: Array, pull: Array) -> Array:
        return values @ pull + jnp.sum(particles**2, axis=-1) / (2 * self.prior_variance)

    def gradient(self, particles: Array, values: Array, pull: Array) -> Array:
        return (pull * (1 - values**2)) @ self.inputs + particles / self.prior_variance


def _mala_step(draws: Callable[..., Array], chains: Chains, frozen: Frozen, pull: Array) -> tuple[Chains, Array]:
    """One Metropolis-adjusted Langevin step of every chain, and the share that was accepted."""
    particles, values, _, log_step = chains
    step = jnp.exp(log_step)
    *count, width = particles.shape
    drawn = draws(0, (*count, width + 2))
    kick, threshold = drawn[..., :width], _log_uniform(drawn[..., width], drawn[..., width + 1])
    drift = step * frozen.gradient(particles, values, pull)
    proposal = particles - drift + jnp.sqrt(2 * step) * kick
    proposed = jnp.tanh(proposal @ frozen.inputs.T)
    back = particles - proposal + step * frozen.gradient(proposal, proposed, pull)
    log_ratio = frozen.potential(particles, values, pull) - frozen.potential(proposal, proposed, pull)
    log_ratio += 0.5 * jnp.sum(kick**2, axis=-1) - jnp.sum(back**2, axis=-1) / (4 * step)
    accepted = (threshold < log_ratio)[..., None]
    moved = chains._replace(
        particles=jnp.where(accepted, proposal, particles), values=jnp.where(accepted, proposed, values)
    )
    return moved, accepted.mean(dtype=particles.dtype)


def _log_uniform(one: Array, other: Array) -> Array:
    """The logarithm of uniform numbers, minus half the sum of two squares of normal ones."""
    return -0.5 * (one**2 + other**2)


def _resample(offset: Array, chains: Chains, log_weights: Array) -> Chains:
    """Systematic resampling of each half by its weights."""
    count = log_weights.shape[1]
    ends = jnp.cumsum(jax.nn.softmax(log_weights, axis=1), axis=1)
    places = (jnp.arange(count, dtype=ends.dtype) + offset) / count
    chosen = jax.vmap(lambda row: jnp.searchsorted(row, places))(ends)
    chosen = jnp.minimum(chosen, count - 1)
    return chains._replace(
        particles=jnp.take_along_axis(chains.particles, chosen[..., None], axis=1),
        values=jnp.take_along_axis(chains.values, chosen[..., None], axis=1),
        ancestors=jnp.take_along_axis(chains.ancestors, chosen, axis=1),
    )


class ChainSums(NamedTuple):
    """What is added up while the chains are measured, in the first and the second half of that time."""

    values: Array
    """(2, 2, m, n), of the neurons of every chain."""
    squares: Array
    accepted: Array
    clouds: Array


def empty_sums(chains: Chains) -> ChainSums:
    """Before the first step."""
    *count, width = chains.particles.shape
    dtype = chains.values.dtype
    return ChainSums(
        jnp.zeros((2, *chains.values.shape), dtype),
        jnp.zeros(chains.values.shape[-1], dtype),
        jnp.zeros((), dtype),
        jnp.zeros((KEPT_CLOUDS, math.prod(count), width), dtype),
    )


def sample(
    key: Array,
    chains: Chains,
    frozen: Frozen,
    path: tuple[Array, Array],
    annealing: int,
    steps: int,
    first: ArrayLike = 0,
) -> tuple[Chains, Array, ChainSums]:
    """Bring the chains from the law of one pull to that of another, then measure; also the share of the path gone.

    Sequential Monte Carlo: the pull goes on by so much that the logarithms of the weights have a deviation of at most
    0.5, the chains are resampled by them and make a step. Modes between which no chain would jump in the end get their
    masses while it is still warm. Annealing and measuring are one loop, because it is compiled once. `first`
    is how many steps were made with this key before.
    """
    start, end = path
    direction = end - start
    moving = _ANNEALING_SHARE * annealing

    def one(number: Array, carry: tuple[Chains, Array, ChainSums]) -> tuple[Chains, Array, ChainSums]:
        chains, gone, sums = carry
        index = number.astype(start.dtype)

        def draws(use: int, shape: tuple[int, ...]) -> Array:
            return normals_at(key, 2 * (first + number) + use, shape, start.dtype)

        energy = chains.values @ direction
        spread = jnp.sqrt(jnp.var(energy, axis=1).max())
        advance = jnp.minimum(jnp.minimum(_LOG_WEIGHT_DEVIATION / spread, 1 / moving), 1 - gone)
        advance = jnp.where(index < annealing, advance, 0.0)
        uniform = jnp.exp(_log_uniform(*draws(1, (2,))))
        chains = jax.lax.cond(advance > 0, lambda: _resample(uniform, chains, -advance * energy), lambda: chains)
        chains, accepted = _mala_step(draws, chains, frozen, start + (gone + advance) * direction)
        gain = jnp.where(index < annealing, 0.6 / jnp.sqrt(1 + jnp.maximum(index - moving, 0)), 0.0)
        chains = chains._replace(log_step=chains.log_step + gain * (accepted - _TARGET_ACCEPTANCE))
        counted = (index >= annealing).astype(energy.dtype)
        place = jnp.clip((index - annealing) / steps, 0.0, 1 - 0.5 / steps)
        sums = ChainSums(
            sums.values.at[(2 * place).astype(int)].add(counted * chains.values),
            sums.squares + counted * jnp.mean(chains.values**2, axis=(0, 1)),
            sums.accepted + counted * accepted,
            sums.clouds.at[(KEPT_CLOUDS * place).astype(int)].set(chains.particles.reshape(sums.clouds.shape[1:])),
        )
        return chains, gone + advance, sums

    zero = jnp.zeros((), start.dtype)
    chains, gone, sums = jax.lax.fori_loop(0, annealing + steps, one, (chains, zero, empty_sums(chains)))
    means = ChainSums(2 * sums.values / steps, sums.squares / steps, sums.accepted / steps, sums.clouds)
    return chains, gone, means
