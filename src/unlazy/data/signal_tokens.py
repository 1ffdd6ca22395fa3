"""Samples whose first token is the signal y mu and whose other tokens are noise, dense or sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike


class Tokens(NamedTuple):
    """Samples of L tokens, of which the first is y mu and the others are noise: `x` (n, L, d), `y` (n,)."""

    x: Array
    y: Array


def draw_tokens(key: Array, n: int, d: int, tokens: int, *, signal_norm: ArrayLike) -> Tokens:
    """Samples with alternating labels and dense noise; mu is along the first coordinate."""
    import jax.numpy as jnp

    from unlazy.random import normal

    noise = normal(key, (n, tokens - 1, d))
    y = _alternating(n, noise.dtype)
    signal = y[:, None, None] * jnp.where(jnp.arange(d) < 1, signal_norm, 0.0)
    return Tokens(jnp.concatenate([signal.astype(noise.dtype), noise], axis=1), y)


def draw_sparse_tokens(
    key: Array,
    n: int,
    fresh: int,
    *,
    signal_norm: ArrayLike,
    signal_coordinates: ArrayLike,
    noise_coordinates: ArrayLike,
    largest_noise_coordinates: int,
) -> Tokens:
    """n + fresh samples (y mu, xi), xi with s = `noise_coordinates` entries N(0, 1/s) where no other sample has any.

    The coordinates are in blocks of the size `largest_noise_coordinates`: mu is spread evenly over the first
    `signal_coordinates` of block 0, blocks 1 to n have the noise of one sample each, and block n + 1 that of all fresh
    ones, which no weight has seen.
    """
    import jax.numpy as jnp

    from unlazy.random import normal

    size, samples = largest_noise_coordinates, jnp.arange(n + fresh)
    within = jnp.arange(size)
    scale = jnp.where(within < noise_coordinates, 1 / jnp.sqrt(noise_coordinates), 0.0)
    entries = scale * normal(key, (n + fresh, size))
    y = _alternating(n + fresh, entries.dtype)
    mu = jnp.where(within < signal_coordinates, signal_norm / jnp.sqrt(signal_coordinates), 0.0)
    x = jnp.zeros((n + fresh, 2, n + 2, size), entries.dtype)
    x = x.at[samples, 0, 0].set(y[:, None] * mu).at[samples, 1, 1 + jnp.minimum(samples, n)].set(entries)
    return Tokens(x.reshape(n + fresh, 2, -1), y)


def _alternating(n: int, dtype: Any) -> Array:
    import jax.numpy as jnp

    return jnp.where(jnp.arange(n) % 2 == 0, 1.0, -1.0).astype(dtype)
