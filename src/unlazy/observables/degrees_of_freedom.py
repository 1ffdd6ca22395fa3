"""How much of the labels a kernel ridge fit uses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


def degrees_of_freedom(kernel: Array, ridge: ArrayLike) -> Array:
    """The degrees of freedom of ridge regression with kernel matrix K (n, n), the trace of its hat matrix.

        DoF = tr[K (K + n ridge I)^-1]

    The ridge is that of (1/n)|y - f|^2 + ridge |f|_K^2. It must be above the rounding error of K/n, so that the
    Cholesky factor exists.
    """
    return jnp.trace(solve_ridge(kernel, ridge, kernel))


@jax.custom_jvp
def log_volume(kernel: Array, ridge: ArrayLike) -> Array:
    """The logarithm of the volume by which a kernel K (n, n) exceeds its ridge, log det(I + K/(n ridge)).

    As a function of K its gradient is (K + n ridge I)^-1, where that of the degrees of freedom is
    n ridge (K + n ridge I)^-2. The assumption on the ridge is that of `degrees_of_freedom`.
    """
    n = len(kernel)
    factor = jnp.linalg.cholesky(jnp.eye(n, dtype=kernel.dtype) + kernel / (n * jnp.asarray(ridge)))
    return 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))


@log_volume.defjvp
def _log_volume_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    kernel, ridge = primals
    inverse = ridge_inverse(kernel, ridge)
    by_ridge = -jnp.sum(inverse * kernel) / jnp.asarray(ridge)
    return log_volume(kernel, ridge), jnp.sum(inverse * tangents[0]) + by_ridge * tangents[1]


def solve_ridge(kernel: Array, ridge: ArrayLike, right: Array) -> Array:
    """The dual coefficients (K + n ridge I)^-1 y of a ridge fit to the columns y of `right`, by Cholesky."""
    shift = len(kernel) * jnp.asarray(ridge)
    inverse = jax.lax.stop_gradient(ridge_inverse(kernel, ridge))
    return jax.lax.custom_linear_solve(
        lambda y: kernel @ y + shift * y, right, lambda _, y: inverse @ y, symmetric=True
    )


@jax.jit
def ridge_inverse(kernel: Array, ridge: ArrayLike) -> Array:
    """(K + n ridge I)^-1 from the Cholesky factor L, as L^-T L^-1.

    L^-1 is built from matrix products alone. XLA expands batched triangular solves into loops, and two of these that
    do not wait for each other can deadlock in one program on a CPU of two cores.
    """
    n = len(kernel)
    shifted = kernel + n * jnp.asarray(ridge) * jnp.eye(n, dtype=kernel.dtype)
    root = _lower_inverse(jnp.linalg.cholesky(shifted))
    return root.T @ root


def _lower_inverse(factor: Array) -> Array:
    """The inverse of a lower triangular matrix by doubling: [[A, 0], [B, C]]^-1 = [[A', 0], [-C' B A', C']]."""
    n = len(factor)
    size = 1 << (n - 1).bit_length()
    padded = jnp.eye(size, dtype=factor.dtype).at[:n, :n].set(factor)
    inverses = (1 / jnp.diagonal(padded))[:, None, None]
    while (block := inverses.shape[1]) < size:
        pairs = jnp.arange(0, size, 2 * block)[:, None, None]
        rows, columns = block + jnp.arange(block)[:, None], jnp.arange(block)
        upper, lower = inverses[0::2], inverses[1::2]
        corner = -lower @ padded[pairs + rows, pairs + columns] @ upper
        top = jnp.concatenate([upper, jnp.zeros_like(upper)], axis=2)
        inverses = jnp.concatenate([top, jnp.concatenate([corner, lower], axis=2)], axis=1)
    return inverses[0, :n, :n]
