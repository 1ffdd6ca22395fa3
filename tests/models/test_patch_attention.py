"""The attention layer against its formula, token by token."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.models.patch_attention import PatchAttention


@pytest.fixture
def network():
    return PatchAttention.random(jax.random.key(0), 7, 4, score_deviation=0.5, value_deviation=0.7)


def test_outputs_are_the_averages_of_softmax_weighted_values(network):
    tokens = np.random.default_rng(0).standard_normal((3, 5, 7))
    query, key, value, readout = (np.asarray(leaf, float) for leaf in jax.tree.leaves(network))
    expected = []
    for x in tokens:
        rows = []
        for token in x:
            scores = np.array([token @ query @ key.T @ other for other in x])
            weights = np.exp(scores) / np.exp(scores).sum()
            rows.append(weights @ x @ value @ readout)
        expected.append(np.mean(rows))
    np.testing.assert_allclose(network(jnp.asarray(tokens)), expected, rtol=2e-5)


def test_the_order_of_tokens_does_not_matter_and_attention_sums_to_one(network):
    tokens = jax.random.normal(jax.random.key(1), (2, 6, 7))
    np.testing.assert_allclose(network(tokens[:, ::-1]), network(tokens), rtol=1e-4)
    np.testing.assert_allclose(network.attention(tokens).sum(-1), 1, rtol=1e-5)


def test_initial_weights_have_the_given_deviations():
    network = PatchAttention.random(jax.random.key(2), 500, 40, score_deviation=0.02, value_deviation=0.1)
    for leaf, deviation in ((network.query, 0.02), (network.key, 0.02), (network.value, 0.1)):
        # The relative standard error of a standard deviation is (2 N)^-1/2.
        assert abs(np.std(leaf) / deviation - 1) < 4 / np.sqrt(2 * leaf.size)
    assert np.linalg.norm(network.readout) == pytest.approx(1, rel=1e-6)
