"""What an example does to a neuron that takes several steps on it, as a push of `overlap_chain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from unlazy.training.index_models.overlap_chain import Rule

MOST_USES = 3


def repeated_push(uses: Any) -> Callable[..., Array]:
    """psi = (g_1 + ... + g_r) / r, g_j = a y sigma'(u_j + b), u_1 = u, u_{j+1} = u_j + s g_j, with r = `uses`, 1 to 3.

    The means of the gradients that a neuron sees in r steps on one example, each s/|x - u w|^2 times its gradient and
    along x - u w; then w is moved from where it was (Lee et al. 2024, Algorithm 1, has r = 2 and the step size s/d). r
    may be traced, and the `reuse` of the rule does not matter.
    """

    def push(rule: Rule, derivative: Callable, along: Array, label: Array, square: Array) -> Array:
        del square
        signed = rule.sign * label
        place, total = along + rule.bias, jnp.zeros_like(along)
        for use in range(MOST_USES):
            gradient = signed * derivative(place)
            total = total + jnp.where(use < uses, gradient, 0.0)
            place = place + rule.reuse_step_size * gradient
        return total / uses

    return push
