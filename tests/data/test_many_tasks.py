import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data.many_tasks import KINDS, many_tasks
from unlazy.theory.regression.ridge import ridge_equivalent


def full(matrix):
    return np.diag(matrix) if matrix.ndim == 1 else matrix


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_the_stated_covariance(kind):
    data = many_tasks(kind, np.random.default_rng(0), n=20_000, d=30, tasks=1)
    covariance = full(data.covariance)
    error = data.design.T @ data.design / 20_000 - covariance
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) / 20_000)
    assert np.abs(error / scale).max() < 7


@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_have_the_stated_prior_and_targets_the_stated_noise(kind):
    data = many_tasks(kind, np.random.default_rng(1), n=40, d=30, tasks=20_000, noise_variance=0.3)
    prior = full(data.prior)
    error = data.coefficients @ data.coefficients.T / 20_000 - prior
    scale = np.sqrt((np.outer(np.diag(prior), np.diag(prior)) + prior**2) / 20_000)
    assert (np.abs(error) <= 7 * scale + 1e-12).all()
    residual = data.targets - data.design @ data.coefficients
    assert abs(np.mean(residual**2) / 0.3 - 1) < 5 * np.sqrt(2 / residual.size)


@pytest.mark.parametrize("kind", KINDS)
def test_excess_risk_is_the_error_on_fresh_rows(kind):
    data = many_tasks(kind, np.random.default_rng(2), n=20, d=30, tasks=3)
    guess = np.random.default_rng(3).standard_normal((30, 3)) / 5
    root = np.linalg.cholesky(full(data.covariance) + 1e-12 * np.eye(30))
    fresh = np.random.default_rng(4).standard_normal((100_000, 30)) @ root.T
    errors = np.mean((fresh @ (guess - data.coefficients) + 0.5) ** 2, axis=1)
    assert abs(errors.mean() - data.excess_risk(guess, 0.5)) < 5 * errors.std() / np.sqrt(len(errors))


@pytest.mark.parametrize("kind", KINDS)
def test_bayes_estimator_has_the_bayes_risk_and_a_wrong_noise_level_more(kind):
    data = many_tasks(kind, np.random.default_rng(5), n=25, d=30, tasks=20_000)
    prior, n = full(data.prior), 25

    def risks(noise):
        kernel = data.design @ prior @ data.design.T + noise * np.eye(n)
        missed = prior @ data.design.T @ np.linalg.solve(kernel, data.targets) - data.coefficients
        return np.sum(missed * (full(data.covariance) @ missed), axis=0)

    found = risks(0.25)
    assert abs(found.mean() - data.bayes_risk()) < 5 * found.std() / np.sqrt(len(found))
    assert risks(1.0).mean() > found.mean()


@pytest.mark.parametrize(("kind", "spectrum"), [("dense", 0.0), ("power_laws", 1.0)])
def test_bayes_risk_agrees_with_the_theory_of_ridge_in_the_metric_of_the_prior(kind, spectrum):
    data = many_tasks(kind, np.random.default_rng(6), n=100, d=1000, tasks=1)
    eigenvalues = data.covariance * data.prior
    expected = ridge_equivalent(eigenvalues, 1.0, 100, 0.25 / 100, 0.25).risk
    np.testing.assert_allclose(data.bayes_risk(), expected, rtol=0.12 if spectrum else 0.01)


def test_same_generator_gives_the_same_data():
    first, second = (many_tasks("sparse", np.random.default_rng(7), n=5, d=20) for _ in range(2))
    np.testing.assert_array_equal(first.targets, second.targets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "spars"}, "did you mean sparse"),
        ({"kind": "sparse", "d": 5}, "d for kind 'sparse' must be an integer >= 10"),
        ({"kind": "dense", "n": 0}, "n must be an integer >= 1"),
        ({"kind": "dense", "noise_variance": -1}, "noise_variance must be >= 0"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        many_tasks(rng=np.random.default_rng(0), **arguments)
