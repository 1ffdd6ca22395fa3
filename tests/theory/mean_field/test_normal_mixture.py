import numpy as np
import pytest

from unlazy.theory.mean_field.normal_mixture import TwoNormals


def test_score_of_two_modes_is_the_derivative_of_their_log_density():
    def log_density(x):
        return np.log(0.2 * np.exp(-2 * (x + 2) ** 2) + 0.8 * np.exp(-2 * (x - 2) ** 2))

    x = np.linspace(-4, 4, 17)
    slope = (log_density(x + 1e-5) - log_density(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(TwoNormals(0.2, 2.0, 0.5).score(x), slope, atol=1e-7)


def test_the_density_integrates_to_one():
    grid = np.linspace(-4.5, 4.5, 181)
    assert TwoNormals(0.5, 1.2, 0.5).density(grid).sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-6)
