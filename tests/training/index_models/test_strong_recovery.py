"""Algorithm 1 in segments: chains and networks agree, and activations have the slopes of their values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.functions.elementwise import LINKS
from unlazy.training.index_models.strong_recovery import (
    absolute_errors,
    chain_overlaps,
    network_weights,
    random_activations,
    rules,
)

SIZES = (0.5, 0.4, 0.3)


def test_activations_have_the_slopes_of_their_values_and_one_sign_for_each_neuron():
    activation = random_activations(jax.random.key(0), 5, SIZES)
    u = jnp.linspace(-1, 1, 5)
    slopes = jax.jvp(activation.value, (u,), (jnp.ones(5),))[1]
    np.testing.assert_allclose(activation.slope(u), slopes, rtol=1e-5, atol=1e-6)
    # the first coefficient is half the difference at +-sqrt(3), where h_3 is 0
    root = jnp.full(5, np.sqrt(3.0))
    np.testing.assert_allclose(abs(activation(root) - activation(-root)) / (2 * np.sqrt(3)), SIZES[0], rtol=1e-5)


def test_step_sizes_fall_as_one_over_the_segment_and_both_uses_agree_after_the_first():
    rule = rules(4, jnp.ones(3), 0.1, 0.7, 0.0)
    np.testing.assert_allclose(rule.step_size, 0.1 / np.arange(1, 5), rtol=1e-6)
    np.testing.assert_allclose(rule.reuse_step_size, [0.7, *(0.1 / np.arange(2, 5))], rtol=1e-6)


@pytest.mark.slow
def test_chains_have_the_overlaps_of_the_neurons_of_networks():
    d, length, count = 12, 120, 400
    key = jax.random.key(3)
    activation = random_activations(jax.random.key(1), count, SIZES)
    rule = rules(3, jnp.ones(count), 0.1, 0.2, 0.01)
    chains = chain_overlaps(key, count, float(d), length, rule, activation, LINKS["He3"])[-1]

    def neuron(own, place):
        one = jax.tree.map(lambda each: each[:, :1] if each.ndim == 2 else each, rule)
        alone = LINKS["He3"]._replace(derivative=lambda u: activation.slope(jnp.broadcast_to(u, (count,)))[place][None])
        return network_weights(own, 1, d, length, one, alone, LINKS["He3"])[-1, 0, 0]

    network = jax.vmap(neuron)(jax.random.split(jax.random.key(4), count), jnp.arange(count))
    first, second = (np.asarray(abs(each), float) for each in (chains, network))
    error = np.sqrt((first.var() + second.var()) / count)
    assert abs(first.mean() - second.mean()) < 4 * error < 0.25 * first.mean()


def test_found_directions_and_matching_activations_leave_a_small_error():
    with jax.enable_x64(True):
        activation = random_activations(jax.random.key(2), 8, SIZES)
        weights = jnp.zeros((2, 8, 3)).at[0, :, 0].set(1.0).at[1, :, 1].set(1.0)
        found, lost = absolute_errors(jax.random.key(0), weights, 0.0, activation, LINKS["He3"])
    assert found < 0.01
    assert lost > 0.5
