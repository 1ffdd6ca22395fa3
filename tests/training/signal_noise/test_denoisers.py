"""Denoiser and classifier of the same samples: against the theory's loss and stationary point in d dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.theory.signal_noise.denoising import denoising_loss, symmetric_stationary_point
from unlazy.theory.signal_noise.trained_denoiser import spread_denoiser
from unlazy.training.signal_noise.denoisers import classify, denoise, draw_samples, token_denoising_loss

SIZES = {"n": 20, "d": 20_000.0, "width": 20, "largest_width": 20}


@jax.jit
def drawn(key, signal_norm):
    return draw_samples(key, signal_norm=signal_norm, **SIZES)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def problem():
    return drawn(jax.random.key(0), 20.0)


def patches_of(problem):
    """The samples in a basis of their span, (n, 2, n + 2), and the tokens in it."""
    rows = np.linalg.cholesky(np.asarray(problem.gram))
    return np.stack([rows[np.arange(20) % 2], rows[2:]], axis=1), rows


def test_samples_have_orthogonal_signals_and_the_law_of_their_noise(problem):
    gram = np.asarray(problem.gram)
    np.testing.assert_allclose(gram[:2, :2], 400 * np.eye(2), rtol=1e-12)
    np.testing.assert_allclose(gram[:2, 2:], 0, atol=1e-9)
    np.testing.assert_allclose(np.diag(gram)[2:] / 20_000, 1, atol=5 * np.sqrt(2 / 20_000))
    cosines = gram[2:, 2:][np.triu_indices(20, 1)] / 20_000 * np.sqrt(20_000)
    assert 0.7 < cosines.std() < 1.3


def test_the_loss_is_the_theorys_and_absent_neurons_do_not_count(problem):
    patches, rows = patches_of(problem)
    weights, shares = np.random.default_rng(0).standard_normal((3, 22)) / 50, np.r_[0.5, 0.5, np.full(20, 1 / 20)]
    absent = np.concatenate([weights, np.zeros((2, 22))])
    expected = denoising_loss(weights, patches, 0.7)
    with_gradient = jax.jit(jax.value_and_grad(token_denoising_loss))
    for rows_there in (weights, absent):
        loss, gradient = with_gradient(jnp.asarray(rows_there), rows, shares, 0.7, 3)
        np.testing.assert_allclose(loss, expected.loss, rtol=1e-12)
        np.testing.assert_allclose(gradient[:3], expected.gradient, rtol=1e-9, atol=1e-12 * np.abs(gradient).max())
    np.testing.assert_array_equal(gradient[3:], 0)


def test_alike_neurons_end_at_the_symmetric_stationary_point(problem):
    times = np.array([0.5, 3.0])
    found = jax.jit(jax.vmap(lambda t: denoise(problem, t, width=3, steps=4000, tolerance=1e-7)))(times)
    assert (found["gradient_norm"] < 1e-6).all()
    for time, balance in zip(times, found["symmetric_balance"], strict=True):
        signal, noise = np.abs(symmetric_stationary_point(patches_of(problem)[0], time).overlaps).mean(axis=0)
        np.testing.assert_allclose(balance, signal / noise, rtol=1e-5)


@jax.jit
def trained(signal_norm, time):
    """Where three denoisers of ten neurons end."""
    sizes, options = SIZES | {"width": 10, "largest_width": 10}, {"width": 10, "steps": 3000, "tolerance": 1e-6}

    def one(key):
        return denoise(draw_samples(key, signal_norm=signal_norm, **sizes), time, **options)

    return jax.vmap(one)(jax.random.split(jax.random.key(2), 3))


def ends(signal_strength, time):
    """The same, and where the theory of neurons of one sign has them."""
    norm = np.sqrt(1000 * signal_strength)
    return jax.tree.map(np.asarray, trained(norm, time)), spread_denoiser(signal_strength, norm, time, width=10)


def test_random_weights_end_deeper_with_neurons_spread_outside_the_span():
    found, theory = ends(1.0, 3.5)
    np.testing.assert_allclose(found["relative_depth"], theory.relative_depth, rtol=0.02)
    np.testing.assert_allclose(found["denoiser_balance"], theory.balance, rtol=0.05)
    assert theory.relative_depth > 2
    assert (found["turned_share"] == 0).all()
    assert (found["gradient_norm"] < 1e-5).all()


def test_at_small_times_a_neuron_may_turn_which_is_deeper_still():
    found, theory = ends(0.1, 1.0)
    np.testing.assert_allclose(found["turned_share"], 0.1)
    assert (found["relative_depth"] > 1.05 * theory.relative_depth).all()
    assert (found["gradient_norm"] < 1e-5).all()


def test_the_classifier_learns_what_is_strong():
    learned = jax.jit(lambda norm: classify(drawn(jax.random.key(1), norm), steps=1000))
    strong, weak = (learned(np.sqrt(1000 * strength)) for strength in (10.0, 0.3))
    assert strong["classifier_loss"] <= 0.05 >= weak["classifier_loss"]
    assert strong["classifier_balance"] > 20 > 1 / 20 > weak["classifier_balance"]
