import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.lab.running.plan import entropy
from unlazy.numerics.roots import ConvergenceError
from unlazy.studies.mean_field.mean_field_minibatch import (
    AMPLITUDE,
    METHODS,
    OTHERS,
    PLAIN,
    SIZES,
    MeanFieldMinibatch,
    network_data,
    optimum,
)
from unlazy.theory.mean_field.grid import square_loss
from unlazy.theory.mean_field.tanh_network import tanh_optimum


def test_the_optimum_is_a_fixed_point_of_its_own_residuals():
    """mu* ~ exp(-(confinement |x|^2 + mean_i (f(z_i) - y_i) h_i(x))/temperature), here summed on another grid."""
    confinement, temperature = 0.005, 0.01
    z, y = network_data(256)
    best = optimum(256, confinement, temperature)
    line = np.linspace(-6.5, 6.5, 111)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    hidden = 4 * np.tanh(np.outer(points[:, 0], z) + points[:, 1:])
    square = (points**2).sum(axis=1)
    exponent = -(confinement * square + hidden @ (best.predictions - y) / 256) / temperature
    law = np.exp(exponent - exponent.max())
    law /= law.sum()
    assert law @ hidden == pytest.approx(best.predictions, abs=1e-4)
    energy = 0.5 * np.mean((law @ hidden - y) ** 2) + confinement * law @ square
    assert best.energy == pytest.approx(energy, abs=1e-5)


def test_the_cost_of_a_step_counts_the_rows_it_touches():
    """2B + n/m with variance reduction and m = n/B, where the anchor's gradient on n rows serves m steps."""
    costs = {name: MeanFieldMinibatch(gradient_estimate=name)._cost() for name in METHODS}
    assert costs == {"full": 256, "sgd-4": 4, "sgd-16": 16, "svrg-4": 2 * 4 + 256 / 64, "reshuffled-4": 4}


def test_the_floors_of_one_seed_share_their_randomness():
    """Though their runs differ in length: else F fluctuates by more than the floors that are subtracted."""
    points = [PLAIN | {"used": size} for size in SIZES]
    points += [{"gradient_estimate": name, "evaluations": count, "used": 16, "near": 1.0} for name, count in OTHERS]
    assert len({entropy(MeanFieldMinibatch, point, 3) for point in points}) == 1
    assert entropy(MeanFieldMinibatch, points[0], 4) != entropy(MeanFieldMinibatch, points[0], 3)


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="n must be an integer >= 32"):
        MeanFieldMinibatch.parameter("n").coerce(16)


def test_the_least_energy_is_found_where_the_box_of_the_simulation_cuts_the_law_off():
    z, y = network_data(32)
    with pytest.raises(ConvergenceError, match="cuts the optimum off"):
        optimum(32, 0.005, 0.01)
    free = tanh_optimum(z, square_loss(y), amplitude=AMPLITUDE, confinement=0.005, temperature=0.01, grid_points=101)
    assert MeanFieldMinibatch(n=32).predict()["least_energy"] == pytest.approx(free.energy, rel=1e-4)


def test_a_law_that_no_box_resolves_is_refused_by_what_can_be_changed():
    with pytest.raises(InputError, match=r"temperature must be larger .* confinement = 0.005 and n = 32, got 1e-06"):
        MeanFieldMinibatch(n=32, temperature=1e-6).predict()
