import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from unlazy.numerics.monte_carlo import exact_moments, moments, wide_draws, without_controls


def test_weighted_draws_give_standard_normal_means():
    z, weights = wide_draws(np.random.default_rng(0), 20_000, 3.0)
    assert weights.sum() == pytest.approx(1, abs=1e-3)
    assert weights @ z**2 == pytest.approx(1, abs=1e-3)
    assert weights @ z**8 == pytest.approx(105, rel=2e-3)


def test_moments_of_a_square_are_known():
    # f = z: E[z^2 h_2] / E|z^2 h_2|
    size = integrate.quad(lambda z: abs(z**2 * (z**2 - 1)) / math.sqrt(2) * norm.pdf(z), -12, 12, points=[-1, 1])[0]
    exact = exact_moments(lambda z: z, 14.0, (1, 2), 2)
    assert exact == pytest.approx(np.array([[1.0, 0.0], [0.0, math.sqrt(2) / size]]), abs=1e-6)
    drawn = moments(*(wide := wide_draws(np.random.default_rng(0), 20_000, 2.0))[:1], *wide, (1, 2), 2)
    assert drawn == pytest.approx(exact, abs=2e-3)


def test_noise_that_the_controls_explain_is_taken_off_and_the_mean_stays():
    rng = np.random.default_rng(0)
    controls, noise = rng.standard_normal((500, 40, 2)), 0.1 * rng.standard_normal((500, 40))
    means = without_controls(3 + controls @ [2.0, -1.0] + noise, controls).mean(axis=-1)
    assert abs(means.mean() - 3) < 4 * means.std() / np.sqrt(500)
    assert means.std() < 0.12 / np.sqrt(40)
