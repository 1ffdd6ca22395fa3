"""Every way to draw numbers in JAX, each for its own place; all are functions of a key, and JAX's keys serve all.

| what | law | for |
| --- | --- | --- |
| `normal`, `uniform` | JAX's own | single draws: data, starts, tests |
| `normals_at`, `uniforms_at` | 24 bits | a draw of one array inside a loop of steps, by the number of the step |
| `symmetric`, `to_normal`, `short_normals` | 24 bits | several arrays at once, for blocks of many short steps |
| `chi_square` | of a normal number's rank, single precision | chains: one polynomial, nothing rejected |
| `chi` | exact up to 1e-20 | a few numbers of many degrees of freedom each, in double precision |

XLA compiles a draw with a small trailing dimension many times slower on the CPU, so that all are drawn flat, then
reshaped.

JAX's generator, Threefry-2x32 with 20 rounds, is what loops spent most of their time in. `normals_at` gives each entry
a counter of its own (its place and the number of the step) and 13 rounds, of which one word is used, so that XLA draws,
transforms and uses it in one loop over the array. Generators that make several words at a time join pieces in the end,
and XLA on the CPU then makes every word again for every piece: 2 to 20 times slower for arrays of 500 x 101, and slower
to compile. Where several arrays of one shape are wanted there is nothing to join: `symmetric`, by Threefry-4x32 with 12
rounds, makes four of them in a third of JAX's time; its key words are JAX's own bits, so that keys are split and folded
as everywhere.

Sources: Salmon, Moraes, Dror & Shaw (2011), who find that both generators pass BigCrush with as many rounds; Giles
(2012) for the inverse of the error function; Wilson & Hilferty (1931); Marsaglia & Tsang (2000).
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

_PARITY = 0x1BD11BDA
_PAIR_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_FOUR_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
# the normal quantile over the number, as polynomials of w - 2.5 and sqrt(w) - 3, w = -log(1 - u^2); both sqrt(2) times
# those of Giles
_CENTRE: tuple[float, ...] = (2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6, 2.1858087e-4, -1.25372503e-3)
_CENTRE += (-4.17768164e-3, 0.246640727, 1.50140941)
_TAIL: tuple[float, ...] = (-2.00214257e-4, 1.00950558e-4, 1.34934322e-3, -3.67342844e-3, 5.73950773e-3, -7.6224613e-3)
_TAIL += (9.43887047e-3, 1.00167406, 2.83297682)
_ORDERS = 14, 24
_REACH = 5.5
"""More than the largest |number| of `to_normal`, 5.42."""
CHI_ATTEMPTS = 16
"""Rows of normal numbers for `chi`; it needs one more of uniform ones."""


def normal(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Independent standard normal numbers of the given shape; `dtype` is JAX's default float if not given."""
    flat = jax.random.normal(key, (math.prod(shape),), float if dtype is None else dtype)
    return flat.reshape(shape)


def uniform(key: Array, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = None) -> Array:
    """Independent numbers uniform on [low, high), otherwise as `normal`."""
    flat = jax.random.uniform(key, (math.prod(shape),), float if dtype is None else dtype, low, high)
    return flat.reshape(shape)


