"""Several gradient steps, against single ones and the theory of the second."""

import numpy as np
import pytest

from unlazy.theory.one_step.several_steps import staircase_component
from unlazy.training.one_step.gradient_step import first_step, step_direction
from unlazy.training.one_step.several_steps import several_steps, target_samples, trained_layers


def staircase(x):
    return x[:, 0] + x[:, 0] * x[:, 1]


@pytest.mark.parametrize("batches", ["same", "fresh"])
def test_layers_follow_the_gradient_of_the_same_or_of_fresh_samples(batches):
    problem = ("relu", staircase, 40, 6, 9, 0.1, 1.5, 2, batches)
    start, first, second = trained_layers(np.random.default_rng(0), *problem)
    rng = np.random.default_rng(0)
    samples = target_samples(rng, 40, 6, staircase, 0.1)
    step = first_step(rng, samples, 9, "relu")
    np.testing.assert_allclose(start, step.initial)
    np.testing.assert_allclose(first, step.weights(1.5), rtol=1e-5)
    if batches == "fresh":
        samples = target_samples(rng, 40, 6, staircase, 0.1)
    expected = first + 1.5 * step_direction(samples, first, step.second_layer, "relu")
    np.testing.assert_allclose(second, expected, rtol=1e-4, atol=1e-5)


def test_the_second_large_step_learns_the_second_direction_by_as_much_as_the_theory_says():
    d, width = 100, 200
    given = ("relu", staircase, 16 * d, d, width, 0.01, np.sqrt(width), 2, "fresh", [])
    found = np.array([several_steps(np.random.default_rng(seed), *given).component[:, 1] for seed in range(16)])
    error = found.std(axis=0, ddof=1) / 4
    theory = staircase_component("relu", 16, relative_step_size=1, noise_variance=0.01)
    assert abs(found[:, 1].mean()) < 4 * error[1] + 0.01
    assert abs(found[:, 2].mean() - theory) < 4 * error[2]
    assert abs(found[:, 2].mean() - 1.6 * theory) > 4 * error[2]
