"""A deep network that learns the basis of random functions on a circle: what their pretraining leaves below attention.

The loss is that of prompts without end from tasks without end, with the best attention matrix: the share of the tasks'
variance that the span of the N outputs misses. The least is reached by the N leading eigenfunctions of their kernel.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.training.loop import train

LARGEST = 16
"""Outputs that memory is kept for: one program serves all numbers of features below."""
_JITTER = 1e-3


class BasisNetwork(eqx.Module):
    """Two hidden layers of relu neurons on a number x in [0, 1)."""

    slopes: Array
    offsets: Array
    middle: Array
    middle_offsets: Array
    outputs: Array
    output_offsets: Array

    def __call__(self, points: Array) -> Array:
        first = jax.nn.relu(points[:, None] * self.slopes + self.offsets)
        second = jax.nn.relu(first @ self.middle + self.middle_offsets)
        return second @ self.outputs + self.output_offsets

    @classmethod
    def start(cls, rng: np.random.Generator, width: int, slope: float = 8.0) -> BasisNetwork:
        """Kinks of the first layer anywhere in [0, 1), the other weights of He and Glorot."""
        signs = slope * rng.choice([-1.0, 1.0], width)
        drawn = (
            signs,
            -signs * rng.random(width),
            rng.standard_normal((width, width)) * (2 / width) ** 0.5,
            np.zeros(width),
            rng.standard_normal((width, LARGEST)) / width**0.5,
            np.zeros(LARGEST),
        )
        return cls(*(jnp.asarray(array, jnp.float32) for array in drawn))


def learned_basis(
    rng: np.random.Generator, kernel: np.ndarray, features: int, *, width: int, steps: int, step_size: float
) -> np.ndarray:
    """The first `features` outputs of a network trained by Adam with a cosine schedule, on the grid i/G: (G, N).

    `kernel` is E f(x) f(x') of the tasks on that grid, (G, G).
    """
    network = BasisNetwork.start(rng, width)
    present = jnp.asarray(np.arange(LARGEST) < features, jnp.float32)
    trained = _trained(network, jnp.asarray(kernel, jnp.float32), present, steps, step_size)
    return np.asarray(trained, np.float64)[:, :features]


@partial(jax.jit, static_argnums=(3, 4))
def _trained(network: BasisNetwork, kernel: Array, present: Array, steps: int, step_size: float) -> Array:
    count = len(kernel)
    points = jnp.arange(count, dtype=jnp.float32) / count

    def loss(network: BasisNetwork) -> Array:
        """-tr S^-1 B, up to a constant in its value, with the gradient -tr S^-1 dB + tr S^-1 B S^-1 dS."""
        values = network(points) * present
        moment, captured = values.T @ values / count, values.T @ (kernel @ values) / count**2
        least = _JITTER * jnp.trace(moment) / present.sum()
        inverse = jax.lax.stop_gradient(jnp.linalg.inv(moment + least * jnp.eye(LARGEST) + jnp.diag(1 - present)))
        middle = inverse @ jax.lax.stop_gradient(captured) @ inverse
        return jnp.sum(middle * moment) - jnp.sum(inverse * captured)

    optimiser = optax.adam(optax.cosine_decay_schedule(step_size, steps))
    found = train(network, loss, optimiser, steps, trained=lambda network: jax.tree.leaves(network))
    return found.model(points)
