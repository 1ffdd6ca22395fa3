import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.spectra import power_law
from unlazy.theory.regression.ridge import RidgeEquivalent, ridge_equivalent, ridge_equivalent_matrices


def assert_same(first, second, **tolerances):
    for name, a, b in zip(RidgeEquivalent._fields, first, second, strict=True):
        np.testing.assert_allclose(a, b, err_msg=name, **tolerances)


def random_matrices(d, seed):
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    factor = rng.standard_normal((d, d)) / np.sqrt(d)
    return rotation, rotation @ np.diag(power_law(d, 0.8)) @ rotation.T, factor @ factor.T


def test_only_the_diagonal_of_the_prior_in_the_eigenbasis_matters():
    rotation, covariance, prior = random_matrices(30, 0)
    diagonal = np.diag(rotation.T @ prior @ rotation)
    n, ridge = [[10], [30], [40]], [0.0, 0.02]
    full = ridge_equivalent_matrices(covariance, prior, n, ridge, 0.1)
    assert_same(full, ridge_equivalent(power_law(30, 0.8), diagonal, n, ridge, 0.1), rtol=1e-9, atol=1e-12)


def test_a_metric_is_a_change_of_coordinates():
    _, covariance, prior = random_matrices(30, 1)
    factor = np.random.default_rng(2).standard_normal((30, 30))
    inverse = np.linalg.inv(factor)
    metric = ridge_equivalent_matrices(covariance, prior, 20, 0.1, 0.2, metric=factor @ factor.T)
    moved = ridge_equivalent_matrices(factor.T @ covariance @ factor, inverse @ prior @ inverse.T, 20, 0.1, 0.2)
    assert_same(metric, moved, rtol=1e-8)
    ones = ridge_equivalent_matrices(covariance, prior, 20, 0.1, 0.2, metric=np.eye(30))
    assert_same(ones, ridge_equivalent_matrices(covariance, prior, 20, 0.1, 0.2), rtol=1e-10)


@pytest.mark.parametrize("rank", [60, 120])
@pytest.mark.parametrize("ridge", [0.0, 0.02])
def test_finite_designs_agree_with_the_equivalent_under_a_metric(rank, ridge):
    d, n, noise, seeds = 120, 90, 0.2, 30
    _, covariance, prior = random_matrices(d, 3)
    factor = np.random.default_rng(4).standard_normal((d, rank)) * power_law(rank, 0.3)
    theory = ridge_equivalent_matrices(covariance, prior, n, ridge, noise, metric=factor @ factor.T)
    root = np.linalg.cholesky(covariance)
    samples = []
    for seed in range(seeds):
        X = np.random.default_rng(100 + seed).standard_normal((n, d)) @ root.T
        Z = X @ factor
        smoother = (
            factor @ np.linalg.solve(Z.T @ Z + n * ridge * np.eye(rank), Z.T) if ridge else factor @ np.linalg.pinv(Z)
        )
        Q, residual = np.eye(d) - smoother @ X, np.eye(n) - X @ smoother
        labels = X @ prior @ X.T + noise * np.eye(n)
        bias = np.trace(covariance @ Q @ prior @ Q.T)
        variance = noise * np.trace(covariance @ smoother @ smoother.T)
        samples.append((bias, variance, np.trace(residual @ labels @ residual.T) / n))
    mean, error = np.mean(samples, axis=0), 4 * np.std(samples, axis=0, ddof=1) / np.sqrt(seeds) + 1e-12
    prediction = np.array([theory.bias, theory.variance, theory.training_error])
    error = error + prediction / n
    assert (np.abs(mean - prediction) <= error).all()
    assert (np.abs(mean - 1.2 * prediction) > error)[:2].all()


def test_a_metric_that_misses_the_target_has_the_whole_target_as_noise():
    covariance, prior = np.diag(power_law(6, 1.0)), np.diag([0, 0, 0, 1.0, 1.0, 1.0])
    metric = np.diag([1.0, 1.0, 1.0, 0, 0, 0])
    lost = np.trace(prior @ covariance)
    found = ridge_equivalent_matrices(covariance, prior, 12, 0.05, 0.2, metric=metric)
    noise_only = ridge_equivalent(power_law(3, 1.0), 0.0, 12, 0.05, 0.2 + lost)
    np.testing.assert_allclose(found.risk, noise_only.risk + lost, rtol=1e-12)
    np.testing.assert_allclose(found.gcv, noise_only.gcv, rtol=1e-12)
    np.testing.assert_allclose(found.training_error, noise_only.training_error, rtol=1e-12)
    threshold = ridge_equivalent_matrices(covariance, prior, 3, 0.0, 0.0, metric=metric)
    assert threshold.risk == np.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"covariance": np.ones((2, 3))},
            r"covariance must be a matrix of shape \(2, 2\), got shape \(2, 3\)",
        ),
        ({"covariance": [[1.0, 2.0], [0.0, 1.0]]}, "covariance must be symmetric, got differences up to 2"),
        ({"prior": np.diag([1.0, -1.0])}, "prior must be positive semi-definite, got the eigenvalue -1"),
        ({"metric": np.eye(3)}, r"metric must be a matrix of shape \(2, 2\), got shape \(3, 3\)"),
    ],
)
def test_wrong_matrices_are_named(change, message):
    legal = {"covariance": np.eye(2), "prior": np.eye(2), "n": 5, "ridge": 0.1, "noise_variance": 0.1}
    with pytest.raises(InputError, match=message):
        ridge_equivalent_matrices(**legal | change)
