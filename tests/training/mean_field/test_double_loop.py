from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from unlazy.checks import InputError
from unlazy.theory.mean_field.grid import logistic_loss, square_loss
from unlazy.theory.mean_field.optimum import mean_field_optimum
from unlazy.training.mean_field.double_loop import (
    ascent_contraction,
    coordinate_ascent_init,
    coordinate_ascent_step,
    dual_averaging_init,
    dual_averaging_step,
    exact_inner,
)

Z = np.linspace(-2, 2, 20)
Y = np.sin(2 * Z)
BOUND = 4.0


@cache
def network(loss="square", grid_points=81):
    losses = {"square": lambda: square_loss(Y), "logistic": lambda: logistic_loss(np.where(Y > 0, 1.0, -1.0))}
    found = mean_field_optimum(
        lambda x: BOUND * np.tanh(np.outer(x[:, 0], Z) + x[:, 1:]),
        losses[loss](),
        d=2,
        confinement=0.05,
        temperature=0.1,
        grid_points=grid_points,
    )
    return found, exact_inner(found.grid)


def test_dual_averaging_has_the_gaps_of_an_independent_computation():
    found, loop = network()
    state, scaled = dual_averaging_init(loop), {}
    while state.iteration < 400:
        state = dual_averaging_step(loop, state)
        scaled[state.iteration] = (state.law.free_energy - found.free_energy) * state.iteration**2
    np.testing.assert_allclose([scaled[t] for t in (100, 200, 400)], [0.208, 0.195, 0.194], rtol=5e-3)
    assert scaled[30] > 1000


def test_the_online_step_averages_to_the_full_one():
    _, loop = network(grid_points=41)
    state = dual_averaging_step(loop, dual_averaging_init(loop))
    full = dual_averaging_step(loop, state).total
    single = np.mean([dual_averaging_step(loop, state, row).total for row in range(20)], axis=0)
    np.testing.assert_allclose(single, full, rtol=1e-12)


def test_the_squared_loss_moves_a_coordinate_by_its_closed_form():
    _, loop = network(grid_points=41)
    state = coordinate_ascent_init(loop, Y)
    np.testing.assert_array_equal(state.multipliers, 0)
    moved = coordinate_ascent_step(loop, state, 3, BOUND)
    expected = (state.law.predictions[3] - Y[3]) / (1 + BOUND**2 / (20 * 0.1))
    np.testing.assert_allclose(moved.multipliers[3], expected, rtol=1e-12)
    assert np.count_nonzero(moved.multipliers) == 1


def test_the_logistic_step_maximises_its_bound():
    _, loop = network("logistic", 41)
    state = coordinate_ascent_step(loop, coordinate_ascent_init(loop), 5, BOUND)
    row, label = 3, np.sign(Y[3])
    old, mean = state.multipliers[row], state.law.predictions[row]

    def negative(p):
        move = -label * p - old
        return p * np.log(p) + (1 - p) * np.log1p(-p) - move * mean + BOUND**2 * move**2 / (2 * 20 * 0.1)

    best = minimize_scalar(negative, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12})
    moved = coordinate_ascent_step(loop, state, row, BOUND)
    np.testing.assert_allclose(moved.multipliers[row], -label * best.x, atol=1e-7)


@pytest.mark.parametrize(("loss", "smoothness"), [("square", 1.0), ("logistic", 0.25)])
def test_the_mean_over_rows_contracts_as_guaranteed_from_any_point(loss, smoothness):
    found, loop = network(loss, 41)
    factor = ascent_contraction(20, BOUND, 0.1, smoothness)
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 5.0):
        state = coordinate_ascent_init(loop, found.predictions + scale * rng.normal(size=20))
        duals = [coordinate_ascent_step(loop, state, row, BOUND).dual for row in range(20)]
        assert min(duals) >= state.dual - 1e-14
        assert found.free_energy - np.mean(duals) <= factor * (found.free_energy - state.dual)
        assert state.law.free_energy - state.dual >= state.law.free_energy - found.free_energy >= 0


def test_ascent_and_newton_meet():
    found, loop = network("logistic", 41)
    state = coordinate_ascent_init(loop)
    for row in np.random.default_rng(0).integers(20, size=1200):
        state = coordinate_ascent_step(loop, state, int(row), BOUND)
    np.testing.assert_allclose(state.dual, found.free_energy, atol=1e-13)
    np.testing.assert_allclose(state.multipliers, found.multipliers, atol=1e-6)


def test_wrong_rows_bounds_and_weights_are_refused():
    _, loop = network(grid_points=41)
    averaging, ascent = dual_averaging_init(loop), coordinate_ascent_init(loop)
    with pytest.raises(InputError, match="row must be an integer >= 0 and <= 19, got 20"):
        dual_averaging_step(loop, averaging, 20)
    with pytest.raises(InputError, match="row must be an integer >= 0 and <= 19, got -1"):
        coordinate_ascent_step(loop, ascent, -1, BOUND)
    with pytest.raises(InputError, match="bound must be > 0, got 0"):
        coordinate_ascent_step(loop, ascent, 0, 0.0)
    with pytest.raises(InputError, match=r"pseudo_predictions must have one entry per loss \(20\), got 2"):
        coordinate_ascent_init(loop, [0.0, 0.0])
    with pytest.raises(InputError, match="loss_weights must all be 1/n"):
        coordinate_ascent_init(loop._replace(loss_weights=np.arange(1.0, 21.0)))
    with pytest.raises(InputError, match="temperature must be > 0, got 0"):
        ascent_contraction(20, 4.0, 0.0)
