"""Algorithm 1's network: blocks against single steps, precision, and the second layer."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.elementwise import as_link
from unlazy.training.index_models.online_index import _block, fit_second_layer, init, step, train
from unlazy.training.index_models.overlap_chain import Rule

THIRD, RELU = as_link("He3"), as_link("relu").derivative
D, NEURONS = 30, 6


def example(count, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((NEURONS, D))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    signs, biases = np.sign(rng.standard_normal(NEURONS)), 0.5 * rng.standard_normal(NEURONS)
    return weights, signs, biases, rng.standard_normal((count, D)), rng.standard_normal(count)


@pytest.mark.parametrize("reuse", [0.0, 1.0])
@pytest.mark.parametrize("length", [1, 9, 16])
def test_a_block_is_as_many_single_steps(reuse, length):
    weights, signs, biases, inputs, noise = example(16)
    with jax.enable_x64(True):
        rule = Rule(1.5, 2.0, reuse, jnp.asarray(signs), jnp.asarray(biases), 0.09, 2.0)
        moved = _block(jnp.asarray(weights), jnp.asarray(inputs), jnp.asarray(noise), length, rule, THIRD, RELU)
        expected = jnp.asarray(weights)
        for x, drawn in zip(inputs[:length], noise[:length], strict=True):
            expected = step(expected, jnp.asarray(x), drawn, rule, THIRD, RELU)
        assert np.abs(expected - weights).max() > 0.01
        np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_a_step_is_two_gradient_steps_on_the_correlation_loss_and_an_interpolation():
    # the algorithm as written: two steps of size eta on -y f, projected at the old w, interpolation xi, unit length
    weights, signs, biases, inputs, noise = example(1)
    x, w, d = inputs[0], weights, D
    strength, gamma = 1.3, 0.4
    eta, xi = strength / d, 1 - gamma / strength
    label = float(THIRD(x[0])) + 0.2 * noise[0]
    across = x - (w @ x)[:, None] * w

    def slope(at):
        return -(label * signs * (at @ x + biases > 0))[:, None] * across

    once = w - eta * slope(w)
    twice = once - eta * slope(once)
    expected = twice - xi * (twice - w)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    with jax.enable_x64(True):
        rule = Rule(gamma, strength, 1.0, jnp.asarray(signs), jnp.asarray(biases), 0.04)
        found = step(jnp.asarray(w), jnp.asarray(x), noise[0], rule, THIRD, RELU)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_single_precision_does_not_matter():
    weights, signs, biases, inputs, noise = example(16 * 150)
    ends = {}
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            numbers = (0.1, 1.0, 1.0, signs, biases, 0.01)
            rule = Rule(*(jnp.asarray(number, dtype) for number in numbers))
            advance = jax.jit(lambda w, x, e, rule=rule: _block(w, x, e, 16, rule, THIRD, RELU))
            current = jnp.asarray(weights, dtype)
            for x, drawn in zip(inputs.reshape(-1, 16, D), noise.reshape(-1, 16), strict=True):
                current = advance(current, jnp.asarray(x, dtype), jnp.asarray(drawn, dtype))
            ends[dtype] = np.asarray(current, float)
    assert np.abs(ends[np.float64] - weights).max() > 0.1
    np.testing.assert_allclose(ends[np.float32], ends[np.float64], atol=1e-3)


def test_records_are_the_overlaps_on_the_way_and_lengths_stay_one():
    weights = init(jax.random.key(0), NEURONS, D)

    @partial(jax.jit, static_argnums=(0, 1))
    def trained(samples, record_at):
        return train(jax.random.key(1), weights, Rule(0.5), samples, link=THIRD, record_at=record_at, block=8)

    run = trained(50, (0, 7, 50))
    np.testing.assert_allclose(run.overlaps[0], weights[:, 0])
    np.testing.assert_allclose(run.overlaps[2], run.weights[:, 0])
    assert run.overlaps.shape == (3, NEURONS)
    assert len({float(row[0]) for row in run.overlaps}) == 3
    np.testing.assert_allclose(np.linalg.norm(run.weights, axis=1), 1.0, rtol=1e-6)
    # the first seven examples do not depend on what follows
    early = trained(7, (7,))
    np.testing.assert_allclose(early.overlaps[0], run.overlaps[1], atol=1e-6)


def test_the_start_is_uniform_on_the_sphere():
    weights = np.asarray(init(jax.random.key(0), 20_000, 10))
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(weights.T @ weights / len(weights), np.eye(10) / 10, atol=5e-3)


def test_the_second_layer_learns_the_link_from_aligned_neurons_alone():
    with jax.enable_x64(True):
        aligned = jnp.zeros((64, 50)).at[:, 0].set(1.0)
        fit = jax.jit(lambda weights: fit_second_layer(jax.random.key(1), weights, 0.01, link=THIRD).relative_risk)
        assert float(fit(aligned)) < 0.1
        assert float(fit(init(jax.random.key(2), 64, 50))) > 0.8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w: train(jax.random.key(0), w, Rule(0.1), 0, link=THIRD), "n must be >= 1, got 0"),
        (lambda w: train(jax.random.key(0), w, Rule(0.0), 5, link=THIRD), "step_size must be > 0, got 0"),
        (lambda w: train(jax.random.key(0), w[:, :2], Rule(0.1), 5, link=THIRD), "d must be >= 3, got 2"),
        (lambda w: train(jax.random.key(0), w[0], Rule(0.1), 5, link=THIRD), "weights must have shape"),
        (lambda w: train(jax.random.key(0), w, Rule(0.1), 5, link=THIRD, record_at=[6]), "record_at must be"),
        (lambda w: init(jax.random.key(0), 0, 5), "width must be >= 1, got 0"),
        (lambda w: init(jax.random.key(0), 4, 2), "d must be >= 3, got 2"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(InputError, match=words):
        call(jnp.ones((4, 9)) / 3)
