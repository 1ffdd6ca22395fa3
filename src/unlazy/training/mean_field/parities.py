"""k-sparse parities by annealed mean-field Langevin dynamics and by kernel ridge regression, on nested samples.

    z uniform on {-1, 1}^d / sqrt(d),   y = product of the signs of the first k coordinates,
    h_x(z) = (R/3) [tanh(x_1.z + x_2) + 2 tanh(x_3)],   x = (x_1, x_2, x_3) in R^(d + 2),   f(z) = E h_x(z).

The law of the particles minimises the mean logistic loss plus lambda KL(mu | prior), the prior normal with variance
tau^2, which is confinement lambda/(2 tau^2) and temperature lambda. Source: Suzuki, Wu, Oko & Nitanda (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.sparse.linalg import cg
from jax.typing import ArrayLike

from unlazy.models.mean_field import confinement_of, named_loss, with_one
from unlazy.random import normals_at, uniforms_at
from unlazy.training.mean_field.langevin import noisy_step, variation_gradient

LOSS = named_loss("logistic")
RIDGES = (0.01, 0.1, 1.0)
"""Of the kernel, over its diagonal, which is 1."""


def draw_parity(key: Array, n: int, d: int, degree: int) -> tuple[Array, Array]:
    """n inputs with a last column of ones, (n, d + 1), and the parities of their first `degree` signs."""
    signs = jnp.sign(uniforms_at(key, 0, (n, d)))
    return with_one(signs / jnp.sqrt(jnp.asarray(d, signs.dtype))), jnp.prod(signs[:, :degree], axis=1)


def parity_predictions(particles: Array, inputs: Array, amplitude: float) -> Array:
    """f at the inputs (n, d + 1), of particles (N, d + 2)."""
    hidden = jnp.tanh(particles[:, :-1] @ inputs.T).mean(axis=0)
    return amplitude / 3 * (hidden + 2 * jnp.tanh(particles[:, -1]).mean())


def parity_functional(amplitude: float) -> Callable[[Array, Any], Array]:
    """F(particles, (inputs, labels, weights)), the weighted sum of logistic losses."""

    def functional(particles: Array, rows: Any) -> Array:
        inputs, labels, weights = rows
        return weights @ LOSS.value(parity_predictions(particles, inputs, amplitude), labels)

    return functional


def anneal(
    key: Array,
    particles: Array,
    rows: Any,
    temperatures: Array,
    *,
    steps: int,
    step_size: ArrayLike,
    amplitude: float,
    prior_scale: float,
) -> Array:
    """The particles after `steps` steps at each of the temperatures in turn, from the end of the one before."""
    functional = parity_functional(amplitude)

    def one(number: Array, particles: Array) -> Array:
        temperature = temperatures[number // steps]
        numbers = {"temperature": temperature, "confinement": confinement_of(temperature, prior_scale)}
        gradient = variation_gradient(functional, particles, rows)
        return noisy_step(key, number, particles, gradient, step_size=step_size, **numbers)

    return jax.lax.fori_loop(0, steps * len(temperatures), one, particles)


def network_accuracies(
    key: Array,
    train: tuple[Array, Array],
    test: tuple[Array, Array],
    counts: Sequence[int],
    temperatures: Array,
    *,
    particles: int,
    amplitude: float,
    prior_scale: float,
    **dynamics: Any,
) -> Array:
    """Test accuracies of the networks that learn from the first n rows, for each n of `counts`.

    All start from the same particles and see the same noise.
    """
    inputs, labels = train
    start_key, walk_key = jax.random.split(key)
    start = prior_scale * normals_at(start_key, 0, (particles, inputs.shape[1] + 1), inputs.dtype)
    model: dict[str, Any] = {"amplitude": amplitude, "prior_scale": prior_scale}

    def accuracy(count: Array) -> Array:
        weights = jnp.where(jnp.arange(len(labels)) < count, 1 / count, 0.0).astype(inputs.dtype)
        cloud = anneal(walk_key, start, (inputs, labels, weights), temperatures, **model, **dynamics)
        return jnp.mean(parity_predictions(cloud, test[0], amplitude) * test[1] > 0)

    return jax.lax.map(accuracy, jnp.asarray(counts))


def kernel_accuracies(
    train: tuple[Array, Array], test: tuple[Array, Array], counts: Sequence[int], degree: int
) -> Array:
    """Test accuracies of ridge regression with the kernel (z.z')^degree from the first n rows, for each n of `counts`.

    The kernel knows the degree, and its ridge is the one of `RIDGES` that is best on the test rows themselves. The
    linear systems are solved by conjugate gradients.
    """
    # the last column of the inputs is 1
    own, other = ((part[0] @ train[0].T - 1) ** degree for part in (train, test))

    def accuracy(case: tuple[Array, Array]) -> Array:
        count, ridge = case
        seen = (jnp.arange(len(own)) < count).astype(own.dtype)
        weights, _ = cg(lambda v: seen * (own @ v) + ridge * v, seen * train[1], tol=1e-4, maxiter=200)
        return jnp.mean((other @ weights) * test[1] > 0)

    cases = jnp.meshgrid(jnp.asarray(counts), jnp.asarray(RIDGES, own.dtype), indexing="ij")
    found = jax.lax.map(accuracy, tuple(axis.ravel() for axis in cases))
    return found.reshape(len(counts), -1).max(axis=1)
