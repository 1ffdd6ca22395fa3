"""The leading neurons against the theory: masked draws, and short steps."""

import jax
import numpy as np
import pytest

from unlazy.theory.signal_noise.growth import blow_up_time, growth_rates, power_growth
from unlazy.theory.signal_noise.two_patches import race
from unlazy.training.signal_noise.token_gram.drawing import paired_second_layer
from unlazy.training.signal_noise.token_gram.leaders import Growth, growth_law, race_outcome
from unlazy.training.signal_noise.token_gram.problem import from_vectors, signal_noise_design


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("power", [2, 4])
def test_the_race_of_a_masked_draw_is_that_of_the_theory_on_what_is_there(power):
    n, width, capacity, d = 6, 4, 5, 50
    rng = np.random.default_rng(0)
    design, second_layer = signal_noise_design(n, largest_n=8), paired_second_layer(width, capacity)
    labels = np.asarray(design.classes)[:n]
    signal = np.eye(d)[:1] * np.sqrt(d) * ((2.0 if power > 2 else 1.7) / n) ** (1 / power)
    here = np.r_[:width, capacity : capacity + width]
    found = jax.jit(
        lambda noise, weights: race_outcome(from_vectors(design, signal, noise, weights, second_layer), power)
    )
    expected = []
    for _ in range(32):
        noise, weights = rng.standard_normal((8, 1, d)), rng.standard_normal((2 * capacity, d))
        outcome = found(noise, weights)
        neurons = weights[here].reshape(2, width, d)
        signals = neurons @ signal[0] * np.array([[1.0], [-1.0]])
        noises = np.array([neurons[int(labels[i] < 0)] @ noise[i, 0] for i in range(n)])
        lengths, length = np.linalg.norm(noise[:n, 0], axis=1), np.linalg.norm(signal)
        expected.append(bool(race(signals, noises, length, lengths, labels, power).benign))
        assert bool(outcome.by_class) == expected[-1]
        if power > 2:
            rates = growth_rates(length, lengths, power, n, width)
            slowest_class = blow_up_time(signals.max(axis=1), rates.signal_growth_rate[:1], power).max()
            slowest_sample = blow_up_time(noises.max(axis=1), rates.noise_growth_rate, power).max()
            assert bool(outcome.by_slowest) == (slowest_class < slowest_sample)
    assert 3 < sum(expected) < 29


@pytest.mark.parametrize("power", [2, 3, 4])
def test_the_growth_law_of_short_steps_is_that_of_gradient_flow(power):
    leader = Growth(np.float64(0.3), np.float64(2.0), (0, 0))
    steps, size = (1000, 2000), 1e-4
    law = growth_law(leader, power, size, steps)
    flow = power_growth(0.3, 2.0, power, size * np.array(steps)) / 0.3
    np.testing.assert_allclose(law, flow, rtol=1e-3)
