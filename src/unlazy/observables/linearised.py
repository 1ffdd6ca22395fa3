"""What the linearisation of a network around its initialisation says of training."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


def linearised_displacement(kernel: Array, labels: Array, rate: ArrayLike, steps: int) -> Array:
    """How far gradient descent moves the weights of a linearised network whose outputs are 0 at the start.

    For the loss |f - y|^2 / (2n) and the tangent kernel K = J J^T with eigenvalues k_i and eigenvectors u_i,

        |W - W0|_F^2 = sum_i (1 - (1 - rate k_i / n)^steps)^2 (u_i . y)^2 / k_i.

    Exact for a network that is linear in its weights, and for any network in the lazy limit (Chizat, Oyallon & Bach
    2019). The rate must be stable: rate k_i / n < 1.
    """
    eigenvalues, vectors = jnp.linalg.eigh(kernel)
    smallest = jnp.finfo(kernel.dtype).eps * eigenvalues[-1]
    eigenvalues = jnp.maximum(eigenvalues, smallest)
    learned = -jnp.expm1(steps * jnp.log1p(-jnp.asarray(rate) * eigenvalues / len(labels)))
    return jnp.sqrt(jnp.sum((learned * (vectors.T @ labels)) ** 2 / eigenvalues))
