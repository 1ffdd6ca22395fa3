"""Mean-field Langevin dynamics in numbers: guaranteed rates, the bound with its biases, and problem Q in closed form.

    L(mu) = F(mu) + temperature E log mu,       F = U + confinement E|x|^2

In the papers confinement is lambda_1, temperature lambda_2, step_size eta. The log-Sobolev constant alpha of a law p
has ONE convention here, KL(mu|p) <= (alpha/2) I(mu|p): a large alpha is bad, and N(0, s^2) has alpha = s^2. The other
one found in papers, KL <= I/(2 rho), is rho = 1/alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_flag, check_whole, common_shape
from unlazy.numerics.roots import bisect
from unlazy.theory.mean_field.gaussian_problem import (
    Modes,
    batch_variance,
    gaussian_energy,
    gaussian_free_energy,
    gaussian_moments,
    gaussian_optimum,
)

_JUDGED = ("free energy", "energy")
_SHORTEST = 1e-9
_LARGEST = 1e60
_STEP_SIZES = 48
_BATCHES = 30
_MOST_STEPS = 1e18


def log_sobolev_bound(confinement: ArrayLike, temperature: ArrayLike, oscillation: ArrayLike = 0.0) -> np.ndarray:
    """An upper bound of alpha of the proximal Gibbs laws p ~ exp(-(confinement |x|^2 + V)/temperature).

        alpha <= temperature/(2 confinement) exp(osc V/temperature),     osc V = sup V - inf V

    In the convention KL <= (alpha/2) I; infinite where the exponential overflows. Source: Holley & Stroock (1987), with
    the constant of a Gaussian law, attained at oscillation 0.

    >>> print(log_sobolev_bound(confinement=0.1, temperature=[0.1, 0.2, 0.4], oscillation=1.0).round(1))
    [11013.2   148.4    24.4]
    """
    weight = check_array("confinement", confinement, above=0)
    heat = check_array("temperature", temperature, above=0)
    swing = check_array("oscillation", oscillation, low=0)
    common_shape(confinement=weight, temperature=heat, oscillation=swing)
    with np.errstate(over="ignore"):
        return heat / (2 * weight) * np.exp(swing / heat)


def guaranteed_decay_rate(log_sobolev: ArrayLike, temperature: ArrayLike, *, discrete_time: bool = False) -> np.ndarray:
    """The rate per unit of time at which L - L* decays at least: 2 temperature/alpha, half of it in discrete time.

    In continuous time L - L* <= exp(-2 lambda_2 t/alpha); the theorem for N particles and steps eta keeps
    exp(-lambda_2 eta k/alpha). `log_sobolev` is alpha in the convention KL <= (alpha/2) I. Sources: Nitanda, Wu &
    Suzuki (2022), Chizat (2022); Suzuki, Wu & Nitanda (2023).

    >>> print(guaranteed_decay_rate(log_sobolev=[1, 100], temperature=0.1).round(4))
    [0.2   0.002]
    """
    alpha = check_array("log_sobolev", log_sobolev, above=0, finite=False)
    heat = check_array("temperature", temperature, above=0)
    common_shape(log_sobolev=alpha, temperature=heat)
    return (1 if check_flag("discrete_time", discrete_time) else 2) * heat / alpha


class BoundTerms(NamedTuple):
    """The terms of the uniform-in-time bound, without its constants."""

    initial_term: np.ndarray
    """exp(-lambda_2 eta k/alpha)."""
    step_size_term: np.ndarray
    """(alpha/lambda_2)(eta^2 + lambda_2 eta)."""
    particles_term: np.ndarray
    """(alpha/lambda_2)/N."""
    batch_term: np.ndarray
    """(alpha/lambda_2)(n-B) sqrt(eta lambda_2)/(B(n-1))."""


def uniform_in_time_bound(
    log_sobolev: ArrayLike,
    temperature: ArrayLike,
    step_size: ArrayLike,
    steps: ArrayLike,
    *,
    particles: ArrayLike = np.inf,
    n: ArrayLike = 1,
    batch_size: ArrayLike | None = None,
) -> BoundTerms:
    """The terms whose sum bounds L^N/N - L* after k steps up to constants, uniformly in k and N.

    The bound is an upper one and not sharp in each term. In problem Q the bias of a step eta is linear in eta for F but
    quadratic for L, and that of mini-batches is linear in eta, below this sqrt(eta); the width costs c/N with the exact
    constant c of the second variation. `batch_size=None` is the full gradient. Source: Suzuki, Wu & Nitanda (2023).

    >>> found = uniform_in_time_bound(log_sobolev=1, temperature=0.1, step_size=0.01, steps=[0, 100], particles=100)
    >>> print(found.initial_term.round(4), f"{found.step_size_term:.4f} {found.particles_term:.4f}")
    [1.     0.9048] 0.0110 0.1000
    """
    alpha = check_array("log_sobolev", log_sobolev, above=0)
    heat = check_array("temperature", temperature, above=0)
    eta = check_array("step_size", step_size, above=0, high=1e100)
    k = check_array("steps", steps, low=0, finite=False)
    number = check_array("particles", particles, low=1, finite=False)
    noise = batch_variance(n, n if batch_size is None else batch_size, 1.0)
    common_shape(log_sobolev=alpha, temperature=heat, step_size=eta, steps=k, particles=number, n=noise)
    factor = alpha / heat
    return BoundTerms(
        initial_term=np.exp(-eta * k / factor),
        step_size_term=factor * (eta**2 + heat * eta),
        particles_term=factor / number,
        batch_term=factor * noise * np.sqrt(eta * heat),
    )


def optimal_batch_size(
    log_sobolev: ArrayLike, n: ArrayLike, temperature: ArrayLike, target_gap: ArrayLike
) -> np.ndarray:
    """The mini-batch B* = min(n, sqrt(alpha/(lambda_2 eps))) of the bound, as a real number >= 1.

    The largest batch that wastes nothing, up to a constant: below it the cost B k of reaching the gap eps
    (`target_gap`) is flat, as the step must shrink like B; above it the cost grows like B. Source: Suzuki, Wu & Nitanda
    (2023).

    >>> print(optimal_batch_size(log_sobolev=1, n=10_000, temperature=0.1, target_gap=[1e-2, 1e-4]).round(1))
    [ 31.6 316.2]
    """
    rows = check_array("n", n, low=1)
    alpha = check_array("log_sobolev", log_sobolev, above=0)
    heat = check_array("temperature", temperature, above=0)
    eps = check_array("target_gap", target_gap, above=0)
    common_shape(log_sobolev=alpha, n=rows, temperature=heat, target_gap=eps)
    return np.clip(np.sqrt(alpha / (heat * eps)), 1.0, rows)


class BatchCost(NamedTuple):
    """What reaching a gap costs with each batch in problem Q."""

    batch_size: np.ndarray
    """B, the sizes looked at."""
    cost: np.ndarray
    """B times the steps, least over the step sizes; inf where the gap cannot be reached."""
    step_size: np.ndarray
    """The step at which it is least."""
    knee: float
    """The largest batch whose cost is within `cost_factor` times the least one."""


def batch_knee(
    modes: Modes,
    n: int,
    temperature: float,
    target_gap: float,
    data_field_variance: float,
    *,
    start_mean: ArrayLike = 0.0,
    start_variance: ArrayLike = 1.0,
    judged: str = "free energy",
    cost_factor: float = 1.5,
) -> BatchCost:
    """The cost of a gap in problem Q with infinitely many particles, and the largest batch that wastes little.

    k is the first step after which E F - (lambda/2) log(2 pi e v) - L* <= target_gap, or |E F - F*| with
    `judged="energy"`; the cost B k is minimised over the step. Batches are drawn anew at every step, and the start must
    lie above the optimum, so that the gap falls. The knee grows like target_gap^(-1/2), the exponent of
    `optimal_batch_size`, if the free energy is judged and the variance has a way to go; the energy has a bias linear in
    the step, like that of batches, so that its knee stays where it is.

    >>> modes = Modes(external_curvature=0.5, interaction=1.5, data_field=0.3, target_mean=1)
    >>> found = batch_knee(modes, n=1000, temperature=0.2, target_gap=0.01, data_field_variance=1.0, start_mean=2)
    >>> print(found.knee)
    14.0
    """
    check_choice("judged", judged, _JUDGED)
    rows = check_whole("n", n, 1, 10**15)
    heat = float(check_array("temperature", temperature, ndim=0, above=0, high=_LARGEST))
    spread = float(check_array("data_field_variance", data_field_variance, ndim=0, low=0, high=_LARGEST))
    beginning = {
        "start_mean": check_array("start_mean", start_mean, low=-_LARGEST, high=_LARGEST),
        "start_variance": check_array("start_variance", start_variance, low=0, high=_LARGEST),
    }
    for name, value in beginning.items():
        if value.ndim > 1:
            raise InputError(f"{name} must be a number or one per mode, got shape {value.shape}")
    eps = float(check_array("target_gap", target_gap, ndim=0, above=0))
    waste = float(check_array("cost_factor", cost_factor, ndim=0, above=1))
    best = gaussian_optimum(modes, heat)
    stiff = float(np.max(np.asarray(modes.external_curvature, float) + np.asarray(modes.interaction, float)))

    def gap(sizes: np.ndarray, rates: np.ndarray, steps: np.ndarray) -> np.ndarray:
        noise = batch_variance(rows, sizes, spread)[..., None]
        moments = gaussian_moments(modes, heat, rates, steps, gradient_variance=noise, **beginning)
        if judged == "energy":
            return np.abs(gaussian_energy(modes, moments) - best.energy)
        return gaussian_free_energy(modes, moments, heat) - best.free_energy

    def largest_steps(sizes: np.ndarray) -> np.ndarray:
        """For each batch the largest step whose stationary gap is within the error, 0 if there is none."""
        shortest, longest = np.full(len(sizes), math.log(_SHORTEST)), np.full(len(sizes), math.log(1 - 1e-9))

        def fine(logarithm: np.ndarray) -> np.ndarray:
            return gap(sizes, 2 / stiff * np.exp(logarithm), np.full(len(sizes), np.inf)) <= eps

        found, _ = bisect(fine, shortest, longest, 30)
        return np.where(found > shortest, 2 / stiff * np.exp(found), 0.0)

    def cost(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        largest = largest_steps(sizes)
        rates = np.maximum(largest, 2 / stiff * _SHORTEST)[:, None] * np.geomspace(0.03, 1, _STEP_SIZES)
        steps = np.full(rates.shape, np.inf)
        reached = np.broadcast_to(largest[:, None] > 0, rates.shape)
        flat = np.broadcast_to(sizes[:, None], rates.shape)[reached], rates[reached]
        if reached.any():
            steps[reached] = _first_step_below(lambda k: gap(*flat, k) - eps, 1 / (stiff * flat[1]))
        total = sizes[:, None] * steps
        place = total.argmin(axis=1)[:, None]
        return np.take_along_axis(total, place, 1)[:, 0], np.take_along_axis(rates, place, 1)[:, 0]

    batch = np.unique(np.round(np.geomspace(1, rows, _BATCHES)))
    costs, rates = cost(batch)
    if not np.isfinite(costs).any():
        raise InputError(
            f"target_gap={eps:g} cannot be reached with any batch and step of {2 / stiff * _SHORTEST:.3g} or more"
        )
    fine = np.flatnonzero(costs <= waste * costs.min())
    low = batch[fine[-1]]
    high = batch[fine[-1] + 1] if fine[-1] + 1 < len(batch) else low
    while high - low > 1:
        between = np.unique(np.round(np.linspace(low, high, 12)))[1:-1]
        wasteful = np.append(cost(between)[0] > waste * costs.min(), True)
        first = int(wasteful.argmax())
        low, high = (between[first - 1] if first else low), (between[first] if first < len(between) else high)
    return BatchCost(batch, costs, rates, float(low))


def _first_step_below(excess: Callable[[np.ndarray], np.ndarray], guess: np.ndarray) -> np.ndarray:
    """The least whole k at which the falling `excess(k)` <= 0, to 1e-4 of it: `bisect` knows no whole numbers.

    Infinite where rounding keeps it above 0.
    """
    low, high = np.zeros(guess.shape), np.ceil(guess)
    while (above := (excess(high) > 0) & (high < _MOST_STEPS)).any():
        low, high = np.where(above, high, low), np.where(above, 2 * high, high)
    while (wide := high - low > np.maximum(1, 1e-4 * high)).any():
        middle = np.floor((low + high) / 2)
        below = excess(middle) <= 0
        high, low = np.where(wide & below, middle, high), np.where(wide & ~below, middle, low)
    return np.where(excess(high) > 0, np.inf, high)
