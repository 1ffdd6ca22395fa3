"""Muon with the exact polar factor."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from unlazy.checks import check_known


def scale_by_polar_factor(relative_tolerance: float | None = None) -> optax.GradientTransformation:
    """Replace every matrix U S V^T of the updates by its polar factor U V^T, the steepest direction in spectral norm.

    Singular values up to `relative_tolerance` times the largest (by default the larger side times the machine's
    epsilon) count as 0 and are dropped, so the factor of a matrix of rank r has r singular values 1 and the others 0.
    A vector is a matrix with one column: it is divided by its norm, and a number by its absolute value. Of a tensor
    with more axes the last two are the matrix and the others are a stack. Use `optax.partition` or `optax.masked` to
    treat some leaves otherwise.

    `optax.contrib.scale_by_muon` differs: its five Newton-Schulz steps take singular values above .003 of the matrix's
    norm to between .68 and 1.21 and smaller ones to less, it averages gradients first, and `optax.contrib.muon` gives
    leaves that are not matrices to Adam.
    Exact Muon with momentum is the chain below. An SVD costs O(rows columns min(rows, columns)) at every step.
    Source: Jordan et al. (2024), Muon; Bernstein & Newhouse (2024) for the norm.

    >>> import jax.numpy as jnp, optax
    >>> muon = optax.chain(optax.trace(0.95), scale_by_polar_factor(), optax.scale_by_learning_rate(0.1))
    >>> gradient = jnp.diag(jnp.array([5.0, 0.01, 0.0]))
    >>> change, _ = muon.update(gradient, muon.init(gradient))
    >>> print(-jnp.diag(change).round(3))
    [0.1 0.1 0. ]
    """
    if relative_tolerance is not None:
        check_known("relative_tolerance", relative_tolerance, low=0, high=1, ndim=0)

    def factor(leaf: Any) -> Array:
        update = jnp.asarray(leaf)
        if update.size == 0:
            return update
        # LAPACK knows no half precision
        precise = update.astype(jnp.promote_types(update.dtype, jnp.float32))
        found = _polar_factor(precise.reshape(-1, 1) if update.ndim < 2 else precise, relative_tolerance)
        return found.reshape(update.shape).astype(update.dtype)

    return optax.stateless(lambda updates, _: jax.tree.map(factor, updates))


def _polar_factor(matrices: Array, relative_tolerance: float | None) -> Array:
    left, values, right = jnp.linalg.svd(matrices, full_matrices=False)
    rounding = max(matrices.shape[-2:]) * float(jnp.finfo(matrices.dtype).eps)
    tolerance = rounding if relative_tolerance is None else relative_tolerance
    # not `values > ...`: what is not a number must stay visible
    kept = jnp.where((values <= tolerance * values[..., :1]) | (values == 0), 0.0, 1.0 + 0.0 * values)
    return (left * kept[..., None, :].astype(left.dtype)) @ right
