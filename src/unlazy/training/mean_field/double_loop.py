"""Double loops for convex functionals of a distribution: particle dual averaging and stochastic dual coordinate ascent.

    loop = exact_inner(optimum.grid)
    state = dual_averaging_init(loop)
    for _ in range(400):
        state = dual_averaging_step(loop, state)
    state.law.free_energy                       # L(q_t)

Both keep a Gibbs law q ~ exp(-(sum_i w_i a_i h_i + share V) / temperature) through its n coefficients; the inner loop
turns coefficients into expectations under q. Here it is exact, by quadrature (`exact_inner`, particle dimension up to
3); any sampler of the same signature can take its place. F = sum_i w_i l_i(E h_i) + E V as in
`unlazy.theory.mean_field.dual`, V with the confinement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.mean_field.dual import free_energy_on
from unlazy.theory.mean_field.grid import GridProblem, Loss, gibbs_of_potential


class InnerLaw(NamedTuple):
    """What the inner loop says of a Gibbs law q."""

    predictions: np.ndarray
    """E_q h_i."""
    free_energy: float
    """L(q) = F(q) + temperature Ent(q)."""
    log_partition: float
    """log int exp(-potential / temperature)."""


class InnerLoop(NamedTuple):
    """The functional and the map from coefficients and the share of V to the law."""

    law: Callable[[np.ndarray, float], InnerLaw]
    loss: Loss
    loss_weights: np.ndarray
    temperature: float
    added_constant: float = 0.0


class AveragingState(NamedTuple):
    """q_t of particle dual averaging."""

    iteration: int
    """t, from 1."""
    total: np.ndarray
    """sum over s < t of s times the slopes seen at s."""
    law: InnerLaw


class AscentState(NamedTuple):
    """The dual point g_i = l_i'(u_i) of stochastic dual coordinate ascent and its Gibbs law."""

    iteration: int
    pseudo_predictions: np.ndarray
    """u; at the optimum E_q h = u."""
    multipliers: np.ndarray
    """g."""
    law: InnerLaw
    dual: float
    """D(g) <= L*; `law.free_energy - dual` bounds the optimality gap of q."""


def exact_inner(grid: GridProblem) -> InnerLoop:
    """The inner loop by quadrature on a grid, such as `mean_field_optimum(...).grid`."""

    def law(coefficients: np.ndarray, share: float) -> InnerLaw:
        potential = grid.feature_values @ (grid.loss_weights * coefficients) + share * grid.potential
        found = gibbs_of_potential(grid, potential)
        return InnerLaw(found.predictions, free_energy_on(grid, found), found.log_partition)

    return InnerLoop(law, grid.loss, grid.loss_weights, grid.temperature, grid.added_constant)


def dual_averaging_init(loop: InnerLoop) -> AveragingState:
    """q_1 ~ exp(-V/temperature)."""
    start = np.zeros(loop.loss_weights.size)
    return AveragingState(1, start, loop.law(start, 1.0))


def dual_averaging_step(loop: InnerLoop, state: AveragingState, row: int | None = None) -> AveragingState:
    """One outer step of particle dual averaging (PDA); with `row`, the online one that sees a single loss.

        q_(t+1) ~ exp(-[2/((t+1)(t+2)) sum_(s<=t) s sum_i w_i l_i'(E_(q_s) h_i) h_i + t/(t+2) V] / temperature),

    where the online step has the term of `row` alone, divided by its weight's share of the sum (rows must be drawn
    uniformly). L(q_t) - L* = O(1/t) for bounded features. Source: Nitanda, Wu & Suzuki (2021).
    """
    t = state.iteration
    slopes = loop.loss.first_derivative(state.law.predictions)
    if row is not None:
        row = check_whole("row", row, 0, slopes.size - 1)
        slopes = np.where(np.arange(slopes.size) == row, slopes.size * slopes, 0.0)
    total = state.total + t * slopes
    law = loop.law(2 / ((t + 1) * (t + 2)) * total, t / (t + 2))
    return AveragingState(t + 1, total, law)


def coordinate_ascent_init(loop: InnerLoop, pseudo_predictions: ArrayLike | None = None) -> AscentState:
    """The dual point g = l'(u) of `pseudo_predictions` u, 0 if not given. For squared loss u = y is g = 0."""
    count = loop.loss_weights.size
    if not np.allclose(loop.loss_weights, 1 / count, rtol=1e-12):
        raise InputError("loss_weights must all be 1/n for dual coordinate ascent, got others")
    u = np.zeros(count) if pseudo_predictions is None else check_array("pseudo_predictions", pseudo_predictions, ndim=1)
    if u.size != count:
        raise InputError(f"pseudo_predictions must have one entry per loss ({count}), got {u.size}")
    return _ascent_state(loop, 0, u, loop.loss.first_derivative(u))


