"""Choices by traced numbers: the rule, the activation, and what is cut out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.training.signal_noise.token_gram import (
    Network,
    cut,
    draw,
    either,
    feature_design,
    gradient_descent,
    init,
    muon,
    paired_second_layer,
    relu_or_square,
    step,
)

COUNTS = (64, 16, 4)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def first_step(power, normalised, scale):
    """The Gram matrix and the coefficients after one step of Muon or of gradient descent, by a traced switch."""
    design = feature_design(jnp.asarray(np.repeat(np.eye(3), COUNTS, axis=0)))

    @jax.jit
    def made():
        problem = draw(jax.random.key(2), design, jnp.ones(3), paired_second_layer(4), d=500.0, initial_deviation=scale)
        network = Network(relu_or_square(power))
        rule = either(normalised == 1, muon(0.5), gradient_descent(1.0))
        state = step(jax.random.key(3), init(problem, network, rule), problem, network, rule)
        return problem.gram, state.weights.coefficients

    return [np.asarray(array) for array in made()]


@pytest.mark.parametrize(("power", "rank"), [(1, 1), (2, 3)])
def test_relu_gradients_have_one_direction_of_features_and_squares_have_as_many_as_there_are(power, rank):
    _, coefficients = first_step(power, normalised=0, scale=1e-9)
    values = np.linalg.svd(coefficients[:, :3], compute_uv=False)
    assert (values > 1e-6 * values[0]).sum() == rank
    if power == 1:
        # All neurons move along the features in proportion to their samples.
        np.testing.assert_allclose(coefficients[0, :3] / coefficients[0, 2], np.array(COUNTS) / COUNTS[-1], rtol=1e-6)


def test_muon_moves_by_an_orthonormal_matrix():
    gram, coefficients = first_step(2, normalised=1, scale=0.1)
    np.testing.assert_allclose(coefficients @ gram @ coefficients.T, 0.25 * np.eye(8), atol=1e-6)


def test_cut_views_keep_as_many_patches_as_they_say():
    design = feature_design(jnp.ones((40, 1)), jnp.ones((40, 1)))
    views = jax.jit(jax.vmap(lambda kind, key: cut(kind)(key, design)))
    keys = jax.random.split(jax.random.key(0), 3)
    batch = jax.tree.map(np.asarray, views(jnp.array([0, 1, 2]), keys))
    stay, take, partner = batch.mixing.stay, batch.mixing.take, batch.mixing.partner
    assert np.all(stay[0] == 1)
    assert np.all(stay[1].sum(0) == 2)
    assert np.all(take[:2] == 0)
    assert np.all(stay[2] + take[2] == 1)
    assert 0.3 < stay[2].mean() < 0.7
    assert np.all(np.sort(partner, axis=1) == np.arange(40))
    np.testing.assert_allclose(batch.weights.sum((1, 2)), 1)
    np.testing.assert_allclose(batch.weights[2, 0] * 40, stay[2].mean(0))
    np.testing.assert_array_equal(batch.labels[2, 1], np.asarray(design.labels)[partner[2]])
