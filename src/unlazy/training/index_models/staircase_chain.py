"""One-pass SGD that knows the first direction of a staircase and looks for the second: an exact chain of the overlap.

    y = z_1 + z_1 h_leap(z_2),      w <- normalise(w + c (x - <w, x> w)),      c = (step_size/d) y sigma'(u)

u = (z_1 + <w, x>) 2^(-1/2), sigma = h_(leap+1), |c| cut at d^(-1/2). x is without its part along the first direction,
so that of it only a = <w, x>, the part v along the second direction without its part along w, and the square R of what
is left count: a and v standard normal, R chi-square with d - 3 degrees of freedom.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from unlazy.functions.elementwise import LINKS, Link
from unlazy.random import chi_square, short_normals, symmetric, to_normal

_BLOCK = 64


def second_direction_n(
    key: Array, leap: int, chains: int, d: Any, step_size: Any, target_overlap: Any, limit: Any, share: Any = 0.5
) -> Array:
    """Samples until a share of the chains, from random starts, has |m| >= `target_overlap`; infinite after `limit`.

    Looked at after every 64 samples. 1 <= leap <= 6; all other numbers but `chains` may be traced.
    """
    link: Link = LINKS[f"He{leap}"] if leap > 1 else LINKS["identity"]
    slope = LINKS[f"He{leap + 1}"].slope
    start_key, run_key = jax.random.split(key)
    numbers = short_normals(start_key, (2, chains))
    start = numbers[0] / jnp.sqrt(numbers[0] ** 2 + chi_square(d - 2, numbers[1]))

    def step(m: Array, draws: tuple[Array, ...]) -> tuple[Array, None]:
        first, along, across, rest = draws
        side = jnp.sqrt((1 - m) * (1 + m))
        label = first * (1 + link(m * along + side * across))
        c = step_size / d * label * slope((first + along) / jnp.sqrt(2.0))
        c = jnp.clip(c, -1 / jnp.sqrt(d), 1 / jnp.sqrt(d))
        moved = (m + c * side * across) / jnp.sqrt(1 + c**2 * (across**2 + rest))
        return jnp.clip(moved, -1.0, 1.0), None

    def block(state: tuple[Array, Array]) -> tuple[Array, Array]:
        m, done = state
        first, along, across, ranked = map(
            to_normal, symmetric(jax.random.fold_in(run_key, done), 4, (_BLOCK, chains), m.dtype)
        )
        m, _ = jax.lax.scan(step, m, (first, along, across, chi_square(d - 3, ranked)))
        return m, done + _BLOCK

    def arrived(m: Array) -> Array:
        return (jnp.abs(m) >= target_overlap).sum() >= share * chains

    m, done = jax.lax.while_loop(lambda state: ~arrived(state[0]) & (state[1] < limit), block, (start, jnp.int32(0)))
    return jnp.where(arrived(m), done.astype(m.dtype), jnp.inf)
