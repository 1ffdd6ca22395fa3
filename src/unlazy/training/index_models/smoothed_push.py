"""What an example does to a neuron on a smoothed loss, as a push of `overlap_chain`."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.training.index_models.overlap_chain import Rule


def smoothed_push(degree: int, radius: ArrayLike, d: ArrayLike) -> Callable[..., Array]:
    """psi = y (ds/du - (u/rho) ds/drho) of the correlation loss that is averaged over a sphere around w.

        s(u, rho) = E_t h_k((u + lambda rho t) / (1 + lambda^2)^(1/2)),      u = w.x, rho = |x - u w|

    h_k is link and activation, `radius` is lambda, and t a coordinate of a uniform point of the sphere in d - 1
    dimensions: w + lambda e with e orthogonal to w and uniform is what w is replaced by. The sample's gradient along w
    is left out, as always, and its direction is that of x - u w, so that the overlap remains a chain. Source: Damian,
    Nichani, Ge & Lee (2023).
    """
    # He_k(v) = sum_i (-1)^i k! / (i! (k-2i)! 2^i) v^(k-2i); E t^(2j) = (2j-1)!! / ((d-1)(d+1)...)
    terms = [(k, _coefficient(degree, (degree - k) // 2)) for k in range(degree, 0, -2)]

    def moment(j: int) -> Array:
        return math.prod(range(1, 2 * j, 2)) / jnp.prod(jnp.stack([d - 1.0 + 2 * i for i in range(j)] or [1.0 + 0 * d]))

    def push(rule: Rule, derivative: Callable, along: Array, label: Array, square: Array) -> Array:
        del derivative
        scale, wide = 1 / (1 + jnp.square(radius)), jnp.square(radius) * square * d
        total = jnp.zeros_like(along)
        for k, coefficient in terms:
            inner = jnp.zeros_like(along)
            for j in range(k // 2 + 1):
                # of E (u + lambda rho t)^k = sum_j C(k, 2j) u^(k-2j) (lambda rho)^(2j) E t^(2j)
                number = math.comb(k, 2 * j) * moment(j)
                if k > 2 * j:
                    inner = inner + number * (k - 2 * j) * along ** (k - 2 * j - 1) * wide**j
                if j:
                    inner = inner - number * 2 * j * along ** (k - 2 * j + 1) * wide ** (j - 1) * jnp.square(radius)
            total = total + coefficient * scale ** (k / 2) * inner
        return jnp.asarray(rule.sign * label * total)

    return push


def _coefficient(k: int, i: int) -> float:
    """Of v^(k-2i) in h_k."""
    return (-1) ** i * math.sqrt(math.factorial(k)) / (math.factorial(i) * math.factorial(k - 2 * i) * 2**i)
