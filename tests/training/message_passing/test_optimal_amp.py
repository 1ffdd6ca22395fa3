"""Message passing that knows the laws: its parts against derivatives and sums, its end against the exact posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr

from unlazy.theory import LinearTeacher, NormalWeights, ProbitTeacher, SignTeacher, SignWeights, SparseWeights
from unlazy.theory.message_passing.optimal import optimal_estimate
from unlazy.training.message_passing import optimal_amp


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("flip", [0.0, 0.15])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_messages_are_derivatives_of_the_labels_log_probability(flip, noise):
    if flip and noise:
        pytest.skip("no label law has both")
    law = ProbitTeacher(noise) if noise else SignTeacher(flip)
    fields, labels, spread = jnp.linspace(-6, 6, 13), jnp.where(jnp.arange(13) % 2, 1.0, -1.0), 0.7

    def log_probability(field, label):
        inside = label * field / jnp.sqrt(spread + noise)
        return jnp.log(flip + (1 - 2 * flip) * jnp.exp(log_ndtr(inside)))

    first = jax.vmap(jax.grad(log_probability))(fields, labels)
    second = jax.vmap(jax.grad(jax.grad(log_probability)))(fields, labels)
    message, slope = optimal_amp._said(law, labels, fields, spread)
    np.testing.assert_allclose(message, first, rtol=1e-9)
    np.testing.assert_allclose(slope, -second, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("law", [NormalWeights(), SignWeights(), SparseWeights(0.2)])
def test_posteriors_are_those_of_a_sum_over_weights(law):
    precision, fields = 1.7, jnp.array([-3.0, 0.1, 2.0])
    grid = np.linspace(-40, 40, 400_001)
    if isinstance(law, SignWeights):
        grid, chance = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    else:
        share = getattr(law, "nonzero_share", 1.0)
        chance = share * np.exp(-(grid**2) * share / 2) * np.sqrt(share / (2 * np.pi)) * (grid[1] - grid[0])
        chance[len(grid) // 2] += 1 - share
    mean, variance = optimal_amp._posterior(law, precision, fields)
    for field, m, v in zip(fields, mean, variance, strict=True):
        density = chance * np.exp(float(field) * grid - precision * grid**2 / 2)
        density /= density.sum()
        assert m == pytest.approx(density @ grid, abs=1e-6)
        assert v == pytest.approx(density @ grid**2 - (density @ grid) ** 2, abs=1e-6)


def problem(key, n, d, label, weights):
    rows = jax.random.normal(key, (n, d)) / np.sqrt(d)
    return optimal_amp.Problem(rows, label(rows @ weights), jnp.ones(n)), rows


def test_with_normal_weights_and_noise_it_is_ridge_regression():
    keys = jax.random.split(jax.random.key(3), 3)
    weights, noise = jax.random.normal(keys[0], (400,)), 0.5
    label = lambda t: t + np.sqrt(noise) * jax.random.normal(keys[1], t.shape)  # noqa: E731
    given, rows = problem(keys[2], 600, 400, label, weights)
    found = optimal_amp.run(given, NormalWeights(), LinearTeacher(noise), 40)
    exact = jnp.linalg.solve(rows.T @ rows + noise * jnp.eye(400), rows.T @ given.labels)
    assert jnp.linalg.norm(found.estimate - exact) < 0.02 * jnp.linalg.norm(exact)


def test_rows_that_are_not_used_change_nothing():
    weights = jnp.sign(jax.random.normal(jax.random.key(5), (100,)))
    given, rows = problem(jax.random.key(6), 150, 100, jnp.sign, weights)
    few = optimal_amp.Problem(rows[:80], given.labels[:80], given.used[:80])
    masked = given._replace(used=(jnp.arange(150) < 80).astype(float))
    one, other = (optimal_amp.run(p, SignWeights(), SignTeacher(), 30) for p in (few, masked))
    np.testing.assert_allclose(one.estimate, other.estimate, atol=1e-9)


def test_what_it_says_is_unknown_is_unknown():
    """On average: the mean squared error of its signs is the variance that it states, and that of state evolution."""

    def run(key):
        for_weights, for_rows = jax.random.split(key)
        weights = jnp.sign(jax.random.normal(for_weights, (300,)))
        given, _ = problem(for_rows, 300, 300, jnp.sign, weights)
        found = optimal_amp.run(given, SignWeights(), SignTeacher(), 40)
        return ((found.estimate - weights) ** 2).mean(), found.unknown

    errors, stated = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(8), 48))
    spread = float(errors.std(ddof=1) / np.sqrt(48))
    predicted = 1 - float(optimal_estimate(1.0, SignWeights(), SignTeacher()).overlap)
    assert abs(errors.mean() - stated.mean()) < 4 * spread < 0.1 * predicted
    assert abs(errors.mean() - predicted) < 4 * spread
    assert abs(errors.mean() - 0.8 * predicted) > 4 * spread
