"""What the linearisation of a network around its initialisation says of training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


def linearised_displacement(kernel: Array, labels: Array, step_size: ArrayLike, steps: int) -> Array:
    """How far gradient descent moves the weights of a linearised network whose outputs are 0 at the start.

    For the loss |f - y|^2 / (2n) and the tangent kernel K = J J^T the residuals follow r <- r - step_size K r / n from
    r = y, and the weights have moved by J^T a with a = (step_size / n) times the sum of all residuals:

        |W - W0|_F^2 = a . K a.

    Exact for a network that is linear in its weights, and for any network in the lazy limit (Chizat, Oyallon & Bach
    2019).
    """
    step = jnp.asarray(step_size) * kernel / len(labels)

    def advance(_: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        residual, total = state
        return residual - step @ residual, total + residual

    _, total = jax.lax.fori_loop(0, steps, advance, (labels, jnp.zeros_like(labels)))
    coefficients = jnp.asarray(step_size) * total / len(labels)
    return jnp.sqrt(coefficients @ kernel @ coefficients)