def coordinate_ascent_step(loop: InnerLoop, state: AscentState, row: int, bound: float) -> AscentState:
    """One step of particle stochastic dual coordinate ascent (P-SDCA) on coordinate `row`, drawn uniformly.

        g_i <- g_i + argmax_d [-l_i*(g_i + d) + d E_q h_i - R^2 d^2 / (2 n temperature)],     |h| <= R (`bound`),

    for squared loss g_i += (E_q h_i - y_i - g_i)/(1 + R^2/(n temperature)). The dual never falls, and the expected gap
    contracts by `ascent_contraction` or faster. Source: Oko, Suzuki, Wu & Nitanda (2022).
    """
    count = loop.loss_weights.size
    row = check_whole("row", row, 0, count - 1)
    stiffness = float(check_array("bound", bound, above=0, ndim=0)) ** 2 / (count * loop.temperature)
    u, g = state.pseudo_predictions.copy(), state.multipliers.copy()
    u[row], g[row] = _proximal(loop.loss, count, row, float(state.law.predictions[row]), float(g[row]), stiffness)
    return _ascent_state(loop, state.iteration + 1, u, g)


def averaging_free_energies(loop: InnerLoop, rows: Iterable[int | None]) -> np.ndarray:
    """L(q_1), L(q_2), ... of particle dual averaging, one step for each row; None sees all losses."""
    state = dual_averaging_init(loop)
    found = [state.law.free_energy]
    for row in rows:
        state = dual_averaging_step(loop, state, row)
        found.append(state.law.free_energy)
    return np.array(found)


def ascent_duals(
    loop: InnerLoop, rows: Iterable[int], bound: float, pseudo_predictions: ArrayLike | None = None
) -> np.ndarray:
    """D at the start of stochastic dual coordinate ascent and after the step of each row."""
    state = coordinate_ascent_init(loop, pseudo_predictions)
    found = [state.dual]
    for row in rows:
        state = coordinate_ascent_step(loop, state, row, bound)
        found.append(state.dual)
    return np.array(found)


def ascent_contraction(n: int, bound: float, temperature: float, smoothness: float = 1.0) -> float:
    """1 - 1/(n + R^2 s/temperature): the guaranteed factor of E[D* - D] per step of `coordinate_ascent_step`.

    `smoothness` s bounds l'': 1 for squared, 1/4 for logistic loss.
    """
    n = check_whole("n", n, 1)
    given = {"bound": bound, "temperature": temperature, "smoothness": smoothness}
    size, heat, smooth = (float(check_array(name, number, above=0, ndim=0)) for name, number in given.items())
    return 1 - 1 / (n + size**2 * smooth / heat)


def _ascent_state(loop: InnerLoop, iteration: int, u: np.ndarray, g: np.ndarray) -> AscentState:
    law = loop.law(g, 1.0)
    conjugates = g * u - loop.loss.value(u)
    dual = float(-(loop.loss_weights @ conjugates) - loop.temperature * law.log_partition + loop.added_constant)
    return AscentState(iteration, u, g, law, dual)


def _proximal(loss: Loss, count: int, row: int, mean: float, g: float, stiffness: float) -> tuple[float, float]:
    """The root u of u - mean + stiffness (l'(u) - g), increasing with slope >= 1, and l'(u)."""

    def at(u: float) -> tuple[float, float, float]:
        filled = np.full(count, u)
        slope, curvature = float(loss.first_derivative(filled)[row]), float(loss.second_derivative(filled)[row])
        return u - mean + stiffness * (slope - g), 1 + stiffness * curvature, slope

    u = mean
    value, rise, slope = at(u)
    low, high = u - abs(value), u + abs(value)
    for _ in range(100):
        trial = u - value / rise
        if not low <= trial <= high:
            trial = (low + high) / 2
        if abs(trial - u) <= 1e-15 * (abs(u) + abs(mean) + 1e-300) or value == 0:
            return u, slope
        u = trial
        value, rise, slope = at(u)
        low, high = (u, high) if value < 0 else (low, u)
    if abs(value) <= 1e-12 * (1 + abs(mean) + stiffness * abs(slope - g)):
        return u, slope
    raise ConvergenceError(f"the proximal step of row {row} left a residual of {value:.3g}")
