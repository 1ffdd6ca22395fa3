"""Sampling by kernel Stein discrepancy with entropy: the exact optimum in one dimension, and a race against rivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.models.functionals import stein_functional, stein_gram
from unlazy.random import normal
from unlazy.theory.mean_field.dual import particle_constants
from unlazy.theory.mean_field.optimum import MeanFieldOptimum, quadratic_optimum
from unlazy.training.loop import evolve
from unlazy.training.mean_field.langevin import run, variation_gradient


class SteinProblem(NamedTuple):
    """A target in one dimension and the kernel of its discrepancy."""

    target: Any
    """Has the score, elementwise, as `score(x, numpy)`."""
    damping_length: float
    bandwidth: float
    prior_scale: float
    """Deviation of the law without data, at every temperature."""
    centre: float
    """About which squares are meant."""
    grid_points: int
    """Of the grid of the exact optimum."""

    def confinement(self, temperature: Any) -> Any:
        return temperature / (2 * self.prior_scale**2)


@cache
def stein_optimum(problem: SteinProblem, temperature: float, pull: float = 0.0) -> MeanFieldOptimum:
    """The exact law, by the dual on a grid; `pull` adds pull E(x - centre)^2 to F."""
    score = problem.target.score
    return quadratic_optimum(
        lambda x, y: stein_gram(x, score(x), y, score(y), problem.damping_length, problem.bandwidth),
        d=1,
        confinement=problem.confinement(temperature),
        temperature=temperature,
        potential=lambda x: pull * (x[:, 0] - problem.centre) ** 2,
        grid_points=problem.grid_points,
    )


def exact_moments(problem: SteinProblem, temperature: float) -> tuple[float, float, float]:
    """Mean, mean square about the centre and mass left of 0 of the exact law."""
    found = stein_optimum(problem, temperature)
    x, masses = found.grid.points[:, 0], found.law.grid_masses
    square = float(masses @ (x - problem.centre) ** 2)
    return float(masses @ x), square, float(masses[x < 0].sum() + masses[x == 0].sum() / 2)


def width_slope(problem: SteinProblem, temperature: float) -> float:
    """N times what N particles add to E(x - centre)^2 in first order, by a central difference.

    F + pull E(x - centre)^2 has the least free energy L*(pull) + c(pull)/N, whose derivative is that mean square.
    """
    pull = 1e-3 * temperature
    above, below = (
        particle_constants(stein_optimum(problem, temperature, sign * pull)).free_energy_excess for sign in (1, -1)
    )
    return (above - below) / (2 * pull)


def sample_moments(
    key: Array,
    problem: SteinProblem,
    *,
    particles: int,
    temperature: ArrayLike,
    step_size: ArrayLike,
    steps: int,
    start_deviation: float | None = None,
) -> dict[str, Array]:
    """Time averages of the particles' mean, mean square about the centre and share left of 0, and `drift`.

    `drift`, without a start deviation, is the expected growth of that mean square in a unit of time: 0 in the mean at
    stationarity.

    They start from N(0, start_deviation^2), or around the centre with the spread of the exact law, which is known at
    five temperatures from 0.01 to 1.
    """
    start_key, walk_key = jax.random.split(key)
    draws = normal(start_key, (particles, 1), jnp.float32)
    if start_deviation is None:
        known = np.geomspace(0.01, 1.0, 5)
        spreads = [exact_moments(problem, heat)[1] for heat in known.tolist()]
        spread = jnp.interp(jnp.log(temperature), np.log(known), np.array(spreads))
        start = problem.centre + jnp.sqrt(spread).astype(jnp.float32) * draws
    else:
        start = start_deviation * draws
    functional = stein_functional(lambda x: problem.target.score(x, jnp), problem.damping_length, problem.bandwidth)
    confinement = problem.confinement(temperature)

    def observables(x: Array) -> dict[str, Any]:
        centred = x - problem.centre
        seen = {"particle_mean": x.mean(), "spread": (centred**2).mean(), "left_mass": (x < 0).mean()}
        if start_deviation is not None:
            return seen
        force = variation_gradient(functional, x) + 2 * confinement * x
        moved = centred - step_size * force
        return seen | {"drift": (moved**2 - centred**2).mean() / step_size + 2 * temperature}

    return run(
        walk_key,
        start,
        functional,
        steps=steps,
        temperature=temperature,
        confinement=confinement,
        step_size=step_size,
        observables=observables,
        observe_every=10,
        average_from=steps // 4,
    ).averages


def gaussian_discrepancy(cloud: Array, mean: np.ndarray, precision: np.ndarray) -> Array:
    """MMD^2 of a cloud (N, d) to N(mean, precision^-1) for the kernel exp(-r^2/2); closed form, self-terms included."""
    covariance, one = np.linalg.inv(precision), np.eye(len(mean))
    once, twice = covariance + one, 2 * covariance + one
    centred = cloud - jnp.asarray(mean, cloud.dtype)
    inverse = jnp.asarray(np.linalg.inv(once), cloud.dtype)
    cross = jnp.exp(-jnp.sum((centred @ inverse) * centred, axis=1) / 2).mean() / np.sqrt(np.linalg.det(once))
    return jnp.exp(-_squares(cloud) / 2).mean() - 2 * cross + 1 / np.sqrt(np.linalg.det(twice))


def svgd_force(cloud: Array, mean: Array, precision: Array) -> Array:
    """The direction of Stein variational gradient descent for N(mean, precision^-1), bandwidth by the median rule."""
    squares = _squares(cloud)
    # no sorting at every step: squared distances of normal points in the plane are about exponential
    width = np.log(2) * squares.mean() / np.log(len(cloud) + 1)
    kernel = jnp.exp(-squares / width)
    repelled = 2 / width * (cloud * kernel.sum(axis=1)[:, None] - kernel @ cloud)
    return (kernel @ ((mean - cloud) @ precision) + repelled) / len(cloud)


def _squares(cloud: Array) -> Any:
    return sum((column[:, None] - column) ** 2 for column in cloud.T)


def race(
    key: Array,
    target: tuple[np.ndarray, np.ndarray],
    budgets: Sequence[int],
    *,
    particles: int,
    prior_scale: float,
    temperature: ArrayLike,
    damping_length: float,
    bandwidth: float,
    step_size: ArrayLike,
    chain_step_size: float,
    svgd_step_size: float,
) -> dict[str, Array]:
    """The `gaussian_discrepancy` to the target, its mean and precision, after equal numbers of score evaluations.

    Of particles that minimise the Stein discrepancy (a vector-Jacobian product of the score counts as an evaluation),
    of Stein variational gradient descent and of unadjusted Langevin chains, all from N(0, prior_scale^2 I).
    """
    mean, precision = (jnp.asarray(array, jnp.float32) for array in target)
    start_key, walk_key = jax.random.split(key)
    start = prior_scale * normal(start_key, (particles, len(mean)), jnp.float32)

    def error(cloud: Array) -> Array:
        return gaussian_discrepancy(cloud, *target)

    def recorded(functional: Callable[..., Array], steps: np.ndarray, **numbers: Any) -> Array:
        return run(
            walk_key,
            start,
            functional,
            steps=int(steps[-1]),
            observables=error,
            observe_every=int(steps[-1]),
            record_at=tuple(steps.tolist()),
            record_observables=True,
            **numbers,
        ).records

    def potential(cloud: Array) -> Array:
        centred = cloud - mean
        return jnp.mean(jnp.sum((centred @ precision) * centred, axis=1)) / 2

    def stein_step(_: Array, cloud: Array) -> Array:
        return cloud + svgd_step_size * svgd_force(cloud, mean, precision)

    ends = np.array(budgets)
    stein = stein_functional(lambda x: precision @ (mean - x), damping_length, bandwidth)
    heat = {"temperature": temperature, "confinement": temperature / (2 * prior_scale**2)}
    return {
        "stein_error": recorded(stein, ends // 2, step_size=step_size, **heat),
        # independent chains are the dynamics of a linear functional
        "ula_error": recorded(potential, ends, temperature=1.0, confinement=0.0, step_size=chain_step_size),
        "svgd_error": evolve(stein_step, start, int(ends[-1]), record=error, record_at=budgets)[1],
    }
