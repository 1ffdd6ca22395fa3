from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.theory.mean_field.grid import square_loss
from unlazy.theory.mean_field.tanh_network import tanh_optimum
from unlazy.training.mean_field.double_loop import ascent_duals, averaging_free_energies, exact_inner
from unlazy.training.mean_field.particle_loops import (
    LineProblem,
    ascent_gaps,
    averaging_gaps,
    drawn_rows,
    particle_sampler,
    quadrature,
)

Z = np.linspace(-2, 2, 10)
Y = np.sin(2 * Z)
NUMBERS = {"amplitude": 4.0, "confinement": 0.2, "temperature": 0.4}


@cache
def network():
    return tanh_optimum(Z, square_loss(Y), grid_points=61, **NUMBERS)


def problem(d):
    return LineProblem(Z, Y, *NUMBERS.values(), d, network().grid)


ROWS = np.random.default_rng(0).integers(10, size=12)


def test_quadrature_makes_the_steps_of_dual_averaging():
    expected = averaging_free_energies(exact_inner(network().grid), ROWS[:-1].tolist())
    found = averaging_gaps(problem(1), quadrature(problem(1)), jnp.asarray(ROWS), 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_quadrature_makes_the_steps_of_dual_coordinate_ascent():
    expected = -ascent_duals(exact_inner(network().grid), ROWS.tolist(), 4.0, Y)
    found = ascent_gaps(problem(1), quadrature(problem(1)), jnp.asarray(ROWS), 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_other_parameters_add_what_a_normal_law_has(share):
    """Against the energy and the entropy of N(0, lambda_2/(2 share lambda_1)) in each."""
    coefficients = jnp.asarray(Y, float)
    (f, free, log_total), (g, more, log_more) = (problem(d).exact(coefficients, share) for d in (1, 5))
    variance = 0.4 / (2 * share * 0.2)
    np.testing.assert_allclose(g, f, rtol=1e-6)
    np.testing.assert_allclose(more - free, 4 * (0.2 * variance - 0.2 * np.log(2 * np.pi * np.e * variance)), rtol=1e-4)
    np.testing.assert_allclose(log_more - log_total, 2 * np.log(2 * np.pi * variance), rtol=1e-4)


@pytest.mark.parametrize("d", [1, 6])
def test_particles_come_to_the_predictions_of_the_gibbs_law(d):
    """Within four standard errors, and the bias of steps of 0.05; the law itself is far from the prior."""
    coefficients = jnp.asarray(Y, float)
    sampler = particle_sampler(jax.random.key(1), problem(d), 2000, lambda _: 0.05, lambda _: 150, 150)
    _, found = jax.jit(lambda start: sampler.law(jnp.int32(1), start, coefficients, jnp.ones(())))(sampler.start)
    exact = problem(d).exact(coefficients, 1.0)[0]
    error = 4 * 4 / np.sqrt(2000)
    assert np.abs(found - exact).max() < error
    assert np.abs(exact).max() > 3 * error


def test_rows_are_drawn_uniformly():
    rows = np.asarray(drawn_rows(jax.random.key(0), 5, 5000))
    counts = np.bincount(rows, minlength=5)
    assert len(counts) == 5
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(800)
