"""Relaxation of a mean-field network: the first variation against differences, equilibrium against itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.random import normal
from unlazy.training.regression.relaxation import first_variation, relax
from unlazy.training.regression.two_timescale import noise_penalty_value, objective


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def test_the_first_variation_is_what_a_new_neuron_changes():
    """A neuron of mass e beside the others, of mass 1 - e: the derivative in e is V(w) less the mean of V."""
    hidden, labels = normal(jax.random.key(0), (6, 9)), normal(jax.random.key(1), (6, 3))
    ridge, variance, new = 0.2, 0.7, normal(jax.random.key(2), (6, 1))

    def value(share):
        # columns count 1/M each: scaled ones have the masses
        columns = jnp.sqrt(10 / 9 * (1 - share)) * hidden, jnp.sqrt(10 * share) * new
        mixed = jnp.concatenate(columns, axis=1)
        return objective(mixed, labels, ridge) + noise_penalty_value(mixed, ridge, variance)

    varied = first_variation(hidden, labels, ridge, variance, jnp.concatenate([hidden, new], axis=1))
    slope = (value(1e-6) - value(0.0)) / 1e-6
    assert float(varied[-1] - varied[:-1].mean()) == pytest.approx(float(slope), rel=1e-4)


@pytest.mark.slow
def test_without_signal_the_gap_relaxes_at_twice_the_temperature():
    """A linear network whose labels are 0 but for noise has a penalty on degrees of freedom alone. As the ridge grows
    this is a square of the neurons, of which weight decay and Langevin noise take the excess at the rate 2 lambda."""
    options = {"n": 4, "d": 2, "width": 400, "tasks": 1, "activation": "identity", "start_scale": 3.0}
    weak = {"noise_variance": 1.0, "label_noise_variance": 1.0, "ridge": 1e4}
    gaps = jax.jit(
        jax.vmap(lambda key: relax(key, (0, 40), time=0.5, temperature=0.3, **options, **weak).objective_gap)
    )(jax.random.split(jax.random.key(3), 16))
    ratio = gaps[:, 1] / gaps[:, 0]
    # (1 - 0.5/40)^80: the factor of 40 steps of descent on the square of a neuron
    expected = (1 - 0.5 / 40) ** 80
    error = ratio.std() / np.sqrt(len(ratio))
    assert abs(ratio.mean() - expected) < 4 * error
    assert abs(ratio.mean() - 1.2 * expected) > 4 * error