def normals_at(key: Array, number: ArrayLike, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Independent standard normal numbers of step `number` (an integer >= 0, may be traced), fewer than 2^32.

    They have 2^24 values, |x| < 5.42, each right within 10^-6. Not the numbers of `normal`. The key's own words are
    used, so that it must be a key of its own for this purpose.
    """
    return _quantile(uniforms_at(key, number, shape, dtype))


def uniforms_at(key: Array, number: ArrayLike, shape: tuple[int, ...], dtype: Any = None, *, first: int = 0) -> Array:
    """Independent numbers uniform on (-1, 1) of step `number`, those from which `normals_at` makes its normal ones.

    They are the numbers `first`, `first` + 1, ... of the step: others than n normal ones of it begin at n.
    """
    real = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
    place = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape) + jnp.uint32(first)
    words = jax.random.key_data(key).ravel()
    word, _ = threefry_pair((words[0], words[-1]), (place, jnp.asarray(number).astype(jnp.uint32)))
    return _centred(word, real)


def symmetric(key: Array, count: int, shape: tuple[int, ...], dtype: Any = None) -> list[Array]:
    """`count` independent arrays of numbers uniform on (-1, 1), at the middles of 2^24 equal cells; size < 2^32."""
    real = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
    words = jax.random.bits(key, (4,), jnp.uint32)
    place = jax.lax.iota(jnp.uint32, math.prod(shape))
    found: list[Array] = []
    for group in range(-(-count // 4)):
        found += threefry_four(tuple(words), (place, group, 0, 0))
    return [_centred(word, real).reshape(shape) for word in found[:count]]


def to_normal(numbers: Array) -> Array:
    """Standard normal numbers of uniform ones on (-1, 1)."""
    return math.sqrt(2) * jax.lax.erf_inv(numbers)


def short_normals(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Independent standard normal numbers, as `normal` but by the generator of `symmetric`."""
    size = math.prod(shape)
    # joined only when they are ready: XLA would draw the words again for each piece
    pieces = jax.lax.optimization_barrier([to_normal(u) for u in symmetric(key, 4, (-(-size // 4),), dtype)])
    return jnp.concatenate(pieces)[:size].reshape(shape)


def chi_square(freedom: ArrayLike, x: Array) -> Array:
    """Chi-square numbers of one `freedom` f >= 1 with the ranks of the standard normal numbers x, |x| <= 5.5.

        R = f (1 + s k)^3,      s = f^(-1/2), k = ((F_f^(-1)(Phi(x)) / f)^(1/3) - 1) / s

    The cube root makes k(x, s) smooth and nearly linear. A polynomial on each side of x = 0 is right within 10^-6
    standard deviations of R for all f, so that the law is exact up to single precision; nothing is rejected, and f may
    be traced.
    """
    real = x.dtype
    scale = 1 / jnp.sqrt(jnp.asarray(freedom, real))
    basis = jnp.cos(jnp.arange(_ORDERS[1], dtype=real) * jnp.arccos(2 * scale - 1))
    place = jnp.abs(x) * (2 / _REACH) - 1
    below, above = (_horner(jnp.asarray(side, real) @ basis, place) for side in _root_series())
    return jnp.asarray(freedom, real) * jnp.maximum(1 + scale * jnp.where(x < 0, below, above), 0.0) ** 3


def chi(normals: Array, uniforms: Array, freedom: Array) -> Array:
    """Independent chi variables with k numbers of degrees of freedom, each >= 1 and possibly traced.

    Of the attempts at a gamma variable, one per row of standard `normals` (a, k) and of `uniforms` (a + 1, k) on
    (0, 1), the first accepted one. An attempt fails with probability < 0.05, all of `CHI_ATTEMPTS` with less than
    1e-20. `jax.random.gamma` loops instead and takes seconds to compile.
    """
    shape = freedom / 2
    raised = jnp.where(shape < 1, shape + 1, shape)
    size = raised - 1 / 3
    small = normals / jnp.sqrt(9 * size)
    # log(v) + 1 - v for v = (1 + small)^3, without cancellation at large degrees of freedom.
    logarithm = jnp.log1p(jnp.maximum(small, jnp.finfo(float).eps - 1))
    bound = 9 * size * small**2 / 2 + size * (3 * logarithm - small * (3 + small * (3 + small)))
    accepted = (small > -1) & (jnp.log(uniforms[:-1]) < bound)
    cubes = jnp.take_along_axis((1 + small) ** 3, jnp.argmax(accepted, axis=0)[None], axis=0)[0]
    # A gamma variable of a shape below 1 is one of the next shape times a power of a uniform one.
    powers = uniforms[-1] ** (1 / shape)
    return jnp.sqrt(2 * size * cubes * jnp.where(shape < 1, powers, 1.0))


def threefry_pair(key: tuple[Any, Any], counter: tuple[Any, Any], rounds: int = 13) -> tuple[Array, Array]:
    """Threefry-2x32: two words (uint32) for two words of a key and of a counter, elementwise."""
    keys = [jnp.asarray(word, jnp.uint32) for word in key]
    keys.append(keys[0] ^ keys[1] ^ jnp.uint32(_PARITY))
    one, other = (jnp.asarray(word, jnp.uint32) + own for word, own in zip(counter, keys[:2], strict=True))
    for turn in range(rounds):
        by = _PAIR_ROTATIONS[turn % 8]
        one = one + other
        other = (other << by | other >> (32 - by)) ^ one
        if turn % 4 == 3:
            injected = turn // 4 + 1
            one = one + keys[injected % 3]
            other = other + keys[(injected + 1) % 3] + jnp.uint32(injected)
    return one, other


def threefry_four(key: tuple[Any, ...], counter: tuple[Any, ...], rounds: int = 12) -> tuple[Array, ...]:
    """Threefry-4x32: four words (uint32) for four words of a key and of a counter, elementwise."""
    keys = [jnp.asarray(word, jnp.uint32) for word in key]
    keys.append(keys[0] ^ keys[1] ^ keys[2] ^ keys[3] ^ jnp.uint32(_PARITY))
    x = [jnp.asarray(word, jnp.uint32) + own for word, own in zip(counter, keys[:4], strict=True)]
    for turn in range(rounds):
        one, other = (1, 3) if turn % 2 == 0 else (3, 1)
        for first, second, by in zip((0, 2), (one, other), _FOUR_ROTATIONS[turn % 8], strict=True):
            x[first] = x[first] + x[second]
            x[second] = (x[second] << by | x[second] >> (32 - by)) ^ x[first]
        if turn % 4 == 3:
            injected = turn // 4 + 1
            x = [word + keys[(injected + place) % 5] for place, word in enumerate(x)]
            x[3] = x[3] + jnp.uint32(injected)
    return tuple(x)


def _centred(word: Array, real: Any) -> Array:
    # signed, so that every middle of a cell is a float32
    cell = jax.lax.shift_right_arithmetic(jax.lax.bitcast_convert_type(word, jnp.int32), jnp.int32(8))
    return (cell.astype(real) + 0.5) * 2.0**-23


def _quantile(u: Array) -> Array:
    """The normal number with the rank of u, uniform on (-1, 1); in a loop of steps faster than `to_normal`."""
    w = -jnp.log((1 - u) * (1 + u))
    # w rounds to 0, or below, near u = 0
    root = jnp.sqrt(jnp.maximum(w, 0.0))
    central, outer = (jnp.full_like(u, series[0]) for series in (_CENTRE, _TAIL))
    for a, b in zip(_CENTRE[1:], _TAIL[1:], strict=True):
        central, outer = central * (w - 2.5) + a, outer * (root - 3.0) + b
    return math.sqrt(2) * u * jnp.where(w < 5.0, central, outer)


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
