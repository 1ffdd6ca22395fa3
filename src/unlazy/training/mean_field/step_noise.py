"""Normal numbers for loops of steps, one pass over the array from a counter to the number.

Each entry has a counter of its own (its place and the number of the step), so that XLA draws, transforms and uses it in
one loop over the array. Generators that make several words at a time (`chain_draws`, JAX's own) join pieces in the end,
and XLA on the CPU then makes every word again for every piece: 2 to 20 times slower for arrays of 500 x 101, and slower
to compile. Threefry-2x32 with 13 rounds, of which one word is used. Sources: Salmon, Moraes, Dror & Shaw (2011), who
find that it passes BigCrush; Giles (2012) for the inverse of the error function.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
# the normal quantile over the number, as polynomials of w - 2.5 and sqrt(w) - 3, w = -log(1 - u^2); both sqrt(2) times
# those of Giles
_CENTRE: tuple[float, ...] = (2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6, 2.1858087e-4, -1.25372503e-3)
_CENTRE += (-4.17768164e-3, 0.246640727, 1.50140941)
_TAIL: tuple[float, ...] = (-2.00214257e-4, 1.00950558e-4, 1.34934322e-3, -3.67342844e-3, 5.73950773e-3, -7.6224613e-3)
_TAIL += (9.43887047e-3, 1.00167406, 2.83297682)


def threefry_pair(key: tuple[Any, Any], counter: tuple[Any, Any], rounds: int = 13) -> tuple[Array, Array]:
    """Threefry-2x32: two words (uint32) for two words of a key and of a counter, elementwise."""
    keys = [jnp.asarray(word, jnp.uint32) for word in key]
    keys.append(keys[0] ^ keys[1] ^ jnp.uint32(_PARITY))
    one, other = (jnp.asarray(word, jnp.uint32) + own for word, own in zip(counter, keys[:2], strict=True))
    for turn in range(rounds):
        by = _ROTATIONS[turn % 8]
        one = one + other
        other = (other << by | other >> (32 - by)) ^ one
        if turn % 4 == 3:
            injected = turn // 4 + 1
            one = one + keys[injected % 3]
            other = other + keys[(injected + 1) % 3] + jnp.uint32(injected)
    return one, other


def normals_at(key: Array, number: ArrayLike, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Independent standard normal numbers of step `number` (an integer >= 0, may be traced), fewer than 2^32.

    They have 2^24 values, |x| < 5.42, each right within 10^-6. Not the numbers of `jax.random.normal`. The key's own
    words are used, so that it must be a key of its own for this purpose.
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
    cell = jax.lax.shift_right_arithmetic(jax.lax.bitcast_convert_type(word, jnp.int32), jnp.int32(8))
    return (cell.astype(real) + 0.5) * 2.0**-23


def noisy_step(
    key: Array,
    number: ArrayLike,
    particles: Array,
    gradient: Array,
    *,
    temperature: ArrayLike,
    confinement: ArrayLike,
    step_size: ArrayLike,
) -> Array:
    """x - eta (G + 2 lambda_1 x) + sqrt(2 lambda_2 eta) xi, step `number` of Langevin dynamics with the gradient G."""
    rate, weight, heat = (jnp.asarray(x, particles.dtype) for x in (step_size, confinement, temperature))
    kick = jnp.sqrt(2 * heat * rate) * normals_at(key, number, particles.shape, particles.dtype)
    return particles - rate * (gradient + 2 * weight * particles) + kick


def _quantile(u: Array) -> Array:
    """The normal number with the rank of u, uniform on (-1, 1)."""
    w = -jnp.log((1 - u) * (1 + u))
    # w rounds to 0, or below, near u = 0
    root = jnp.sqrt(jnp.maximum(w, 0.0))
    central, outer = (jnp.full_like(u, series[0]) for series in (_CENTRE, _TAIL))
    for a, b in zip(_CENTRE[1:], _TAIL[1:], strict=True):
        central, outer = central * (w - 2.5) + a, outer * (root - 3.0) + b
    return math.sqrt(2) * u * jnp.where(w < 5.0, central, outer)
