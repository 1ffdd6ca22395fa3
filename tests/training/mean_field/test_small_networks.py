import jax
import numpy as np
import pytest

from unlazy.training.mean_field.langevin import variation_gradient
from unlazy.training.mean_field.small_networks import block_predictions, network_shares


@pytest.mark.parametrize("count", [8, 32])
def test_networks_in_one_program_feel_the_force_of_separate_ones(count):
    inputs, targets = np.linspace(-2, 2, 20), np.sin(np.linspace(-4, 4, 20))
    particles = np.random.default_rng(0).normal(size=(128, 2))

    def together(x):
        return ((block_predictions(x, inputs, network_shares(count), 4.0) - targets) ** 2).mean() / 2

    def alone(x):
        return ((4 * jax.numpy.tanh(x[:, :1] * inputs + x[:, 1:]).mean(axis=0) - targets) ** 2).mean() / 2

    networks = jax.numpy.asarray(particles).reshape(-1, count, 2)
    separate = jax.jit(jax.vmap(lambda x: variation_gradient(alone, x)))(networks).reshape(128, 2)
    found = jax.jit(lambda x: variation_gradient(together, x))(jax.numpy.asarray(particles))
    np.testing.assert_allclose(found, separate, rtol=1e-4, atol=1e-5)
