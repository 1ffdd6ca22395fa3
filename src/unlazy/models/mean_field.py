"""The two-layer tanh network whose neurons are particles, and its losses with their conjugates.

A particle is x = (w, b) in R^{d+1}, its neuron h_x(z) = R tanh(w.z + b), and a law mu of particles predicts
f(z) = E h_x(z). tanh is odd, so that no outer weight is needed, and |h| <= R. Inputs carry a last column of ones
(`with_one`), so that a particle is one vector. For `training.mean_field.langevin` the functional is

    F(mu) = sum_i c_i l(f(z_i), y_i),    c_i = 1/n unless weights are given,

without confinement; it is convex along mixtures of laws. R is called `amplitude`. Source: Nitanda, Wu & Suzuki (2022).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import check_choice


class ConvexLoss(NamedTuple):
    """A convex loss l(f, y) of a prediction, elementwise, of NumPy or JAX arrays.

    `slope` and `curvature` are its derivatives in f, `conjugate` is l*(g, y) = sup_f (g f - l(f, y)), finite for every
    g that is a slope; `sharpness` is the largest curvature.
    """

    value: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]
    curvature: Callable[[Any, Any], Any]
    conjugate: Callable[[Any, Any], Any]
    sharpness: float


def _namespace(x: Any) -> Any:
    return jnp if isinstance(x, Array) else np


def _logistic_slope(f: Any, y: Any) -> Any:
    xp = _namespace(f)
    return -y * 0.5 * (1 - xp.tanh(0.5 * y * f))


def _logistic_conjugate(g: Any, y: Any) -> Any:
    """u log u + (1 - u) log(1 - u) with u = -g y, the probability of the other label, in [0, 1]."""
    xp = _namespace(g)
    u = xp.clip(-g * y, 0.0, 1.0)
    tiny = xp.finfo(u.dtype).tiny
    return u * xp.log(xp.maximum(u, tiny)) + (1 - u) * xp.log(xp.maximum(1 - u, tiny))


LOSSES = {
    "square": ConvexLoss(
        value=lambda f, y: 0.5 * (f - y) ** 2,
        slope=lambda f, y: f - y,
        curvature=lambda f, y: _namespace(f).ones_like(f),
        conjugate=lambda g, y: 0.5 * g**2 + g * y,
        sharpness=1.0,
    ),
    "logistic": ConvexLoss(
        value=lambda f, y: _namespace(f).logaddexp(0.0, -y * f),
        slope=_logistic_slope,
        curvature=lambda f, y: 0.25 * (1 - _namespace(f).tanh(0.5 * f) ** 2),
        conjugate=_logistic_conjugate,
        sharpness=0.25,
    ),
}
"""Half the squared error for real y, and log(1 + exp(-y f)) for y = -1 or 1."""


def named_loss(name: str) -> ConvexLoss:
    """The loss called "square" or "logistic"."""
    return LOSSES[check_choice("loss", name, LOSSES)]


def with_one(inputs: Any) -> Any:
    """The inputs (n, d) with a last column of ones."""
    xp = _namespace(inputs)
    return xp.concatenate([inputs, xp.ones((len(inputs), 1), inputs.dtype)], axis=1)


def neurons(particles: Array, inputs: Array) -> Array:
    """tanh(w.z + b) of every particle at every input, (N, n); to be multiplied by the amplitude."""
    return jnp.tanh(particles @ inputs.T)


def predictions(particles: Array, inputs: Array, amplitude: ArrayLike) -> Array:
    """f(z) = R mean tanh(w.z + b) over the particles (N, d + 1) at inputs (n, d + 1) with a column of ones; (n,)."""
    return jnp.asarray(amplitude, particles.dtype) * neurons(particles, inputs).mean(axis=0)


def network_functional(loss: ConvexLoss, amplitude: ArrayLike) -> Callable[[Array, Any], Array]:
    """F(particles, rows), rows = (inputs, labels) or (inputs, labels, weights): a mean over rows, or a weighted sum.

    Work and memory of a gradient are O(N n d) and O(N n): particles meet only in their mean.
    """

    def functional(particles: Array, rows: Any) -> Array:
        inputs, labels, *weights = rows
        losses = loss.value(predictions(particles, inputs, amplitude), labels)
        return weights[0] @ losses if weights else losses.mean()

    return functional


def safe_step_size(rows: Any, loss: ConvexLoss, amplitude: ArrayLike, confinement: ArrayLike) -> Array:
    """1 / (R^2 sup l'' lambda_max(sum c_i z_i z_i^T) + 2 confinement), half of what linear stability allows at worst.

    Sufficient, not sharp: tanh networks stay bounded at several times this step, since tanh' < 1 away from 0.
    """
    inputs, _, *weights = rows
    scaled = inputs * jnp.sqrt(weights[0])[:, None] if weights else inputs / jnp.sqrt(inputs.shape[0])
    gram = scaled.T @ scaled if inputs.shape[1] <= inputs.shape[0] else scaled @ scaled.T
    largest = jnp.linalg.eigvalsh(gram)[-1]
    curvature = loss.sharpness * jnp.square(jnp.asarray(amplitude, inputs.dtype)) * largest
    return 1 / (curvature + 2 * jnp.asarray(confinement, inputs.dtype))


def confinement_of(temperature: Any, prior_scale: Any) -> Any:
    """lambda_1 = lambda_2 / (2 tau^2): with it the best law without data is N(0, tau^2) per weight."""
    return temperature / (2 * prior_scale**2)
