import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.theory.mean_field.dual import free_energy_on
from unlazy.theory.mean_field.grid import dual_value, gibbs, square_loss
from unlazy.theory.mean_field.tanh_network import tanh_optimum
from unlazy.training.mean_field.gap_quadrature import gap_quadrature


def test_quadrature_is_the_dual_of_the_theory():
    z = np.linspace(-2, 2, 20)
    problem = {"amplitude": 4.0, "confinement": 0.05, "temperature": 0.1}
    found = tanh_optimum(z, square_loss(np.sin(2 * z)), grid_points=161, relative_half_width=7.0, **problem)
    anchor = found.predictions + 0.1 * np.random.default_rng(0).standard_normal(20)
    law = gibbs(found.grid, anchor)
    value = dual_value(found.grid, anchor, law)
    with jax.enable_x64(True):
        gap, dual = gap_quadrature(z, np.sin(2 * z), **problem)(jnp.asarray(anchor))
    assert float(dual) == pytest.approx(value, abs=1e-8)
    assert float(gap) == pytest.approx(free_energy_on(found.grid, law) - value, abs=1e-8)
