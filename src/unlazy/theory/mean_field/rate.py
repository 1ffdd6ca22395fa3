"""How fast the mean-field Langevin flow converges: the exact rate of one-dimensional problems, its bounds, the flow.

F(mu) = int (confinement x^2 + V(x)) dmu + (interaction/2) (int phi dmu - target_mean)^2; in the notation of the papers
temperature is lambda_2, confinement lambda_1. A log-Sobolev constant alpha here means KL <= (alpha/2) I: large is slow,
and the guaranteed decay of L - L* is exp(-2 temperature t / alpha). Authors whose alpha is the inverse mean 1/alpha.
Every decay rate is that of L - L*, which is of second order: twice that of a deviation from mu*.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.checks import check_array, check_kind
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.mean_field.flow import jump_rates
from unlazy.theory.mean_field.langevin import log_sobolev_bound
from unlazy.theory.mean_field.one_dimension import ScalarProblem, refined


class DecayRates(NamedTuple):
    """Rates r per unit of time; L - L* decays as exp(-r t)."""

    decay_rate: float
    """The exact one: twice the least non-zero eigenvalue of the linearised flow."""
    frozen_decay_rate: float
    """2 temperature times the spectral gap of mu*: the rate if the drift were frozen at mu*."""
    guaranteed_decay_rate: float
    """2 temperature/alpha with alpha from Holley and Stroock and the true oscillation."""
    loose_decay_rate: float
    """The same with the sum of oscillations."""


class GridDecayRates(NamedTuple):
    """Rates r per unit of time on one grid; L - L* decays as exp(-r t)."""

    decay_rate: float
    """The exact one of the flow on this grid."""
    frozen_decay_rate: float
    """That with the drift frozen at mu*."""


def decay_rates(problem: ScalarProblem, *, tolerance: float = 5e-3) -> DecayRates:
    """The exact asymptotic rate at which L - L* decays along the flow, the frozen one and the guaranteed ones.

        decay_rate = 2 times the least non-zero eigenvalue of f -> -(1/mu*) div(mu* grad(temperature f + K f)),

    K the second variation of F, interaction (phi - m)(phi - m)' here. The problem's grid is halved until the exact and
    the frozen rate change by less than `tolerance` of themselves, and the last two grids are extrapolated, with errors
    of the order spacing^2: the result does not depend on the grid. Always exact >= frozen >= guaranteed =
    2 temperature/alpha, alpha the bound of Holley & Stroock (1987) with the true oscillation. Sources: Nitanda, Wu &
    Suzuki (2022), Chizat (2022) for the guarantee; the exact rate is the linearisation.

    >>> from unlazy.theory import scalar_problem
    >>> settings = {"interaction": 2, "target_mean": 0.3, "confinement": 0.2, "temperature": 0.3}
    >>> problem = scalar_problem(lambda x: np.exp(-2 * x**2), np.tanh, **settings)
    >>> print(np.round(decay_rates(problem=problem), 4))
    [0.638  0.1419 0.019  0.0129]
    """
    check_kind("problem", problem, ScalarProblem, "as scalar_problem gives it")
    tolerance = float(check_array("tolerance", tolerance, above=0, high=0.1, ndim=0))
    coarse, finer, change = np.array(grid_decay_rates(problem)), problem, np.inf
    while True:
        try:
            finer = refined(finer)
        except ConvergenceError:
            raise ConvergenceError(
                f"the rates still change by {change:.2g} of themselves with {finer.points.size} points, more than "
                f"tolerance = {tolerance:g}"
            ) from None
        fine = np.array(grid_decay_rates(finer))
        change = float(np.max(np.abs(fine / coarse - 1)))
        if change <= tolerance:
            break
        coarse = fine
    exact, frozen = (fine + (fine - coarse) / 3).tolist()
    swings = [problem.oscillation, problem.oscillation_sum]
    bounds = log_sobolev_bound(problem.confinement, problem.temperature, swings)
    return DecayRates(exact, frozen, *(2 * problem.temperature / bounds).tolist())


def grid_decay_rates(problem: ScalarProblem) -> GridDecayRates:
    """The exact and the frozen decay rate of L - L*, those of `decay_rates`, on the problem's grid as it is.

    On the grid the generator of mu* is reversible, -B^T B after symmetrisation, B the weighted differences between
    neighbours, and the non-zero eigenvalues of the linearised flow are those of

        T + (interaction/temperature) v v^T,     T = B B^T,     v = B sqrt(mu*)(phi - m),

    which is positive definite and tridiagonal but for one rank. The frozen rate is twice the least eigenvalue of T, the
    exact one twice that of the sum, each the inverse of the largest eigenvalue of the inverse (Lanczos): the factors of
    T are sums of positive numbers, so that neither fine grids nor high barriers spoil them. The flow on this grid
    decays with exactly this rate; that of the continuum, `decay_rates`, differs from it in the order spacing^2.

    >>> from unlazy.theory import scalar_problem
    >>> settings = {"interaction": 2, "target_mean": 0.3, "confinement": 0.2, "temperature": 0.3}
    >>> problem = scalar_problem(lambda x: np.exp(-2 * x**2), np.tanh, **settings)
    >>> print(np.round(grid_decay_rates(problem=problem), 4))
    [0.6386 0.1421]
    """
    check_kind("problem", problem, ScalarProblem, "as scalar_problem gives it")
    solve, pushed = _factored_generator(problem)
    inverse, slowest = _largest_eigenvalue(solve, pushed.size)
    strength = problem.interaction / problem.temperature
    # below this the rounding of v's share in the slowest direction would be taken for interaction
    least = max(1e-290, 1e6 * np.finfo(float).eps ** 2 * strength * float(pushed @ pushed))
    if not inverse * least < 1:
        raise ConvergenceError(
            f"the spectral gap is below {least:.2g} and is lost in rounding at temperature {problem.temperature:g}: "
            f"the barrier {barrier(problem):.3g} is too many times higher"
        )
    gap = 1 / inverse
    if strength * float(pushed @ pushed) == 0:
        return GridDecayRates(2 * gap, 2 * gap)

    def complement(b: np.ndarray) -> np.ndarray:
        """T^-1 without the slowest direction."""
        b = solve(b - slowest * (slowest @ b))
        return b - slowest * (slowest @ b)

    along, answer = float(slowest @ pushed), complement(pushed)
    rest = 1 + strength * float(pushed @ answer)
    total = gap * rest + strength * along**2

    def updated(b: np.ndarray) -> np.ndarray:
        """(T + strength v v^T)^-1 b, by Sherman and Morrison, with the slowest direction apart: no 1/gap cancels."""
        own, others = float(slowest @ b), complement(b)
        crossed = float(answer @ b)
        slow = (own * rest - strength * along * crossed) / total
        return slow * slowest + others - answer * (strength * (along * own + gap * crossed) / total)

    return GridDecayRates(2 / _largest_eigenvalue(updated, pushed.size)[0], 2 * gap)


def barrier(problem: ScalarProblem) -> float:
    """The smallest climb out of the shallower of two wells of the first variation at mu*; 0 with one well.

    With more wells, the climb that dominates: the largest over wells of the least ascent to a deeper one.

    >>> from unlazy.theory import scalar_problem
    >>> settings = {"interaction": 2, "target_mean": 0.3, "confinement": 0.2, "temperature": 0.3}
    >>> problem = scalar_problem(lambda x: np.exp(-2 * x**2), np.tanh, **settings)
    >>> print(f"{barrier(problem=problem):.4f}")
    0.5774
    """
    check_kind("problem", problem, ScalarProblem, "as scalar_problem gives it")
    potential = (
        problem.external_potential
        + problem.interaction * (problem.feature_mean - problem.target_mean) * problem.feature_values
    )
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


def _factored_generator(problem: ScalarProblem) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """b -> T^-1 b and v of `grid_decay_rates`.

    With jumps to the right at the rates right_i and to the left at left_i between the points i and i + 1, T has the
    diagonal right_i + left_i and beside it -sqrt(left_i right_(i+1)). The pivots of its elimination are
    left_i + right_i mu*_i / mu*(points up to i), without a subtraction.
    """
    from scipy.linalg.lapack import dpttrs

    pull = problem.interaction * (problem.feature_mean - problem.target_mean)
    differences = np.diff(problem.external_potential) + pull * np.diff(problem.feature_values)
    speed = problem.temperature / (problem.points[1] - problem.points[0]) ** 2
    right, left = jump_rates(differences, problem.temperature, speed)
    exponents = -(problem.external_potential + pull * problem.feature_values) / problem.temperature
    exponents = exponents - exponents.max()
    shares = np.exp(exponents - np.logaddexp.accumulate(exponents))[:-1]
    pivots = left + right * shares
    beside = -np.sqrt(left[:-1] * right[1:]) / pivots[:-1]
    flows = speed * np.sqrt(problem.grid_masses[:-1] * problem.grid_masses[1:])
    return lambda b: dpttrs(pivots, beside, b)[0], np.sqrt(flows) * np.diff(problem.feature_values)


def _largest_eigenvalue(apply: Callable[[np.ndarray], np.ndarray], size: int) -> tuple[float, np.ndarray]:
    """Of a symmetric positive operator, with its vector; infinite if the operator overflows."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(size)
    if not np.isfinite(apply(start)).all():
        return np.inf, start
    try:
        values, vectors = eigsh(LinearOperator((size, size), matvec=apply, dtype=float), k=1, v0=start)
    except ArpackError as error:
        raise ConvergenceError(f"the least eigenvalue on {size + 1} points was not found: {error}") from None
    return float(values[0]), vectors[:, 0]
