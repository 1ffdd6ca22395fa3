"""Training in two time scales against brute force in NumPy: primal ridge fits and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.observables.degrees_of_freedom import degrees_of_freedom, log_volume
from unlazy.random import normal
from unlazy.training.loop import evolve
from unlazy.training.regression import two_timescale as dynamics

RIDGE, VARIANCE = 0.05, 0.3
EFFECT = jax.jit(dynamics.noise_effect, static_argnums=5)
SIGMA = {"tanh": np.tanh, "identity": lambda x: x}


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def problem():
    """Inputs, labels of two tasks, and four neurons."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 3)), rng.normal(size=(6, 2)), rng.normal(size=(3, 4))


def primal_fit(hidden, labels):
    """The minimiser of (1/n)|y - H a/M|^2 + (ridge/M)|a|^2 from its normal equations in a."""
    n, width = hidden.shape
    return np.linalg.solve(
        hidden.T @ hidden / (n * width**2) + RIDGE / width * np.eye(width), hidden.T @ labels / (n * width)
    )


def clean_error(hidden, labels, fitted):
    n, width = hidden.shape
    return ((labels - hidden @ fitted / width) ** 2).sum(0).mean() / n + RIDGE * (fitted**2).sum(0).mean() / width


def eigenvalues(hidden):
    return np.maximum(np.linalg.eigvalsh(hidden @ hidden.T / hidden.shape[1]), 0)


def freedom(hidden):
    found = eigenvalues(hidden)
    return (found / (found + len(hidden) * RIDGE)).sum()


def frozen_size(hidden):
    return np.log1p(eigenvalues(hidden) / (len(hidden) * RIDGE)).sum() - freedom(hidden)


def slope(function, weights, step=1e-5):
    """The gradient by central differences."""
    gradient = np.zeros_like(weights)
    for index in np.ndindex(weights.shape):
        moved = np.zeros_like(weights)
        moved[index] = step
        gradient[index] = (function(weights + moved) - function(weights - moved)) / (2 * step)
    return gradient


def noisy_slope(sigma, x, y, w, noise, gradient):
    """The gradient of the clean objective of a second layer that is fitted to y + noise, as named."""
    frozen = primal_fit(sigma(x @ w), y + noise)

    def error(weights):
        hidden = sigma(x @ weights)
        return clean_error(hidden, y, primal_fit(hidden, y + noise) if gradient == "through" else frozen)

    return slope(error, w)


def balanced(n):
    return [sign * np.sqrt(n * VARIANCE) * unit[:, None] for unit in np.eye(n) for sign in (1, -1)]


@pytest.mark.parametrize("activation", ["tanh", "identity"])
@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"label_noise_variance": VARIANCE},
        {"label_noise_variance": VARIANCE, "frozen": 1.0},
        {"freedom_variance": VARIANCE},
        {"frozen_variance": VARIANCE},
        {"label_noise_variance": VARIANCE, "frozen": 1.0, "freedom_variance": 0.7},
    ],
)
def test_a_step_equals_one_written_by_hand(activation, variant):
    x, y, w = problem()
    rate, decay, temperature, key, sigma = 0.3, 0.02, 0.01, jax.random.key(5), SIGMA[activation]
    step = dynamics.build_step(
        x,
        y,
        ridge=RIDGE,
        step_size=rate,
        weight_decay=decay,
        temperature=temperature,
        activation=activation,
        **variant,
    )
    label_key, langevin_key = jax.random.split(key)
    noise = np.asarray(dynamics.label_noise(label_key, y.shape, variant.get("label_noise_variance", 0.0)))
    drift = noisy_slope(sigma, x, y, w, noise, "frozen" if "frozen" in variant else "through")
    for name, size in (("freedom_variance", freedom), ("frozen_variance", frozen_size)):
        variance = variant.get(name, 0.0)
        drift += variance / len(x) * slope(lambda weights, size=size: size(sigma(x @ weights)), w)
    kick = np.sqrt(2 * rate * temperature) * np.asarray(normal(langevin_key, w.shape))
    expected = w - rate * (w.shape[1] * drift + decay * w) + kick
    found = step(key, dynamics.State(jnp.asarray(w))).first_layer
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert np.abs(found - (1 - rate * decay) * w - kick).max() > 1e-3


