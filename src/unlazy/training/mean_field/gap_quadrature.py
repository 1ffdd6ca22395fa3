"""The certificate's gap by quadrature, for neurons with two parameters and squared loss; traced, for many anchors."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def gap_quadrature(
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    amplitude: float,
    temperature: float,
    confinement: float,
    grid_points: int = 81,
    relative_half_width: float = 7.0,
) -> Callable[[Array], tuple[Array, Array]]:
    """A function of u (n,) that gives L(q_g) - D(g) and D(g), g = u - y, at scalar inputs z (n,).

    By the trapezoid rule on grid_points^2 points, to `relative_half_width` deviations of the prior; see `certificate`
    for the symbols.
    """
    n = len(inputs)
    side = relative_half_width * np.sqrt(temperature / (2 * confinement))
    axis = np.linspace(-side, side, grid_points)
    places = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    features = jnp.asarray(amplitude * np.tanh(np.outer(places[:, 0], inputs) + places[:, 1:]), float)
    base = jnp.asarray(-confinement / temperature * np.sum(places**2, axis=1), float)
    cell = float(2 * np.log(axis[1] - axis[0]))
    labels = jnp.asarray(targets, float)

    def exact(anchor: Array) -> tuple[Array, Array]:
        slopes = anchor - labels
        exponents = base - features @ slopes / (n * temperature)
        partition = jax.scipy.special.logsumexp(exponents)
        means = jnp.exp(exponents - partition) @ features
        dual = -jnp.mean(slopes**2 / 2 + slopes * labels) - temperature * (partition + cell)
        return jnp.mean((means - anchor) ** 2) / 2, dual

    return exact
