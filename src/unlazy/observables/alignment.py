"""How well the kernel of a hidden layer fits a single-index target."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from unlazy.functions.elementwise import as_activation, as_link
from unlazy.numerics.wide_kernel import hermite_halves

_DEGREE = 60


def target_alignment(network: Any, link: Any, direction: Array) -> Array:
    """E[y y' K(x, x')] of independent inputs N(0, I), y = g(x.beta), K the conjugate kernel: (1/N) sum_i (E y phi_i)^2.

        E y phi_i = sum_k E[g h_k] E[sigma(|w_i| z) h_k(z)] cos(w_i, beta)^k,      h_k Hermite polynomials, E h_k^2 = 1.

    Beyond k = 60 the odd and the even terms are closed by their sums at cos = 1, so that it is exact for neurons along
    beta, however steep. For relu neurons and link it is accurate to 1e-4, for smooth links to the rounding of the
    network's numbers.
    """
    sigma, dtype = as_activation(network.activation), network.first_layer.dtype
    norms = jnp.linalg.norm(network.first_layer, axis=0)
    cosines = jnp.clip(direction @ network.first_layer / jnp.maximum(norms, jnp.finfo(dtype).tiny), -1, 1)
    even, odd = hermite_halves(_DEGREE)
    places = norms[:, None] * jnp.asarray(even.points, dtype)
    right, left = sigma(places), sigma(-places)
    means = jnp.zeros_like(norms)
    for half, sign in ((even, 1), (odd, -1)):
        target = (as_link(link)(half.points) + sign * as_link(link)(-half.points)) / 2
        coefficients = half.basis @ target
        # the last one is the sum of what is left
        rest = half.weights * target - coefficients @ half.basis
        rules = jnp.asarray([*(coefficients[:, None] * half.basis), rest], dtype)
        terms = (right + sign * left) / 2 @ rules.T
        powers = cosines[:, None] ** (half.first + 2 * jnp.arange(len(rules)))
        means += jnp.sum(terms * powers, axis=1)
    return jnp.mean(means**2)
