import numpy as np
import pytest

from unlazy.studies.mean_field.mfld_density import GRID, true_density
from unlazy.studies.mean_field.shared.stein_targets import (
    MEAN,
    PRECISION,
    exact_moments,
    score_of,
    target_discrepancy,
    width_slope,
)


def test_score_of_two_modes_is_the_derivative_of_their_log_density():
    def log_density(x):
        return np.log(0.2 * np.exp(-2 * (x + 2) ** 2) + 0.8 * np.exp(-2 * (x - 2) ** 2))

    x = np.linspace(-4, 4, 17)
    slope = (log_density(x + 1e-5) - log_density(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(score_of("modes")(x), slope, atol=1e-7)


def test_discrepancy_of_the_target_is_that_of_many_samples():
    """Of n independent samples it is (1 - E k)/n on average, n times it between 0.3 and 2 of that with fixed seed."""
    rng = np.random.default_rng(0)
    covariance = np.linalg.inv(PRECISION)
    own = 1 / np.sqrt(np.linalg.det(2 * covariance + np.eye(2)))
    clouds = rng.multivariate_normal(MEAN, covariance, size=(40, 100)).astype(np.float32)
    found = np.mean([float(target_discrepancy(cloud)) for cloud in clouds])
    assert 100 * found == pytest.approx(1 - own, rel=0.25)
    assert float(target_discrepancy(clouds[0] + 1.0)) > 10 * found


def test_few_particles_are_narrower_and_the_law_tends_to_the_target():
    assert width_slope("gaussian", 0.3, 10.0) < 0
    spreads = [exact_moments("gaussian", heat, 10.0)[1] for heat in (0.1, 0.01, 0.001)]
    assert spreads[0] > spreads[1] > spreads[2] > 1
    assert spreads[2] < 1.05


def test_true_density_integrates_to_one():
    assert true_density(GRID).sum() * (GRID[1] - GRID[0]) == pytest.approx(1, abs=1e-6)
