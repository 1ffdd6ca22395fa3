"""How fast the mean-field Langevin flow converges: the exact rate of one-dimensional problems, its bounds, the flow.

F(mu) = int (confinement x^2 + V(x)) dmu + (interaction/2) (int phi dmu - target)^2; in the notation of the papers
temperature is lambda_2, confinement lambda_1. A log-Sobolev constant alpha here means KL <= (alpha/2) I: large is slow,
and the guaranteed decay of L - L* is exp(-2 temperature t / alpha). Authors whose alpha is the inverse mean 1/alpha.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import check_array
from unlazy.numerics.roots import ConvergenceError, scalar_root
from unlazy.theory.mean_field.flow import jump_rates
from unlazy.theory.mean_field.langevin import log_sobolev_bound
from unlazy.theory.mean_field.one_dimension import ScalarProblem, refined


class DecayRates(NamedTuple):
    """Rates per unit of time; L - L* decays as exp(-2 rate t)."""

    rate: float
    """r_min, the exact one: the least non-zero eigenvalue of the linearised flow."""
    gap: float
    """temperature times the spectral gap of mu*: the rate if the drift were frozen at mu*."""
    bound: float
    """temperature/alpha with alpha from Holley and Stroock and the true oscillation."""
    loose_bound: float
    """The same with the sum of oscillations."""


def decay_rates(problem: ScalarProblem, *, tolerance: float = 5e-3) -> DecayRates:
    """The exact asymptotic rate r_min of the flow, the frozen one and the guaranteed ones.

        r_min = least non-zero eigenvalue of f -> -(1/mu*) div(mu* grad(temperature f + K f)),

    K the second variation of F, interaction (phi - m)(phi - m)' here. The problem's grid is halved until r_min and the
    gap change by less than `tolerance` of themselves, and the last two grids are extrapolated, with errors of the order
    spacing^2: the result does not depend on the grid. Always r_min >= gap >= bound = temperature/alpha, alpha the bound
    of Holley & Stroock (1987) with the true oscillation. Sources: Nitanda, Wu & Suzuki (2022), Chizat (2022) for the
    guarantee; r_min is the linearisation.
    """
    tolerance = float(check_array("tolerance", tolerance, above=0, high=0.1, ndim=0))
    coarse, finer, change = np.array(grid_rates(problem)), problem, np.inf
    while True:
        try:
            finer = refined(finer)
        except ConvergenceError:
            raise ConvergenceError(
                f"the rates still change by {change:.2g} of themselves with {finer.points.size} points, more than "
                f"tolerance = {tolerance:g}"
            ) from None
        fine = np.array(grid_rates(finer))
        change = float(np.max(np.abs(fine / coarse - 1)))
        if change <= tolerance:
            break
        coarse = fine
    rate, gap = fine + (fine - coarse) / 3
    bounds = problem.temperature / log_sobolev_bound(
        problem.confinement, problem.temperature, [problem.oscillation, problem.oscillation_sum]
    )
    return DecayRates(rate=float(rate), gap=float(gap), bound=float(bounds[0]), loose_bound=float(bounds[1]))


def grid_rates(problem: ScalarProblem) -> tuple[float, float]:
    """r_min and temperature times the spectral gap of mu*, on the problem's grid as it is.

    On the grid the generator of mu* is reversible, -S after symmetrisation, and r_min solves

        1 + (interaction/temperature) u^T S (S - r)^-1 u = 0,     u = sqrt(mu*)(phi - m),

    between the first two non-zero eigenvalues of S. The flow on this grid decays with exactly this rate; that of the
    continuum, `decay_rates`, differs from it in the order spacing^2.
    """
    from scipy.linalg import eigh_tridiagonal, solve_banded

    main, off = _symmetric_generator(problem)
    values, vectors = eigh_tridiagonal(main, off, select="i", select_range=(0, 2))
    gap, second = float(values[1]), float(values[2])
    if gap < 1e3 * np.finfo(float).eps * main.max():
        raise ConvergenceError(
            f"the spectral gap {gap:.2g} is lost in rounding at temperature {problem.temperature:g}: the barrier "
            f"{barrier(problem):.3g} is too many times higher"
        )
    strength = problem.interaction / problem.temperature
    u = np.sqrt(problem.masses) * (problem.feature - problem.mean)
    share = float(vectors[:, 1] @ u) ** 2
    rate = gap
    if strength * share > 1e-14 * (1 + strength * float(u @ u)):
        pushed = main * u
        pushed[:-1] += off * u[1:]
        pushed[1:] += off * u[:-1]
        bands = np.zeros((3, len(main)))
        bands[0, 1:], bands[2, :-1] = off, off

        def secular(position: float) -> float:
            r = gap + position * (second - gap)
            bands[1] = main - r
            return (1 + strength * float(u @ solve_banded((1, 1), bands, pushed))) * position * (1 - position)

        low, high = 1e-9, 1 - 1e-9
        if secular(low) >= 0:
            rate = gap
        elif secular(high) <= 0:
            rate = second
        else:
            rate = gap + scalar_root(secular, low, high, 1e-13) * (second - gap)
    return rate, gap


def barrier(problem: ScalarProblem) -> float:
    """The smallest climb out of the shallower of two wells of the first variation at mu*; 0 with one well.

    With more wells, the climb that dominates: the largest over wells of the least ascent to a deeper one.
    """
    potential = problem.external + problem.interaction * (problem.mean - problem.target) * problem.feature
    wells = np.flatnonzero((potential[1:-1] < potential[:-2]) & (potential[1:-1] <= potential[2:])) + 1
    climbs = [0.0]
    for well in wells:
        tops = [
            potential[min(well, other) : max(well, other) + 1].max()
            for other in wells
            if other != well and potential[other] <= potential[well]
        ]
        if tops:
            climbs.append(float(min(tops) - potential[well]))
    return max(climbs)


def _symmetric_generator(problem: ScalarProblem) -> tuple[np.ndarray, np.ndarray]:
    """Diagonal and off-diagonal of S >= 0, the symmetrised generator of mu* with the opposite sign."""
    pull = problem.interaction * (problem.mean - problem.target)
    differences = np.diff(problem.external) + pull * np.diff(problem.feature)
    speed = problem.temperature / (problem.points[1] - problem.points[0]) ** 2
    right, left = jump_rates(differences, problem.temperature, speed)
    main = np.zeros(problem.points.size)
    main[:-1] += right
    main[1:] += left
    return main, np.full(problem.points.size - 1, -speed)
