"""Targets of kernel Stein discrepancies: their exact optima, the 1/N term of the spread, and what a race needs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from unlazy.theory.mean_field.optimum import MeanFieldOptimum

BANDWIDTH, PRIOR = 1.0, 3.0
"""Length of the kernel; deviation of the law without data, sqrt(lambda_2/(2 lambda_1)), at every temperature."""
CENTRE = 0.5
"""The Gaussian target is N(CENTRE, 1)."""
WEIGHT, MODE, SPREAD = 0.2, 2.0, 0.5
"""The target of two modes: WEIGHT N(-MODE, SPREAD^2) + (1 - WEIGHT) N(MODE, SPREAD^2)."""
PRECISION = np.array([[1.5, -0.2], [-0.2, 0.8]])
MEAN = np.array([0.5, 0.0])
"""The target of the race, N(MEAN, PRECISION^-1)."""


def score_of(target: str, xp: Any = np) -> Any:
    """The score of a target in one dimension, elementwise."""

    def modes(x: Any) -> Any:
        log_odds = np.log(WEIGHT / (1 - WEIGHT)) - 2 * MODE * x / SPREAD**2
        left = 0.5 * (1 + xp.tanh(log_odds / 2))
        return (MODE * (1 - 2 * left) - x) / SPREAD**2

    return modes if target == "modes" else lambda x: CENTRE - x


@cache
def optimum(target: str, temperature: float, damping: float, pull: float = 0.0) -> MeanFieldOptimum:
    """The exact law for a target in one dimension, by the dual on a grid; `pull` adds pull E(x - CENTRE)^2 to F."""
    from unlazy.models.functionals import stein_gram
    from unlazy.theory.mean_field.optimum import quadratic_optimum

    score = score_of(target)
    return quadratic_optimum(
        lambda x, y: stein_gram(x, score(x), y, score(y), damping, BANDWIDTH),
        dimension=1,
        confinement=temperature / (2 * PRIOR**2),
        temperature=temperature,
        linear=lambda x: pull * (x[:, 0] - CENTRE) ** 2,
        points=801 if target == "modes" else 401,
    )


def exact_moments(target: str, temperature: float, damping: float) -> tuple[float, float, float]:
    """Mean, mean square about CENTRE and mass left of 0 of the exact law."""
    found = optimum(target, temperature, damping)
    x, masses = found.grid.points[:, 0], found.law.masses
    return float(masses @ x), float(masses @ (x - CENTRE) ** 2), float(masses[x < 0].sum() + masses[x == 0].sum() / 2)


def width_slope(target: str, temperature: float, damping: float) -> float:
    """N times what N particles add to E(x - CENTRE)^2 in first order, by a central difference.

    F + pull E(x - CENTRE)^2 has the least free energy L*(pull) + c(pull)/N, whose derivative is that mean square.
    """
    from unlazy.theory.mean_field.dual import particle_constants

    pull = 1e-3 * temperature
    above, below = (particle_constants(optimum(target, temperature, damping, sign * pull)).excess for sign in (1, -1))
    return (above - below) / (2 * pull)


def target_discrepancy(particles: Any) -> Any:
    """MMD^2 of the particles to N(MEAN, PRECISION^-1) for the kernel exp(-r^2/2); closed form, self-terms included."""
    import jax.numpy as jnp

    covariance = np.linalg.inv(PRECISION)
    once, twice = covariance + np.eye(2), 2 * covariance + np.eye(2)
    centred = particles - jnp.asarray(MEAN, particles.dtype)
    inverse = jnp.asarray(np.linalg.inv(once), particles.dtype)
    cross = jnp.exp(-jnp.sum((centred @ inverse) * centred, axis=1) / 2).mean() / np.sqrt(np.linalg.det(once))
    squares = sum((column[:, None] - column) ** 2 for column in particles.T)
    own = jnp.exp(-squares / 2).mean()
    return own - 2 * cross + 1 / np.sqrt(np.linalg.det(twice))


def svgd_force(particles: Any, precision: Any, mean: Any) -> Any:
    """The direction of Stein variational gradient descent for N(mean, precision^-1), bandwidth by the median rule."""
    import jax.numpy as jnp

    count = len(particles)
    squares = sum((column[:, None] - column) ** 2 for column in particles.T)
    # no sorting at every step: squared distances of normal points in the plane are about exponential
    width = np.log(2) * squares.mean() / np.log(count + 1)
    kernel = jnp.exp(-squares / width)
    repelled = 2 / width * (particles * kernel.sum(axis=1)[:, None] - kernel @ particles)
    return (kernel @ ((mean - particles) @ precision) + repelled) / count
