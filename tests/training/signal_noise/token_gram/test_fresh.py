"""Errors on fresh samples and learned coefficients against explicit vectors in d dimensions."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.training.signal_noise.token_gram import (
    Network,
    fitted,
    fresh_error,
    fresh_errors,
    from_vectors,
    gradient_descent,
    margins,
    noise_coefficients,
    paired_second_layer,
    relu_power,
    signal_coefficients,
    signal_noise_design,
    train,
    weight_gram,
)

KEY = jax.random.key(2)
SAMPLES, WIDTH, D, SIGMA = 8, 3, 60, 0.8
NETWORK = Network(relu_power(2))


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@jax.jit
def trained(mu, xi, start, orthogonal, weight_decay):
    """One program for all: the problem of explicit vectors and the last state."""
    design, second = signal_noise_design(SAMPLES), paired_second_layer(WIDTH)
    problem = from_vectors(design, mu, xi, start, second, noise_deviation=SIGMA, orthogonal=orthogonal)
    return problem, train(KEY, problem, NETWORK, gradient_descent(0.1, weight_decay=weight_decay), 60).state


@cache
def run(orthogonal, weight_decay=0.0):
    """A trained problem of explicit vectors: problem, last state, its first layer in d dimensions, the tokens."""
    rng = np.random.default_rng(3)
    mu = np.zeros((1, D))
    mu[0, 0] = 2.4
    xi = SIGMA * rng.normal(size=(SAMPLES, 1, D))
    if orthogonal:
        xi[..., 0] = 0
    start = 0.05 * rng.normal(size=(2 * WIDTH, D))
    problem, state = trained(mu, xi, start, float(orthogonal), weight_decay)
    tokens = np.concatenate([mu, xi[:, 0]])
    first_layer = float(state.weights.initial) * start + np.asarray(state.weights.coefficients) @ tokens
    return problem, state, first_layer, tokens


@partial(jax.jit, static_argnames="draws")
def error_of(problem, weights, draws, key=KEY):
    return fresh_error(key, problem, weights, NETWORK, draws=draws)


@partial(jax.jit, static_argnames="draws")
def errors_of(problem, weights, shared, own, labels, draws):
    kinds = {"shared": shared, "own": own, "labels": labels}
    return fresh_errors(KEY, problem, weights, NETWORK, draws=draws, **kinds)


def explicit_outputs(first_layer, signal_patch, noise_patches):
    """f of samples with one signal patch and one noise patch each."""
    second = np.asarray(paired_second_layer(WIDTH))
    hidden = np.maximum(first_layer @ signal_patch, 0) ** 2 + np.maximum(noise_patches @ first_layer.T, 0) ** 2
    return hidden @ second


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_fresh_errors_are_those_of_fresh_vectors(orthogonal, weight_decay):
    problem, state, first_layer, tokens = run(orthogonal, weight_decay)
    draws = 100_000
    xi = SIGMA * np.random.default_rng(4).normal(size=(draws, D))
    if orthogonal:
        xi[:, 0] = 0
    signs = np.array([1.0, -1.0])
    outputs = np.stack([sign * explicit_outputs(first_layer, sign * tokens[0], xi) for sign in signs])
    expected, losses = (outputs < 0).mean(1), np.logaddexp(0, -outputs)
    shared, own = jnp.array([[[1.0], [0.0]], [[-1.0], [0.0]]]), jnp.array([[[0.0], [1.0]], [[0.0], [1.0]]])
    found = errors_of(problem, state.weights, shared, own, signs, draws)
    assert 0.02 < expected.mean() < 0.45
    error = np.sqrt(2 * expected * (1 - expected) / draws)
    assert np.all(np.abs(found.error - expected) < 4.5 * error)
    assert np.all(np.abs(found.loss - losses.mean(1)) < 4.5 * losses.std(1) * np.sqrt(2 / draws))
    both = error_of(problem, state.weights, draws)
    np.testing.assert_allclose(both, (found.error.mean(), found.loss.mean()), rtol=1e-12)


def test_network_without_an_opinion_errs_half_of_the_time():
    problem, state, _, _ = run(orthogonal=True)
    nothing = jax.tree.map(jnp.zeros_like, state.weights)
    error, loss = error_of(problem, nothing, 50)
    assert error == 0.5
    np.testing.assert_allclose(loss, np.log(2))


def test_fresh_error_of_weights_that_are_not_finite_is_not_a_number():
    problem, state, _, _ = run(orthogonal=True)
    broken = state.weights._replace(preactivations=state.weights.preactivations.at[0].set(jnp.nan))
    assert np.isnan(error_of(problem, broken, 50).error)


def test_the_same_key_gives_the_same_fresh_samples():
    problem, state, _, _ = run(orthogonal=True)
    nearby = state.weights._replace(coefficients=state.weights.coefficients * (1 + 1e-9))
    losses = [error_of(problem, weights, 50).loss for weights in (state.weights, nearby)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert abs(error_of(problem, state.weights, 50, jax.random.key(5)).loss - losses[0]) > 1e-4


def test_coefficients_and_margins_are_those_of_the_decomposition():
    """w = w0 + j gamma mu/|mu|^2 + sum_i rho_i xi_i/|xi_i|^2, also with shrinking initial weights."""
    problem, state, first_layer, tokens = run(orthogonal=False, weight_decay=0.5)
    squares = (tokens**2).sum(1)

    @jax.jit
    def observed(problem, state):
        coefficients = [of(problem, state.weights) for of in (signal_coefficients, noise_coefficients, weight_gram)]
        return *coefficients, margins(problem, state), fitted(problem, state)

    gamma, rho, gram, found, positive = map(np.asarray, observed(problem, state))
    gamma, rho = gamma[:, 0], rho[:, :, 0]
    sign = np.sign(np.asarray(problem.second_layer))
    learned = np.outer(sign * gamma / squares[0], tokens[0]) + (rho / squares[1:]) @ tokens[1:]
    start = np.random.default_rng(3)
    start.normal(size=(SAMPLES, 1, D))
    start = 0.05 * start.normal(size=(2 * WIDTH, D))
    assert 0.01 < float(state.weights.initial) < 0.99
    np.testing.assert_allclose(float(state.weights.initial) * start + learned, first_layer, atol=1e-12)
    np.testing.assert_allclose(gram, first_layer @ first_layer.T, atol=1e-12)
    labels = np.asarray(problem.design.labels)
    hidden = (
        np.maximum(np.outer(first_layer @ tokens[0], labels), 0) ** 2 + np.maximum(first_layer @ tokens[1:].T, 0) ** 2
    )
    expected = labels * (np.asarray(problem.second_layer) @ hidden)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_array_equal(positive, expected > 0)
    np.testing.assert_allclose(state.loss, np.logaddexp(0, -expected).mean(), rtol=1e-10)


def test_patches_of_several_parts_are_drawn_with_independent_noises():
    """A sample with patches [mu + xi_1, xi_1 - xi_2] against the same in d dimensions."""
    problem, state, first_layer, tokens = run(orthogonal=True)
    draws = 40_000
    rng = np.random.default_rng(6)
    first, second = SIGMA * rng.normal(size=(2, draws, D))
    first[:, 0] = second[:, 0] = 0
    out = np.asarray(problem.second_layer)
    hidden = sum(np.maximum(patch @ first_layer.T, 0) ** 2 for patch in (tokens[0] + first, first - second))
    expected = (hidden @ out < 0).mean()
    shared, own = np.array([[[1.0], [0.0]]]), np.array([[[1.0, 0.0], [1.0, -1.0]]])
    found = errors_of(problem, state.weights, shared, own, np.ones(1), draws)
    assert 0.05 < expected < 0.5
    assert abs(float(found.error[0]) - expected) < 4.5 * np.sqrt(2 * expected * (1 - expected) / draws)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": 0}, "draws must be >= 1, got 0"),
        ({"draws": 1.5}, "draws must be whole and >= 1, got 1.5"),
        ({"labels": [2.0]}, "labels must be 1 or -1, got 2"),
        ({"labels": [1.0, 1.0]}, "shared, own and labels must have shapes"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    problem, state, _, _ = run(orthogonal=True)
    kinds = {"shared": [[[1.0], [0.0]]], "own": [[[0.0], [1.0]]], "labels": [1.0]}
    with pytest.raises(InputError, match=message):
        fresh_errors(KEY, problem, state.weights, NETWORK, **(kinds | change))
