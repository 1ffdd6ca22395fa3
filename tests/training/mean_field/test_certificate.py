from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.models.mean_field import LOSSES, with_one
from unlazy.theory.mean_field.dual import free_energy_on
from unlazy.theory.mean_field.grid import dual_value, gibbs, logistic_loss, square_loss
from unlazy.theory.mean_field.optimum import mean_field_optimum
from unlazy.training.mean_field.certificate import certify, divergence, newton_change

Z = np.linspace(-2, 2, 20)
AMPLITUDE, CONFINEMENT, TEMPERATURE = 4.0, 0.05, 0.1
LABELS = {"square": np.sin(2 * Z), "logistic": np.where(np.sin(2 * Z) > 0.2, 1.0, -1.0)}


@cache
def optimum(name):
    loss = (square_loss if name == "square" else logistic_loss)(LABELS[name])
    return mean_field_optimum(
        lambda points: AMPLITUDE * np.tanh(points[:, :1] * Z + points[:, 1:]),
        loss,
        d=2,
        confinement=CONFINEMENT,
        temperature=TEMPERATURE,
        grid_points=121,
        half_width=7.0,
    )


@cache
def program(name):
    rows = tuple(jnp.asarray(x, jnp.float32) for x in (with_one(Z[:, None]), LABELS[name], np.full(20, 0.05)))

    def one(key, anchor):
        return certify(
            key,
            rows,
            anchor,
            loss=LOSSES[name],
            amplitude=AMPLITUDE,
            temperature=TEMPERATURE,
            confinement=CONFINEMENT,
            markov_chains=2048,
            annealing=100,
            polish=0,
        )

    return jax.jit(one)


@pytest.mark.parametrize("name", ["logistic", pytest.param("square", marks=pytest.mark.slow)])
def test_certificate_is_the_duality_gap_of_the_frozen_law(name):
    found = optimum(name)
    anchor = found.predictions + 0.3 * np.random.default_rng(1).standard_normal(20)
    law = gibbs(found.grid, anchor)
    exact = free_energy_on(found.grid, law) - dual_value(found.grid, anchor, law)
    true = free_energy_on(found.grid, law) - found.free_energy
    # entropy and partition function cancel: the formula of the certificate by quadrature
    loss = LOSSES[name]
    with jax.enable_x64(True):
        terms = divergence(loss, *(jnp.asarray(x) for x in (law.predictions, anchor, LABELS[name])))
        assert float(terms.mean()) == pytest.approx(exact, abs=1e-10)
    assert exact >= true > 0
    estimate = program(name)(jax.random.key(0), jnp.asarray(anchor, jnp.float32))
    assert abs(float(estimate.gap) - exact) < 4 * float(estimate.gap_se)
    # a certificate wrong by a fifth would be seen
    assert 4 * float(estimate.gap_se) < 0.2 * exact
    assert abs(float(estimate.disagreement)) < 4
    assert float(estimate.annealed) == pytest.approx(1.0, abs=1e-5)
    assert 0.6 < float(estimate.acceptance) < 0.8
    np.testing.assert_allclose(estimate.predictions, law.predictions, atol=0.25)


def test_certificate_vanishes_at_the_optimum():
    estimate = program("logistic")(jax.random.key(3), jnp.asarray(optimum("logistic").predictions, jnp.float32))
    assert abs(float(estimate.gap)) < 4 * float(estimate.gap_se)
    assert float(estimate.gap_se) < 0.005


def test_a_newton_step_with_the_exact_covariance_leaves_second_order():
    found = optimum("logistic")
    anchor = found.predictions + 0.02 * np.random.default_rng(2).standard_normal(20)
    gaps = []
    with jax.enable_x64(True):
        for _ in range(3):
            law = gibbs(found.grid, anchor)
            gaps.append(free_energy_on(found.grid, law) - dual_value(found.grid, anchor, law))
            # as many draws as grid points, each repeated by its mass, is the law itself: a weighted covariance
            root = np.sqrt(law.grid_masses * len(law.grid_masses))[:, None]
            drawn = root * (found.grid.feature_values - law.predictions)
            drawn = np.concatenate([drawn, -drawn])
            arrays = (drawn, law.predictions, anchor, LABELS["logistic"], np.full(20, 0.05))
            change = newton_change(*map(jnp.asarray, arrays), jnp.asarray(TEMPERATURE), LOSSES["logistic"])
            anchor = anchor + np.asarray(change)
    assert gaps[1] < 0.05 * gaps[0]
    assert gaps[2] < 0.05 * gaps[1]
