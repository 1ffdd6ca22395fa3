"""The one way to draw standard normal numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax import Array


def normal(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Independent standard normal numbers of the given shape; `dtype` is JAX's default float if not given.

    They are drawn flat and reshaped: the numbers are the same, and XLA compiles a draw with a small trailing
    dimension many times slower on the CPU.
    """
    import jax

    flat = jax.random.normal(key, (math.prod(shape),), float if dtype is None else dtype)
    return flat.reshape(shape)
