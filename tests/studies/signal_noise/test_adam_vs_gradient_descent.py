"""The study adam-vs-gradient-descent: every optimiser against a plain NumPy loop over all coordinates, paired arms."""

from functools import cache

import jax
import numpy as np
import pytest

from unlazy.lab.running.plan import entropy
from unlazy.random import normal
from unlazy.studies.signal_noise.adam_vs_gradient_descent import AdamVsGradientDescent
from unlazy.theory.signal_noise import memorising_ridge, reversing_adversary

SIZES = {
    "n": 6,
    "noise_coordinates": 5,
    "largest_noise_coordinates": 7,
    "width": 3,
    "initial_reach": 0.6,
    "adversary": 0.4,
    "steps": 25,
}


def reference(study, key):
    """The same run in NumPy with a weight for every coordinate: gradients by hand, Adam as on the slide."""
    entry_key, weight_key, _ = jax.random.split(key, 3)
    signal_key, block_key, _ = jax.random.split(weight_key, 3)
    n, s, size, m = study.n, study.noise_coordinates, study.largest_noise_coordinates, study.width
    deviation, coupled = study.initial_reach / np.sqrt(s), study.decay == "coupled"
    entries = np.asarray(normal(entry_key, (n, size)), float)[:, :s] / np.sqrt(s)
    drawn = deviation * np.asarray(normal(block_key, (2 * m, n, size if coupled else 1)), float)
    # Weights along the noise, with the read that was drawn: those across it are never read.
    blocks = drawn[:, :, :s] if coupled else drawn * entries / np.linalg.norm(entries, axis=1)[:, None]
    y, readout = np.tile([1.0, -1.0], n // 2), np.repeat([1.0, -1.0], m)
    xi = np.zeros((n, 1 + n * s))
    for i in range(n):
        xi[i, 1 + i * s : 1 + (i + 1) * s] = entries[i]
    noise_alone = xi.copy()
    xi[:, 0] = -study.adversary * y
    mu = np.eye(1 + n * s)[0]
    weights = np.concatenate(
        [deviation * np.asarray(normal(signal_key, (2 * m,)), float)[:, None], blocks.reshape(2 * m, -1)], axis=1
    )
    step_size = study.relative_step_size * (1 if study.optimiser == "gd" else deviation)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for t in range(1, study.steps + 1):
        gradient = study.weight_decay * weights if coupled else np.zeros_like(weights)
        for i in range(n):
            patches = y[i] * mu, xi[i]
            output = sum(readout @ np.maximum(weights @ x, 0) ** 3 for x in patches)
            pull = -y[i] / (1 + np.exp(y[i] * output)) / n
            for x in patches:
                gradient += pull * np.outer(readout * 3 * np.maximum(weights @ x, 0) ** 2, x)
        if study.optimiser == "adam":
            first = 0.9 * first + 0.1 * gradient
            second = 0.99 * second + 0.01 * gradient**2
            step = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.99**t)) + 1e-12)
        else:
            step = np.sign(gradient) if study.optimiser == "sign" else gradient
        shrink = 0 if coupled else study.weight_decay
        weights = weights - step_size * (step + shrink * weights)
    own = y[:, None] * readout > 0
    return np.max(readout * weights[:, 0]), np.max((noise_alone @ weights.T)[own])


@cache
def program(optimiser, decay="decoupled"):
    """One compiled program for all keys, step sizes and decays."""

    def simulate(key, size, weight_decay):
        numbers = {"relative_step_size": size, "weight_decay": weight_decay}
        return AdamVsGradientDescent(optimiser=optimiser, decay=decay, **SIZES, **numbers).simulate(key)

    return jax.jit(simulate)


@pytest.mark.parametrize(
    ("optimiser", "size", "decay", "weight_decay"),
    [
        ("gd", 0.5, "decoupled", 0.0),
        ("adam", 0.1, "decoupled", 0.0),
        ("adam", 0.1, "decoupled", 1.0),
        ("adam", 0.1, "coupled", 0.01),
        ("sign", 0.1, "decoupled", 0.0),
    ],
)
def test_one_coordinate_for_each_sample_moves_as_all_of_them_do_in_a_plain_loop(optimiser, size, decay, weight_decay):
    study = AdamVsGradientDescent(
        optimiser=optimiser, decay=decay, relative_step_size=size, weight_decay=weight_decay, **SIZES
    )
    with jax.enable_x64(True):
        found = program(optimiser, decay)(jax.random.key(7), size, weight_decay)
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
        found = [[program(arm)(jax.random.key(seed), 1e-20, 0.0) for seed in range(3)] for arm in arms]
    noise = np.array([[float(one["noise_preactivation"]) for one in arm] for arm in found])
    np.testing.assert_allclose(noise, np.broadcast_to(noise[0], (3, 3)), rtol=1e-12)
    assert len(set(noise[0])) == 3


def errors(adversary, weight_decay, decay="decoupled"):
    """Adam's test errors and shares of kept signals in eight runs at s = 64."""
    keys = jax.random.split(jax.random.key(11), 8)

    @jax.jit
    @jax.vmap
    def simulate(key):
        study = AdamVsGradientDescent(
            adversary=adversary, decay=decay, weight_decay=weight_decay, largest_noise_coordinates=64
        )
        found = study.simulate(key)
        return found["test_error"], found["kept_signal"]

    return [np.mean(values) for values in simulate(keys)]


def test_adam_loses_the_signal_beyond_the_predicted_adversary_alone():
    boundary = reversing_adversary(64)
    error, kept = errors(0.2 * boundary, 0.0)
    assert error < 0.05
    assert kept > 0.35
    error, kept = errors(4 * boundary, 0.0)
    assert error > 0.9
    assert kept < 0.15


@pytest.mark.slow
def test_only_a_ridge_of_the_predicted_size_repairs_adam():
    critical = memorising_ridge(20, 20, 0.05 / 8)
    assert errors(0.5, critical / 30, "coupled")[0] > 0.9
    assert errors(0.5, 2 * critical, "coupled")[0] < 0.05
