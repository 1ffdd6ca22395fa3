"""How well the kernel of a hidden layer fits a single-index target."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from unlazy.functions.activations import activation
from unlazy.numerics.gaussian import normal_nodes

_NODES = 40


def target_alignment(network: Any, link: str, direction: Array) -> Array:
    """E[y y' K(x, x')] of independent inputs N(0, I), y = g(x.beta), K the conjugate kernel: (1/N) sum_i (E y phi_i)^2.

    Given s = x.beta the other part of w_i.x is normal with variance |w_i|^2 - (w_i.beta)^2, so that E y phi_i is an
    integral over a plane; 40 Gauss-Hermite points each way.
    """
    points, weights = (jnp.asarray(array, network.first_layer.dtype) for array in normal_nodes(_NODES))
    overlaps = direction @ network.first_layer
    rest = jnp.sqrt(jnp.maximum(jnp.sum(network.first_layer**2, axis=0) - overlaps**2, 0.0))
    sigma = activation(network.activation)
    hidden = overlaps[:, None, None] * points[:, None] + rest[:, None, None] * points
    means = jnp.einsum("a,b,iab->i", weights * activation(link)(points), weights, sigma(hidden))
    return jnp.mean(means**2)
