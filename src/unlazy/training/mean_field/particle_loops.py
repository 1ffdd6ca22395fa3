"""Dual averaging and dual coordinate ascent whose inner loop is Langevin steps of particles, beside quadrature.

The data lie on a line of R^d: inputs z_i u with a unit vector u, neurons R tanh(w.(z_i u) + b), squared loss. Particles
x = (w, b) in R^(d + 1) do not know the line. A Gibbs law of the two methods depends on (w.u, b) alone, up to the normal
law of the other d - 1 parameters, so that its free energy and dual value are known to quadrature in two dimensions.
Both methods make the same random choices with either inner loop. Sources: Nitanda, Wu & Suzuki (2021); Oko, Suzuki,
Wu & Nitanda (2022).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from unlazy.models.mean_field import with_one
from unlazy.random import normals_at, uniforms_at
from unlazy.theory.mean_field.grid import GridProblem
from unlazy.training.mean_field.langevin import noisy_step


class LineProblem(NamedTuple):
    """The network on a line, with its Gibbs laws on a grid of (w.u, b)."""

    inputs: np.ndarray
    targets: np.ndarray
    amplitude: float
    confinement: float
    temperature: float
    d: int
    grid: GridProblem

    def exact(self, coefficients: Array, share: Array | float) -> tuple[Array, Array, Array]:
        """Predictions, free energy and logarithm of the partition function of the law of coefficients and share.

        That is exp(-[mean_i a_i h_i + share confinement |x|^2]/temperature); the other d - 1 parameters count.
        """
        real = coefficients.dtype
        features, square = jnp.asarray(self.grid.feature_values, real), jnp.asarray(self.grid.potential, real)
        exponents = -(features @ coefficients / len(self.targets) + share * square) / self.temperature
        log_total = logsumexp(exponents)
        masses = jnp.exp(exponents - log_total)
        predictions = masses @ features
        others = (self.d - 1) / 2
        log_volume = float(np.log(self.grid.volume))
        log_normal = others * jnp.log(jnp.pi * self.temperature / (share * self.confinement))
        confined = masses @ square + others * self.temperature / share
        entropy = masses @ exponents - log_total - log_volume - others - log_normal
        loss = jnp.mean((predictions - jnp.asarray(self.targets, real)) ** 2) / 2
        return predictions, loss + confined + self.temperature * entropy, log_total + log_volume + log_normal


class Sampler(NamedTuple):
    """An inner loop: `law(number, state, coefficients, share)` is the new state and the predictions."""

    law: Callable[..., tuple[Array, Array]]
    start: Array


def quadrature(problem: LineProblem) -> Sampler:
    """The exact inner loop, whose state is empty."""
    return Sampler(lambda _, state, a, share: (state, problem.exact(a, share)[0]), jnp.zeros(()))


def particle_sampler(
    key: Array,
    problem: LineProblem,
    particles: int,
    step_size: Callable[[Array], Array],
    steps: Callable[[Array], Array],
    most: int,
) -> Sampler:
    """Langevin steps of particles from where they were: `steps(t)` of size `step_size(t)` in outer step t, at `most`.

    They start from the prior; what they predict is the mean of their neurons.
    """
    direction_key, start_key, walk_key = jax.random.split(key, 3)
    line = normals_at(direction_key, 0, (problem.d,))
    inputs = with_one(jnp.asarray(problem.inputs)[:, None] * line / jnp.linalg.norm(line))
    prior = jnp.sqrt(problem.temperature / (2 * problem.confinement))

    def law(number: Array, cloud: Array, coefficients: Array, share: Array) -> tuple[Array, Array]:
        def one(place: Array, cloud: Array) -> Array:
            slopes = 1 - jnp.tanh(cloud @ inputs.T) ** 2
            gradient = problem.amplitude / len(inputs) * (slopes * coefficients) @ inputs
            numbers: dict[str, Any] = {
                "temperature": problem.temperature,
                "confinement": share * problem.confinement,
            }
            return noisy_step(walk_key, number * most + place, cloud, gradient, step_size=step_size(number), **numbers)

        cloud = jax.lax.fori_loop(0, jnp.minimum(steps(number), most), one, cloud)
        return cloud, problem.amplitude * jnp.tanh(cloud @ inputs.T).mean(axis=0)

    return Sampler(law, prior * normals_at(start_key, 0, (particles, problem.d + 1)))


def averaging_gaps(problem: LineProblem, sampler: Sampler, rows: Array, least: float) -> Array:
    """L(q_t) - L*, L* = `least`, of online dual averaging for t = 1, 2, ..., one step for each of the rows.

    q_t is the Gibbs law of the coefficients that the sampler's predictions led to, as in
    `unlazy.training.mean_field.double_loop`.
    """
    targets = jnp.asarray(problem.targets, float)
    count = len(targets)

    def step(carry: tuple[Array, Array, Array], row: Array) -> tuple[tuple[Array, Array, Array], Array]:
        number, state, total = carry
        t = number.astype(float)
        first = number == 1
        coefficients, share = 2 / (t * (t + 1)) * total, jnp.where(first, 1.0, (t - 1) / (t + 1))
        state, predictions = sampler.law(number, state, coefficients, share)
        gap = problem.exact(coefficients, share)[1] - least
        total = total.at[row].add(t * count * (predictions[row] - targets[row]))
        return (number + 1, state, total), gap

    return jax.lax.scan(step, (jnp.int32(1), sampler.start, jnp.zeros(count)), rows)[1]


def ascent_gaps(problem: LineProblem, sampler: Sampler, rows: Array, least: float) -> Array:
    """D* - D(g), D* = `least`, of dual coordinate ascent from g = 0, at the start and after the step of each row."""
    targets = jnp.asarray(problem.targets, float)
    count = len(targets)
    stiffness = problem.amplitude**2 / (count * problem.temperature)

    def gap(multipliers: Array) -> Array:
        conjugates = multipliers**2 / 2 + multipliers * targets
        return least + conjugates.mean() + problem.temperature * problem.exact(multipliers, 1.0)[2]

    def step(carry: tuple[Array, Array, Array], row: Array) -> tuple[tuple[Array, Array, Array], Array]:
        number, state, g = carry
        state, predictions = sampler.law(number, state, g, jnp.ones(()))
        g = g.at[row].add((predictions[row] - targets[row] - g[row]) / (1 + stiffness))
        return (number + 1, state, g), gap(g)

    start = jnp.zeros(count)
    found = jax.lax.scan(step, (jnp.int32(1), sampler.start, start), rows)[1]
    return jnp.concatenate([gap(start)[None], found])


def drawn_rows(key: Array, count: int, steps: int) -> Array:
    """`steps` numbers below `count`, each drawn uniformly."""
    return jnp.floor((uniforms_at(key, 0, (steps,)) + 1) / 2 * count).astype(jnp.int32).clip(0, count - 1)
