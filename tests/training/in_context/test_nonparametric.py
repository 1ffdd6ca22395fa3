import numpy as np
import pytest

from unlazy.theory.in_context.nonparametric import in_context_risks
from unlazy.training.in_context.learned_basis import learned_basis
from unlazy.training.in_context.nonparametric import (
    SmoothTasks,
    coefficient_error,
    draw_prompts,
    fitted_attention,
    orthonormal,
)

TASKS = SmoothTasks.of_smoothness(1.0, 64)


def test_tasks_have_the_covariance_of_their_kernel():
    drawn = TASKS.draw(np.random.default_rng(0), 20_000)
    kernel = TASKS.kernel()
    np.testing.assert_allclose(np.diagonal(kernel), TASKS.variance, rtol=1e-12)
    deviation = TASKS.variance * (2 / 20_000) ** 0.5
    assert np.abs(drawn.T @ drawn / 20_000 - kernel).max() < 6 * deviation


@pytest.mark.parametrize("features", [4, 7])
def test_the_leading_functions_are_orthonormal_and_have_the_largest_variances(features):
    functions = TASKS.leading(features)
    np.testing.assert_allclose(functions.T @ functions / 64, np.eye(features), atol=1e-12)
    found = orthonormal(functions @ np.random.default_rng(0).standard_normal((features, features)), TASKS)
    np.testing.assert_allclose(found.spectrum, np.repeat(TASKS.pair_variances, 2)[:features], rtol=1e-9)
    np.testing.assert_allclose(found.spectrum.sum(), np.linalg.eigvalsh(TASKS.kernel())[-features:].sum() / 64)


def test_least_squares_on_many_prompts_is_the_best_matrix():
    rng, n, noise = np.random.default_rng(2), 40, 0.2
    basis = TASKS.leading(4)
    spectrum = np.repeat(TASKS.pair_variances, 2)[:4]
    moment = (1 - 1 / n) * spectrum + (TASKS.variance + noise) / n
    fitted = fitted_attention(rng, TASKS, 40_000, n, noise, basis)
    np.testing.assert_allclose(fitted, np.diag(spectrum / moment), atol=0.05)
    tests = draw_prompts(rng, TASKS, 20_000, n, noise, basis)
    error = coefficient_error(tests, basis, np.diag(spectrum / moment))
    assert abs(error / in_context_risks(spectrum, TASKS.variance, n, 100, noise).context_error - 1) < 0.04


def test_a_network_learns_most_of_the_leading_functions():
    functions = learned_basis(np.random.default_rng(0), TASKS.kernel(), 4, width=32, steps=400, step_size=5e-3)
    missed = TASKS.variance - orthonormal(functions, TASKS).spectrum.sum()
    least = TASKS.variance - 2 * TASKS.pair_variances[:2].sum()
    assert least <= missed * (1 + 1e-9) < 1.5 * least
