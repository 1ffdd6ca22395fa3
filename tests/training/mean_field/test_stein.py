import numpy as np
import pytest

from unlazy.theory.mean_field.normal_mixture import Normal
from unlazy.training.mean_field.stein import SteinProblem, exact_moments, gaussian_discrepancy, width_slope

MEAN, PRECISION = np.array([0.5, 0.0]), np.array([[1.5, -0.2], [-0.2, 0.8]])


def test_discrepancy_of_the_target_is_that_of_many_samples():
    """Of n independent samples it is (1 - E k)/n on average, n times it between 0.3 and 2 of that with fixed seed."""
    rng = np.random.default_rng(0)
    covariance = np.linalg.inv(PRECISION)
    own = 1 / np.sqrt(np.linalg.det(2 * covariance + np.eye(2)))
    clouds = rng.multivariate_normal(MEAN, covariance, size=(40, 100)).astype(np.float32)
    found = np.mean([float(gaussian_discrepancy(cloud, MEAN, PRECISION)) for cloud in clouds])
    assert 100 * found == pytest.approx(1 - own, rel=0.25)
    assert float(gaussian_discrepancy(clouds[0] + 1.0, MEAN, PRECISION)) > 10 * found


def test_few_particles_are_narrower_and_the_law_tends_to_the_target():
    problem = SteinProblem(
        Normal(0.5), damping_length=10.0, bandwidth=1.0, prior_scale=3.0, centre=0.5, grid_points=401
    )
    assert width_slope(problem, 0.3) < 0
    spreads = [exact_moments(problem, heat)[1] for heat in (0.1, 0.01, 0.001)]
    assert spreads[0] > spreads[1] > spreads[2] > 1
    assert spreads[2] < 1.05
