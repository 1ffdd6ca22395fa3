"""Expected errors of kernel and feature regression against averages over drawn targets and noise."""

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data.unit_vectors import LAWS, unit_vectors
from unlazy.training.kernels.ridge import Covariances, feature_errors, kernel_errors

N, FRESH, DRAWS, NOISE = 12, 30, 40_000, 0.4


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    points = unit_vectors(rng, N + FRESH, 5)
    covariance = np.exp(2 * points @ points.T)
    target = Covariances(covariance[:N, :N], covariance[N:, :N], float(np.mean(np.diagonal(covariance)[N:])))
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(N + FRESH))
    values = root @ rng.standard_normal((N + FRESH, DRAWS))
    labels = values[:N] + np.sqrt(NOISE) * rng.standard_normal((N, DRAWS))
    return points, target, values[N:], labels


def agree(found, draws):
    error = draws.std(ddof=1) / np.sqrt(draws.size)
    assert abs(found - draws.mean()) < 4 * error
    assert abs(1.2 * found - draws.mean()) > 4 * error


def test_kernel_errors_are_averages_over_targets_and_noise(problem):
    points, target, truth, labels = problem
    kernel = (1 + points @ points.T) ** 2
    ridges = (0.01, 0.5, 20.0)
    found = kernel_errors(kernel[:N, :N], kernel[N:, :N], target, NOISE, ridges)
    for index, ridge in enumerate(ridges):
        dual = np.linalg.solve(kernel[:N, :N] + ridge * np.eye(N), labels)
        agree(found.risk[index], np.mean((kernel[N:, :N] @ dual - truth) ** 2, axis=0))
        agree(found.training_error[index], np.mean((kernel[:N, :N] @ dual - labels) ** 2, axis=0))


@pytest.mark.parametrize("features", [3, 12, 40])
def test_feature_errors_are_averages_over_targets_and_noise(problem, features):
    points, target, truth, labels = problem
    phi = np.tanh(3 * points @ np.random.default_rng(2).standard_normal((5, features)))
    ridges = (0.05, 2.0)
    found = feature_errors(phi[:N], phi[N:], target, NOISE, ridges)
    for index, ridge in enumerate(ridges):
        fit = np.linalg.solve(phi[:N].T @ phi[:N] + ridge * np.eye(features), phi[:N].T @ labels)
        agree(found.risk[index], np.mean((phi[N:] @ fit - truth) ** 2, axis=0))
        agree(found.training_error[index], np.mean((phi[:N] @ fit - labels) ** 2, axis=0))


@pytest.mark.parametrize("law", LAWS)
def test_points_have_mean_square_one_and_uncorrelated_coordinates(law):
    rows = unit_vectors(np.random.default_rng(3), 20_000, 6, law)
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(1, rel=0.01)
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(6) / 6, atol=6 / 6 / np.sqrt(20_000))
    if law in ("sphere", "rademacher"):
        np.testing.assert_allclose(np.sum(rows**2, axis=1), 1, rtol=1e-12)


def test_an_unknown_law_is_named():
    with pytest.raises(
        InputError, match="input_law must be one of sphere, rademacher, uniform, gaussian; got 'cauchy'"
    ):
        unit_vectors(np.random.default_rng(0), 3, 3, "cauchy")
