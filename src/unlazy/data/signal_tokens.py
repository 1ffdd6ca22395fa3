"""Samples whose first token is the signal y mu and whose other tokens are noise, dense or sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike


class Tokens(NamedTuple):
    """Samples of L tokens, of which the first is y mu and the others are N(0, I_d): `x` (n, L, d), `y` (n,)."""

    x: Array
    y: Array


def draw_tokens(
    key: Array, n: int, d: int, tokens: int, *, signal_norm: ArrayLike, signal_coordinates: ArrayLike = 1
) -> Tokens:
    """Samples with alternating labels; the first `signal_coordinates` entries of mu are equal, the others 0."""
    import jax.numpy as jnp

    from unlazy.random import normal

    noise = normal(key, (n, tokens - 1, d))
    y = jnp.where(jnp.arange(n) % 2 == 0, 1.0, -1.0).astype(noise.dtype)
    entry = signal_norm / jnp.sqrt(jnp.asarray(signal_coordinates, noise.dtype))
    mu = jnp.where(jnp.arange(d) < signal_coordinates, entry, 0.0)
    signal = y[:, None, None] * mu
    return Tokens(jnp.concatenate([signal.astype(noise.dtype), noise], axis=1), y)


def draw_supports(key: Array, n: int, d: int, noise_coordinates: int) -> Array:
    """Uniform subsets of k = `noise_coordinates` of the numbers 0..d-1, the rows of an (n, k) array; Floyd's way."""
    import jax
    import jax.numpy as jnp

    from unlazy.random import uniform

    last = jnp.arange(d - noise_coordinates, d)
    proposed = jnp.floor(uniform(key, (n, noise_coordinates)) * (last + 1)).astype(int)
    # In float32 a uniform number just below 1 times last + 1 may round up.
    proposed = jnp.minimum(proposed, last)

    def choose(k: Any, chosen: Array) -> Array:
        taken = (chosen == proposed[:, k, None]).any(axis=1)
        return chosen.at[:, k].set(jnp.where(taken, last[k], proposed[:, k]))

    return jax.lax.fori_loop(0, noise_coordinates, choose, jnp.full((n, noise_coordinates), -1))