@pytest.mark.parametrize("activation", ["tanh", "identity"])
def test_noise_on_the_labels_adds_the_degrees_of_freedom_to_the_expected_objective(activation):
    x, y, w = problem()
    hidden = SIGMA[activation](x @ w)
    clean = clean_error(hidden, y, primal_fit(hidden, y))
    gaps = [clean_error(hidden, y, primal_fit(hidden, y + noise)) - clean for noise in balanced(len(x))]
    expected = np.mean(gaps)
    effect = EFFECT(w, x, y, RIDGE, VARIANCE, activation)
    np.testing.assert_allclose([effect.noise_gap, effect.noise_penalty], expected, rtol=1e-11)
    np.testing.assert_allclose(
        dynamics.noise_penalty_value(hidden, RIDGE, VARIANCE, "degrees_of_freedom"), expected, rtol=1e-11
    )
    np.testing.assert_allclose(dynamics.objective(hidden, y, RIDGE), clean, rtol=1e-11)
    np.testing.assert_allclose(dynamics.second_layer(hidden, y, RIDGE), primal_fit(hidden, y), rtol=1e-9)


def test_uniform_noise_of_half_width_s_has_the_constant_s2_over_3_and_not_that_of_the_slide():
    """The sizes are those of the theory notes: n = 30, M = 200, ridge 0.05, s = 0.7."""
    rng = np.random.default_rng(3)
    half_width, hidden = 0.7, np.tanh(rng.normal(size=(30, 10)) @ rng.normal(size=(10, 200)))
    y = rng.normal(size=(30, 1))
    noise = rng.uniform(-half_width, half_width, size=(30, 4000))
    fitted = primal_fit(hidden, y + noise)
    errors = ((y - hidden @ fitted / 200) ** 2).mean(0) + RIDGE * (fitted**2).mean(0)
    gaps = errors - clean_error(hidden, y, primal_fit(hidden, y))
    slack = 4 * gaps.std(ddof=1) / np.sqrt(gaps.size)
    formula = float(dynamics.noise_penalty_value(hidden, RIDGE, half_width**2 / 3, "degrees_of_freedom"))
    assert abs(gaps.mean() - formula) < slack < 0.05 * formula
    for wrong in (half_width**2, RIDGE * half_width**2):
        assert abs(gaps.mean() - dynamics.noise_penalty_value(hidden, RIDGE, wrong, "degrees_of_freedom")) > 10 * slack


@pytest.mark.parametrize("activation", ["tanh", "identity"])
def test_the_two_expected_gradients_are_those_of_two_penalties(activation):
    x, y, w = problem()
    n, sigma = len(x), SIGMA[activation]

    def mean_slope(gradient):
        return np.mean([noisy_slope(sigma, x, y, w, noise, gradient) for noise in balanced(n)], axis=0)

    clean = slope(lambda weights: clean_error(sigma(x @ weights), y, primal_fit(sigma(x @ weights), y)), w)
    through, frozen = (mean_slope(gradient) - clean for gradient in dynamics.GRADIENTS)
    of_freedom, of_other = (
        VARIANCE / n * slope(lambda weights, size=size: size(sigma(x @ weights)), w) for size in (freedom, frozen_size)
    )
    scale = np.linalg.norm(of_freedom)
    np.testing.assert_allclose(through, of_freedom, atol=1e-7 * scale)
    np.testing.assert_allclose(frozen, of_other, atol=1e-7 * np.linalg.norm(of_other))
    effect = EFFECT(w, x, y, RIDGE, VARIANCE, activation)
    assert max(effect.through_error, effect.frozen_error) < 1e-11
    np.testing.assert_allclose(effect.frozen_distance, np.linalg.norm(frozen - of_freedom) / scale, rtol=1e-5)
    assert effect.frozen_distance > 0.2


