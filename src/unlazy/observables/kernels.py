"""The kernels of a network, and how far training has changed them."""

from __future__ import annotations

from typing import Any, Protocol

import jax.numpy as jnp
from jax import Array

from unlazy.functions.elementwise import as_activation


class HiddenLayer(Protocol):
    """A network scale * sum_i a_i sigma(w_i . x), such as `models.two_layer.TwoLayer`."""

    first_layer: Any
    second_layer: Any
    scale: Any
    activation: Any

    def features(self, x: Array) -> Array: ...


def conjugate_kernel(network: HiddenLayer, x: Array) -> Array:
    """The kernel of the hidden layer, (1/N) sum_i sigma(w_i . x) sigma(w_i . x'), on rows of x: (n, n)."""
    features = network.features(x)
    return features @ features.T / features.shape[1]


def first_layer_tangent_kernel(network: HiddenLayer, x: Array) -> Array:
    """The tangent kernel of the first layer alone, on the rows of x: (n, n).

    sum_i grad_{w_i} f(x) . grad_{w_i} f(x') = scale^2 (x . x') sum_i a_i^2 sigma'(w_i . x) sigma'(w_i . x').
    """
    slopes = as_activation(network.activation).slope(x @ network.first_layer)
    weighted = network.scale * network.second_layer * slopes
    return (x @ x.T) * (weighted @ weighted.T)


def relative_change(initial: Array, final: Array) -> Array:
    """The relative Frobenius change |K - K0|_F / |K0|_F of a kernel matrix."""
    return jnp.linalg.norm(final - initial) / jnp.linalg.norm(initial)
