"""How far training has moved the weights."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class Displacement(NamedTuple):
    """Distances between two first layers (d, N) whose columns w_i are neurons.

    `frobenius` is |W - W0|_F, `relative` is |W - W0|_F / |W0|_F; `mean` and `largest` are those of
    |w_i - w0_i| over the neurons.
    """

    frobenius: Array
    relative: Array
    mean: Array
    largest: Array


def displacement(initial: Array, final: Array) -> Displacement:
    """How far the columns of `final` (d, N) are from those of `initial`, in four measures."""
    squared = jnp.sum((final - initial) ** 2, axis=0)
    neuron = jnp.sqrt(squared)
    frobenius = jnp.sqrt(jnp.sum(squared))
    return Displacement(frobenius, frobenius / jnp.sqrt(jnp.sum(initial**2)), jnp.mean(neuron), jnp.max(neuron))
