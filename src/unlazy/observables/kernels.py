"""The kernels of a network, and how far training has changed them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from unlazy.functions.activations import activation


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
    slopes = activation(network.activation).derivative(x @ network.first_layer)
    weighted = network.scale * network.second_layer * slopes
    return (x @ x.T) * (weighted @ weighted.T)


def tangent_kernel(model: Any, x: Array, *, trained: Callable[[Any], Any]) -> Array:
    """The tangent kernel grad f(x) . grad f(x') of any scalar `model(batch)`, on the rows of x: (n, n).

    The gradient is with respect to the leaves `trained(model)`, as in `training.loop.train`. It holds one
    gradient per row of x in memory.
    """

    def output(parameters: Any, row: Array) -> Array:
        return eqx.tree_at(trained, model, parameters)(row[None])[0]

    gradients = jax.vmap(jax.grad(output), in_axes=(None, 0))(trained(model), x)
    flat = [leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(gradients)]
    return sum((leaf @ leaf.T for leaf in flat), jnp.zeros((len(x), len(x)), x.dtype))


def relative_change(initial: Array, final: Array) -> Array:
    """The relative Frobenius change |K - K0|_F / |K0|_F of a kernel matrix."""
    return jnp.linalg.norm(final - initial) / jnp.linalg.norm(initial)
