"""Contrastive learning in token coordinates against explicit weights, the loss by hand, the probe."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.training.signal_noise.contrastive import (
    Encoder,
    Modality,
    contrast,
    draw_modality,
    embed,
    learn,
    probe_error,
)

pytestmark = pytest.mark.usefixtures("optimised")
Y = np.tile([1.0, -1.0], 4)


def draw(seed, norm, *, width=6, d=30, start=0.05):
    options = {"signal_norm": norm, "initial_deviation": start, "largest_width": width}
    return draw_modality(jax.random.key(seed), len(Y), d, width, **options)


def explicit_loss(weights, other_weights, tokens, other_tokens, augmentation):
    """The loss in d dimensions, sample by sample, with the second argument held fixed."""
    n = len(Y)
    fixed = jax.lax.stop_gradient(other_weights)
    total = 0.0
    for i in range(n):
        patches = Y[i] * tokens[0], tokens[1 + i]
        scores = []
        for j in (i, *(j for j in range(n) if Y[j] != Y[i])):
            partners = Y[j] * other_tokens[0], other_tokens[1 + j] + augmentation * other_tokens[1 + n + j]
            pairs = zip(patches, partners, strict=True)
            scores.append(sum(jax.nn.relu(weights @ a) @ jax.nn.relu(fixed @ b) for a, b in pairs))
        total += jax.nn.logsumexp(jnp.stack(scores)) - scores[0]
    return total / n


slope = jax.jit(jax.grad(explicit_loss))


@pytest.mark.parametrize("two", [False, True])
def test_token_coordinates_are_gradient_descent_in_d_dimensions(two):
    with jax.enable_x64(True):
        first, second = draw(0, 2.0), draw(1, 4.0)
        setting = {"augmentation_deviation": 0.5, "step_size": 0.02, "steps": 25, "stop_loss": 1e-9, "early": (5, 10)}
        learned = jax.jit(partial(learn, two=two, **setting))(first, second, jnp.asarray(Y))
        weights, others = first.weights, second.weights
        for _ in range(25):
            if two:
                steps = (
                    slope(weights, others, first.tokens, second.tokens, 0.0),
                    slope(others, weights, second.tokens, first.tokens, 0.0),
                )
                weights, others = weights - 0.02 * steps[0], others - 0.02 * steps[1]
            else:
                weights = weights - 0.02 * slope(weights, weights, first.tokens, first.tokens, 0.5)
        found = first.weights + learned.encoder.coefficients @ first.tokens[: len(Y) + 1]
        assert np.abs(weights - first.weights).max() > 0.05
        np.testing.assert_allclose(found, weights, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(learned.encoder.preactivations, weights @ first.tokens.T, rtol=1e-8, atol=1e-10)


def test_embeddings_that_tell_nothing_have_the_loss_of_guessing():
    modality = draw(2, 1.0, start=1e-9)
    found = embed(modality.weights @ modality.tokens.T, jnp.asarray(Y))
    assert contrast(found, found, jnp.asarray(Y)) == pytest.approx(np.log(1 + len(Y) / 2), rel=1e-5)


def test_the_loss_by_hand_for_two_samples():
    """One neuron on each patch: similarities 4 + 1 with the positive, 0 + 2 with the negative, and the like."""
    first = jnp.array([[2.0], [0.0]]), jnp.array([[1.0], [3.0]])
    second = jnp.array([[2.0], [0.0]]), jnp.array([[1.0], [2.0]])
    expected = (np.log1p(np.exp(2.0 - 5.0)) + np.log1p(np.exp(3.0 - 6.0))) / 2
    assert contrast(first, second, jnp.array([1.0, -1.0])) == pytest.approx(expected, rel=1e-6)


def test_the_probe_reads_a_signal_and_nothing_else():
    n, d, neurons = 8, 200, 10
    options = {"signal_norm": 10.0, "initial_deviation": 0.01, "largest_width": neurons}
    modality = draw_modality(jax.random.key(3), n, d, neurons, **options)
    blind = modality.weights.at[:, 0].set(0.0)
    seeing = blind.at[:, 0].set(jnp.where(jnp.arange(neurons) % 2 == 0, 1.0, -1.0))
    errors = []
    for weights in (blind, seeing):
        encoder = Encoder(weights @ modality.tokens.T, jnp.zeros((neurons, n + 1)))
        errors.append(probe_error(jax.random.key(4), Modality(modality.tokens, weights), encoder, n))
    # 400 fresh samples: four standard errors of a fair coin are 0.1.
    assert abs(errors[0] - 0.5) < 0.1
    assert errors[1] == 0


def test_absent_neurons_stay_absent():
    options = {"signal_norm": 2.0, "initial_deviation": 0.05, "largest_width": 6}
    first, second = (draw_modality(jax.random.key(k), 8, 30, 4, **options) for k in (5, 6))
    setting = {"augmentation_deviation": 0.5, "step_size": 0.02, "steps": 25, "stop_loss": 0.01, "early": (5, 10)}
    learned = learn(first, second, jnp.asarray(Y), two=True, **setting)
    assert (learned.encoder.preactivations[4:] == 0).all()
    assert (learned.encoder.coefficients[4:] == 0).all()
    assert (learned.encoder.coefficients[:4] != 0).any()
