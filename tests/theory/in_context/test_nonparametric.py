import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.in_context.finite_size import finite_size_errors, gaussian_task_moments
from unlazy.theory.in_context.nonparametric import in_context_risks, prompt_risk

SPECTRUM = np.array([1.0, 0.7, 0.2, 0.05])
SYSTEM = {"task_variance": 2.2, "context": 17, "noise_variance": 0.3}


def best_attention(spectrum, task_variance, context, noise_variance):
    moment = (1 - 1 / context) * spectrum + (task_variance + noise_variance) / context
    return np.diag(spectrum / moment)


def test_the_exact_risk_of_the_best_matrix_is_the_sum_of_the_first_two_errors():
    found = in_context_risks(SPECTRUM, tasks=1e12, **SYSTEM)
    at_best = prompt_risk(best_attention(SPECTRUM, **SYSTEM), SPECTRUM, **SYSTEM)
    np.testing.assert_allclose(at_best, found.approximation_error + found.context_error, rtol=1e-12)
    np.testing.assert_allclose(found.risk, at_best, rtol=1e-9)


def test_no_other_matrix_has_a_lower_risk():
    best = best_attention(SPECTRUM, **SYSTEM)
    rng = np.random.default_rng(0)
    least = prompt_risk(best, SPECTRUM, **SYSTEM)
    for _ in range(20):
        assert prompt_risk(best + 1e-2 * rng.standard_normal((4, 4)), SPECTRUM, **SYSTEM) > least


def test_the_identity_leaves_features_over_context():
    found = in_context_risks(SPECTRUM, tasks=100, **SYSTEM)
    np.testing.assert_allclose(
        prompt_risk(np.eye(4), SPECTRUM, **SYSTEM), found.approximation_error + found.plain_context_error, rtol=1e-12
    )


def test_prompts_of_sines_and_cosines_have_the_risk_of_the_moments():
    """Prompts drawn here, example by example."""
    rng, n, prompts = np.random.default_rng(1), 6, 40_000
    variances = np.repeat([1.0, 0.3], 2)
    attention = rng.standard_normal((2, 2)) / 3
    places = rng.random((prompts, n + 1))
    waves = 2**0.5 * np.stack([f(2 * np.pi * m * places) for m in (1, 2) for f in (np.cos, np.sin)], axis=-1)
    values = waves @ (np.sqrt(variances) * rng.standard_normal((prompts, 4)))[:, :, None]
    values = values[..., 0]
    labels = values[:, :n] + 0.5 * rng.standard_normal((prompts, n))
    summary = np.einsum("pi,pik->pk", labels, waves[:, :n, :2]) / n
    errors = (values[:, n] - np.einsum("pk,kl,pl->p", summary, attention, waves[:, n, :2])) ** 2
    expected = prompt_risk(attention, variances[:2], variances.sum(), n, 0.25)
    deviation = errors.std() / prompts**0.5
    assert abs(errors.mean() - expected) < 4 * deviation
    assert abs(errors.mean() - 1.2 * expected) > 4 * deviation


def test_pretraining_is_the_ridgeless_equivalent_of_linear_attention():
    """A spectrum of equal values is linear regression: Gaussian tokens in many dimensions, where e is small."""
    d, context, noise, prompts = 60, 600, 0.4, 12_000
    moments = gaussian_task_moments(np.eye(d), context, noise)
    linear = finite_size_errors(moments, prompts, 0.0)
    found = in_context_risks(np.full(d, 1 / d), 1.0, context, prompts, noise)
    np.testing.assert_allclose(found.risk + noise, linear.test_error, rtol=0.02)


def test_too_few_tasks_have_no_finite_risk():
    found = in_context_risks(SPECTRUM, tasks=[8, 16, 17], **SYSTEM)
    assert np.isinf(found.risk[:2]).all()
    assert np.isfinite(found.risk[2])


def test_a_task_has_at_least_the_variance_of_its_features():
    with pytest.raises(InputError, match=r"task_variance must be at least the sum of spectrum = 1\.95, got 1"):
        in_context_risks(SPECTRUM, 1.0, 10, 100, 0.1)
    with pytest.raises(InputError, match=r"attention_weights must have shape \(4, 4\) like spectrum"):
        prompt_risk(np.eye(3), SPECTRUM, 3.0, 10, 0.1)
