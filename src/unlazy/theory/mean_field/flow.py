"""The flow of the law of a one-dimensional mean-field problem on its grid."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_kind
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.mean_field.one_dimension import ScalarProblem

# Steps times points, where a step costs as much as so many points besides.
_OVERHEAD, _MOST_WORK = 500, 6e7


class Flow(NamedTuple):
    """The flow of mu_t."""

    time: np.ndarray
    optimality_gap: np.ndarray
    """L(mu_t) - L*, exact to rounding relative to itself."""
    energy_gap: np.ndarray
    """F(mu_t) - F*: first order in the perturbation, of either sign."""
    feature_mean: np.ndarray
    """int phi dmu_t."""


def mean_field_flow(problem: ScalarProblem, start_masses: ArrayLike, time: ArrayLike, *, step_size: float) -> Flow:
    """The law of the mean-field Langevin flow from `start_masses` on the problem's grid, at increasing times.

    d mu/dt = div(mu grad F'(mu)) + temperature Laplacian mu, by implicit Euler steps of at most `step_size`: positive,
    of mass 1, and stationary exactly at mu*. The drift is that of the step's end, found as the root of a decreasing
    function of its mean: with the drift of the start large steps overshoot like the naive iteration mu <- p_mu. The
    relative error of a decay rate r is about r step_size/4. The gap is computed as temperature KL(mu_t || mu*) +
    (interaction/2)(m_t - m)^2, which is exact for this F and does not cancel.

    >>> from unlazy.theory import scalar_problem
    >>> problem = scalar_problem(np.cos, np.tanh, interaction=2, target_mean=0.3, confinement=0.2, temperature=0.3)
    >>> start = normal_masses(problem, start_mean=1, start_variance=0.2)
    >>> print(mean_field_flow(problem, start_masses=start, time=[0, 1, 2], step_size=0.01).optimality_gap.round(4))
    [0.6611 0.2419 0.1028]
    """
    check_kind("problem", problem, ScalarProblem, "as scalar_problem gives it")
    masses = check_array("start_masses", start_masses, low=0, ndim=1)
    if masses.size != problem.points.size:
        raise InputError(f"start_masses must have one mass per point ({problem.points.size}), got {masses.size}")
    if abs(masses.sum() - 1) > 1e-9:
        raise InputError(f"start_masses must sum to 1, got {masses.sum():.12g}")
    moments = check_array("time", time, low=0, ndim=1)
    if (np.diff(moments) <= 0).any():
        raise InputError("time must increase")
    step = float(check_array("step_size", step_size, above=0, ndim=0))
    least = float(moments[-1]) * (_OVERHEAD + masses.size) / _MOST_WORK
    if step < least:
        raise InputError(
            f"step_size must be at least {least:.3g} on {masses.size} points up to time {moments[-1]:g}, or there are "
            f"too many steps; got {step:g}"
        )
    if (problem.grid_masses == 0).any():
        raise InputError(
            f"temperature must be high enough for masses above 1e-300 in the whole box, got {problem.temperature:g}"
        )

    now, gaps, energy_gaps, means = 0.0, [], [], []
    slope = -1.0
    for moment in moments:
        count = int(np.ceil((moment - now) / step - 1e-9))
        size = (moment - now) / max(count, 1)
        for _ in range(count):
            masses, slope = _implicit_step(problem, masses, size, slope)
        now = float(moment)
        gaps.append(_gap(problem, masses))
        mean = float(masses @ problem.feature_values)
        means.append(mean)
        away = (mean - problem.target_mean) ** 2 - (problem.feature_mean - problem.target_mean) ** 2
        energy_gaps.append(
            float((masses - problem.grid_masses) @ problem.external_potential) + problem.interaction / 2 * away
        )
    return Flow(moments, np.array(gaps), np.array(energy_gaps), np.array(means))


def normal_masses(problem: ScalarProblem, start_mean: Any, start_variance: Any) -> np.ndarray:
    """The masses of N(start_mean, start_variance) on the problem's grid, normalised there.

    >>> from unlazy.theory import scalar_problem
    >>> problem = scalar_problem(np.cos, np.tanh, interaction=2, target_mean=0.3, confinement=0.2, temperature=0.3)
    >>> masses = normal_masses(problem=problem, start_mean=1, start_variance=0.2)
    >>> print(f"{masses @ problem.points:.4f}")
    1.0000
    """
    check_kind("problem", problem, ScalarProblem, "as scalar_problem gives it")
    mean = float(check_array("start_mean", start_mean, low=-1e100, high=1e100, ndim=0))
    variance = float(check_array("start_variance", start_variance, low=1e-100, high=1e100, ndim=0))
    exponent = -((problem.points - mean) ** 2) / (2 * variance)
    masses = np.exp(exponent - exponent.max())
    return masses / masses.sum()


def jump_rates(differences: np.ndarray, temperature: float, speed: float) -> tuple[np.ndarray, np.ndarray]:
    """Rates of jumps to the right and to the left between neighbours, reversible for exp(-potential/temperature)."""
    factor = np.exp(-differences / (2 * temperature))
    return speed * factor, speed / factor


def _implicit_step(problem: ScalarProblem, masses: np.ndarray, size: float, slope: float) -> tuple[np.ndarray, float]:
    """The masses after an implicit step and the slope of its residual, a good first guess for the next step's."""
    from scipy.linalg.lapack import dgtsv

    differences, phi = np.diff(problem.external_potential), np.diff(problem.feature_values)
    speed = size * problem.temperature / (problem.points[1] - problem.points[0]) ** 2
    tolerance = 1e-13 * float(np.abs(problem.feature_values).max())

    def moved(mean: float) -> tuple[np.ndarray, float]:
        pull = problem.interaction * (mean - problem.target_mean)
        right, left = jump_rates(differences + pull * phi, problem.temperature, speed)
        leaving = np.ones(masses.size)
        leaving[:-1] += right
        leaving[1:] += left
        *_, after, info = dgtsv(-right, leaving, -left, masses)
        if info != 0:
            raise ConvergenceError(f"an implicit step of size {size:g} failed (LAPACK info {info})")
        return after, float(after @ problem.feature_values) - mean

    mean = float(masses @ problem.feature_values)
    after, residual = moved(mean)
    # The residual falls with a slope of at most -1, so that its root is not farther away than its value.
    low, high = mean - abs(residual), mean + abs(residual)
    for _ in range(100):
        if abs(residual) <= tolerance:
            return after, slope
        trial = mean - residual / slope
        if not low < trial < high:
            trial = (low + high) / 2
        last, before, mean = residual, mean, trial
        after, residual = moved(mean)
        low, high = (mean, high) if residual > 0 else (low, mean)
        if mean != before and residual != last:
            slope = min((residual - last) / (mean - before), -1.0)
        if high - low <= tolerance:
            return after, slope
    raise ConvergenceError(f"an implicit step of size {size:g} left a residual of {residual:.3g} in the mean")


def _gap(problem: ScalarProblem, masses: np.ndarray) -> float:
    """temperature KL(mu || mu*) + (interaction/2)(m - m*)^2, with KL as a sum of non-negative terms."""
    ratio = masses / problem.grid_masses
    change = ratio - 1
    near = np.abs(change) < 1e-4
    terms = np.empty_like(ratio)
    c = change[near]
    terms[near] = c**2 * (0.5 - c / 6 + c**2 / 12)
    far = ratio[~near]
    terms[~near] = far * np.log(np.where(far > 0, far, 1.0)) - far + 1
    divergence = float(problem.grid_masses @ terms)
    apart = float((masses - problem.grid_masses) @ problem.feature_values)
    return problem.temperature * divergence + problem.interaction / 2 * apart**2
