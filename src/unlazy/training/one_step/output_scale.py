"""A two-layer network with output scale N^-s: how far its weights and kernels move in training."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from unlazy.data.single_index import SingleIndex
from unlazy.models.two_layer import TwoLayer
from unlazy.observables.alignment import target_alignment
from unlazy.observables.displacement import displacement
from unlazy.observables.kernels import conjugate_kernel, first_layer_tangent_kernel, relative_change
from unlazy.observables.linearised import linearised_displacement
from unlazy.training.loop import train


class Movement(NamedTuple):
    """Weights as in `Displacement`, kernels and alignments on fresh inputs, errors over those of predicting 0."""

    displacement: Array
    relative_displacement: Array
    neuron_displacement: Array
    linearised_displacement: Array
    conjugate_kernel_change: Array
    tangent_kernel_change: Array
    target_alignment: Array
    initial_target_alignment: Array
    training_error: Array
    test_error: Array
    diverged_at: Array


def train_first_layer(
    key: Array,
    data: SingleIndex,
    n: int,
    width: int,
    *,
    output_exponent: float | Array,
    relative_step_size: float | Array,
    steps: int,
    activation: str,
    fresh: int = 200,
) -> Movement:
    """Gradient descent on |f - y|^2 / (2n) with steps of `relative_step_size` N^(2s-1), from outputs that are 0."""
    data_key, network_key, test_key = jax.random.split(key, 3)
    x, y = data.sample(data_key, n)
    new = data.inputs(test_key, fresh)
    step_size, scale = relative_step_size * width ** (2 * output_exponent - 1), width**-output_exponent
    initial = TwoLayer.antisymmetric(network_key, data.d, width, activation=activation, scale=scale)

    def loss(network: TwoLayer) -> Array:
        return jnp.mean((network(x) - y) ** 2) / 2

    trained = train(initial, loss, optax.sgd(step_size), steps, trained=lambda network: network.first_layer)
    final, target = trained.model, data.target(new)
    moved = displacement(initial.first_layer, final.first_layer)
    kernels = (conjugate_kernel, first_layer_tangent_kernel)
    conjugate, tangent = (relative_change(kernel(initial, new), kernel(final, new)) for kernel in kernels)
    return Movement(
        moved.frobenius,
        moved.relative,
        moved.mean,
        linearised_displacement(first_layer_tangent_kernel(initial, x), y, step_size, steps),
        conjugate,
        tangent,
        target_alignment(final, data.link, data.direction),
        target_alignment(initial, data.link, data.direction),
        2 * loss(final) / jnp.mean(y**2),
        jnp.mean((final(new) - target) ** 2) / jnp.mean(target**2),
        trained.diverged_at,
    )