def test_degrees_of_freedom_and_volume_are_sums_over_eigenvalues():
    hidden = np.random.default_rng(1).normal(size=(12, 5))
    kernel = jnp.asarray(hidden @ hidden.T / 5)
    np.testing.assert_allclose(degrees_of_freedom(kernel, RIDGE), freedom(hidden), rtol=1e-12)
    np.testing.assert_allclose(log_volume(kernel, RIDGE), frozen_size(hidden) + freedom(hidden), rtol=1e-12)
    np.testing.assert_allclose(degrees_of_freedom(kernel, 1e-9), 5, rtol=1e-6)
    np.testing.assert_allclose(degrees_of_freedom(kernel, 1e9), np.trace(kernel) / 12e9, rtol=1e-6)


def test_label_noise_is_uniform_with_the_variance_asked_for():
    noise = np.asarray(dynamics.label_noise(jax.random.key(0), (400, 500), VARIANCE))
    # The relative standard error of the variance of N uniform numbers is sqrt(0.8/N) = 0.002.
    assert abs(noise.var() / VARIANCE - 1) < 0.008
    assert np.abs(noise).max() <= np.sqrt(3 * VARIANCE)
    assert np.abs(noise).max() > 0.999 * np.sqrt(3 * VARIANCE)
    exact = np.asarray(dynamics.balanced_noise(7, VARIANCE))
    np.testing.assert_allclose(exact.mean(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose(exact @ exact.T / 14, VARIANCE * np.eye(7), atol=1e-15)


def test_without_signal_the_neurons_have_the_variance_of_their_linear_recursion():
    """With labels 0 each weight is w <- (1 - rate decay) w + sqrt(2 rate temperature) xi, an AR(1) process."""
    rate, decay, temperature = 0.5, 0.4, 0.03
    x = np.eye(2)
    step = dynamics.build_step(
        x, np.zeros((2, 1)), ridge=1.0, step_size=rate, weight_decay=decay, temperature=temperature
    )
    state = dynamics.init(jax.random.key(1), 2, 20_000)
    end, variances = evolve(
        lambda t, state: step(jax.random.fold_in(jax.random.key(2), t), state),
        state,
        60,
        record=lambda state: jnp.var(state.first_layer),
        record_at=(0, 3, 60),
    )
    keep, start = (1 - rate * decay) ** 2, float(jnp.var(state.first_layer))
    stationary = 2 * rate * temperature / (1 - keep)
    expected = [start, stationary + (start - stationary) * keep**3, stationary]
    # Four standard errors of a variance of 40,000 normal numbers are 2.8%.
    np.testing.assert_allclose(variances, expected, rtol=0.028)
    assert end.first_layer.shape == (2, 20_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"freedom_variance": -1.0}, "freedom_variance must be >= 0, got -1"),
        ({"activation": "tan"}, "activation must be one of .*did you mean tanh"),
        ({"ridge": 0.0}, "ridge must be >= .*got 0"),
        ({"ridge": 1e-30}, "ridge must be >= .*got 1e-30"),
        ({"step_size": -1.0}, "step_size must be > 0, got -1"),
        ({"label_noise_variance": -0.1}, "label_noise_variance must be >= 0, got -0.1"),
        ({"temperature": np.nan}, "temperature must be finite"),
    ],
)
def test_wrong_settings_are_refused(change, message):
    x, y, _ = problem()
    with pytest.raises(InputError, match=message):
        dynamics.build_step(x, y, **{"ridge": RIDGE, "step_size": 0.1, **change})


def test_wrong_data_are_refused():
    x, y, _ = problem()
    settings = {"ridge": RIDGE, "step_size": 0.1}
    with pytest.raises(InputError, match=r"labels must be a matrix with a row per sample, got shape \(6,\)"):
        dynamics.build_step(x, y[:, 0], **settings)
    with pytest.raises(InputError, match="inputs and labels must have as many rows, got 5 and 6"):
        dynamics.build_step(x[:5], y, **settings)
    with pytest.raises(InputError, match="inputs must be finite, got nan"):
        dynamics.build_step(np.where(x > 1, np.nan, x), y, **settings)
    with pytest.raises(InputError, match="d and width must be >= 1"):
        dynamics.init(jax.random.key(0), 3, 0)
    with pytest.raises(InputError, match="gradient must be one of"):
        dynamics.objective(x, y, RIDGE, gradient="stopped")
    with pytest.raises(InputError, match="noise_penalty must be one of"):
        dynamics.noise_penalty_value(x, RIDGE, VARIANCE, "both")
