"""The study adam-vs-gradient-descent: every optimiser against a plain NumPy loop, paired arms."""

from functools import cache

import jax
import numpy as np
import pytest

from unlazy.data.signal_tokens import draw_supports
from unlazy.lab.running.plan import entropy
from unlazy.random import normal
from unlazy.studies.signal_noise.adam_vs_gradient_descent import AdamVsGradientDescent


def reference(study, key):
    """The same run in NumPy: gradients by hand, Adam as on the slide with bias correction, absent neurons left out."""
    support_key, noise_key, weight_key = jax.random.split(key, 3)
    samples, largest_width, n = study.n + 500, study.largest_width, study.n
    support = 1 + np.asarray(draw_supports(support_key, samples, study.d - 1, study.noise_coordinates))[:n]
    entries = study.noise_deviation * np.asarray(normal(noise_key, (samples, study.noise_coordinates)), float)[:n]
    weights = study.initial_deviation * np.asarray(normal(weight_key, (2 * largest_width, study.d)), float)
    present = np.concatenate([np.arange(study.width), largest_width + np.arange(study.width)])
    weights, readout = weights[present], np.repeat([1.0, -1.0], study.width)
    y = np.tile([1.0, -1.0], n // 2)
    xi = np.zeros((n, study.d))
    for i in range(n):
        xi[i, support[i]] = entries[i]
    xi[:, 0] = -study.adversary * y
    mu = np.eye(study.d)[0]
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for t in range(1, study.steps + 1):
        gradient = np.zeros_like(weights)
        for i in range(n):
            patches = y[i] * mu, xi[i]
            output = sum(readout @ np.maximum(weights @ x, 0) ** 3 for x in patches)
            pull = -y[i] / (1 + np.exp(y[i] * output)) / n
            for x in patches:
                gradient += pull * np.outer(readout * 3 * np.maximum(weights @ x, 0) ** 2, x)
        gradient += study.ridge * weights
        if study.optimiser == "adam":
            first = 0.9 * first + 0.1 * gradient
            second = 0.99 * second + 0.01 * gradient**2
            step = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.99**t)) + 1e-8)
        else:
            step = np.sign(gradient) if study.optimiser == "sign" else gradient
        weights = weights - study.step_size * (step + study.decoupled_weight_decay * weights)
    own = y[:, None] * readout > 0
    return np.max(readout * weights[:, 0]), np.max((xi @ weights.T)[own])


SIZES = {
    "n": 6,
    "d": 30,
    "noise_coordinates": 5,
    "width": 3,
    "largest_width": 4,
    "initial_deviation": 0.3,
    "noise_deviation": 0.5,
    "steps": 25,
}


@cache
def program(optimiser):
    """One compiled program for all keys, step sizes and decays."""

    def simulate(key, rate, ridge, decoupled_weight_decay):
        numbers = {"step_size": rate, "ridge": ridge, "decoupled_weight_decay": decoupled_weight_decay}
        return AdamVsGradientDescent(optimiser=optimiser, **SIZES, **numbers).simulate(key)

    return jax.jit(simulate)


@pytest.mark.parametrize(
    ("optimiser", "rate", "decay"),
    [
        ("gd", 0.5, {}),
        ("gd", 0.5, {"ridge": 0.1}),
        ("adam", 0.01, {}),
        ("adam", 0.01, {"ridge": 0.01}),
        ("adam", 0.01, {"decoupled_weight_decay": 1.0}),
        ("sign", 0.01, {}),
    ],
)
def test_optimisers_move_as_in_a_plain_loop(optimiser, rate, decay):
    study = AdamVsGradientDescent(optimiser=optimiser, step_size=rate, **SIZES, **decay)
    with jax.enable_x64(True):
        found = program(optimiser)(jax.random.key(7), rate, study.ridge, study.decoupled_weight_decay)
        expected = reference(study, jax.random.key(7))
    np.testing.assert_allclose([found["signal_preactivation"], found["noise_preactivation"]], expected, rtol=1e-6)


def test_arms_start_from_the_same_weights_on_the_same_samples():
    """They have one key, and after steps of next to nothing all that was drawn is still to be seen."""
    arms = ("gd", "adam", "sign")
    points = [AdamVsGradientDescent(optimiser=arm).as_dict() for arm in arms]
    keys = [[entropy(AdamVsGradientDescent, point, seed) for seed in range(3)] for point in points]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys[0])) == 3
    with jax.enable_x64(True):
        found = [[program(arm)(jax.random.key(seed), 1e-20, 0.0, 0.0) for seed in range(3)] for arm in arms]
    noise = [[float(one["noise_preactivation"]) for one in arm] for arm in found]
    assert noise[0] == noise[1] == noise[2]
    assert len(set(noise[0])) == 3


@pytest.mark.slow
def test_adam_fails_and_a_ridge_repairs_it():
    """Eight seeds of one width; the ridges are 0 and 10 times the one that balances the data at the start."""
    keys = jax.random.split(jax.random.key(11), 8)
    balancing = AdamVsGradientDescent().predict()["balancing_ridge"]
    assert balancing == pytest.approx(9.6e-5, rel=1e-6)

    @jax.jit
    @jax.vmap
    def errors(key, ridge):
        return AdamVsGradientDescent(largest_width=20, ridge=ridge).simulate(key)["test_error"]

    assert np.mean(errors(keys, np.zeros(8))) > 0.4
    assert np.mean(errors(keys, np.full(8, 10 * balancing))) < 0.05
