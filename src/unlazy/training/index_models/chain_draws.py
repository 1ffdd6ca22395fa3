"""Random numbers for chains of millions of steps: a short generator, and chi-square numbers without rejection.

    one, other = map(to_normal, symmetric(key, 2, (64, 1000)))
    rest = chi_square(98.0, other)

Threefry-4x32 with 12 rounds makes four words at a time and takes a third of the time of JAX's generator, Threefry-2x32
with 20, in which these chains spent most of theirs. Each call gets its four key words from JAX's own bits, so that keys
are split and folded as everywhere. Source: Salmon, Moraes, Dror & Shaw (2011), who find that it passes BigCrush.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_PARITY = 0x1BD11BDA
_ORDERS = 14, 24
_REACH = 5.5
"""More than the largest |number| of `to_normal`, 5.42."""


def threefry(key: tuple[Any, ...], counter: tuple[Any, ...], rounds: int = 12) -> tuple[Array, ...]:
    """Threefry-4x32: four words (uint32) for four words of a key and of a counter, elementwise."""
    keys = [jnp.asarray(word, jnp.uint32) for word in key]
    keys.append(keys[0] ^ keys[1] ^ keys[2] ^ keys[3] ^ jnp.uint32(_PARITY))
    x = [jnp.asarray(word, jnp.uint32) + own for word, own in zip(counter, keys[:4], strict=True)]
    for turn in range(rounds):
        one, other = (1, 3) if turn % 2 == 0 else (3, 1)
        for first, second, by in zip((0, 2), (one, other), _ROTATIONS[turn % 8], strict=True):
            x[first] = x[first] + x[second]
            x[second] = (x[second] << by | x[second] >> (32 - by)) ^ x[first]
        if turn % 4 == 3:
            injected = turn // 4 + 1
            x = [word + keys[(injected + place) % 5] for place, word in enumerate(x)]
            x[3] = x[3] + jnp.uint32(injected)
    return tuple(x)


def symmetric(key: Array, count: int, shape: tuple[int, ...], dtype: Any = None) -> list[Array]:
    """`count` independent arrays of numbers uniform on (-1, 1), at the middles of 2^24 equal cells; size < 2^32."""
    real = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
    words = jax.random.bits(key, (4,), jnp.uint32)
    place = jax.lax.iota(jnp.uint32, math.prod(shape))
    found: list[Array] = []
    for group in range(-(-count // 4)):
        found += threefry(tuple(words), (place, group, 0, 0))
    return [_centred(word, real).reshape(shape) for word in found[:count]]


def _centred(word: Array, real: Any) -> Array:
    # signed, so that every middle of a cell is a float32
    cell = jax.lax.shift_right_arithmetic(jax.lax.bitcast_convert_type(word, jnp.int32), jnp.int32(8))
    return (cell.astype(real) + 0.5) * 2.0**-23


def to_normal(numbers: Array) -> Array:
    """Standard normal numbers of uniform ones on (-1, 1)."""
    return math.sqrt(2) * jax.lax.erf_inv(numbers)


def normals(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Independent standard normal numbers, as `unlazy.random.normal` but by the short generator."""
    size = math.prod(shape)
    # joined only when they are ready: XLA would draw the words again for each piece
    pieces = jax.lax.optimization_barrier([to_normal(u) for u in symmetric(key, 4, (-(-size // 4),), dtype)])
    return jnp.concatenate(pieces)[:size].reshape(shape)


def chi_square(freedom: ArrayLike, x: Array) -> Array:
    """Chi-square numbers of one `freedom` f >= 1 with the ranks of the standard normal numbers x, |x| <= 5.5.

        R = f (1 + s k)^3,      s = f^(-1/2), k = ((F_f^(-1)(Phi(x)) / f)^(1/3) - 1) / s

    The cube root makes k(x, s) smooth and nearly linear (Wilson & Hilferty 1931). A polynomial on each side of x = 0 is
    right within 10^-6 standard deviations of R for all f, so that the law is exact up to single precision; nothing is
    rejected, and f may be traced.
    """
    real = x.dtype
    scale = 1 / jnp.sqrt(jnp.asarray(freedom, real))
    basis = jnp.cos(jnp.arange(_ORDERS[1], dtype=real) * jnp.arccos(2 * scale - 1))
    place = jnp.abs(x) * (2 / _REACH) - 1
    below, above = (_horner(jnp.asarray(side, real) @ basis, place) for side in _root_series())
    return jnp.asarray(freedom, real) * jnp.maximum(1 + scale * jnp.where(x < 0, below, above), 0.0) ** 3


def _horner(coefficients: Array, x: Array) -> Array:
    found = jnp.zeros_like(x)
    for coefficient in coefficients[::-1]:
        found = found * x + coefficient
    return found


@cache
def _root_series() -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of k for x < 0 and x > 0: powers of 2 |x| / 5.5 - 1 times Chebyshev polynomials of 2 s - 1."""
    from scipy.special import gammainccinv, gammaincinv, ndtr

    in_x, in_scale = (np.cos(np.pi * (np.arange(order) + 0.5) / order) for order in _ORDERS)
    basis = np.polynomial.chebyshev.chebvander(in_scale, _ORDERS[1] - 1)
    tail, scale = ndtr(-_REACH * (in_x[:, None] + 1) / 2), (in_scale + 1) / 2
    half = 0.5 / scale**2
    below, above = (
        np.linalg.solve(np.vander(in_x, increasing=True), (np.cbrt(inverse(half, tail) / half) - 1) / scale)
        for inverse in (gammaincinv, gammainccinv)
    )
    return np.linalg.solve(basis, below.T).T, np.linalg.solve(basis, above.T).T
