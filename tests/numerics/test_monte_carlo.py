import math

import jax
import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.numerics.monte_carlo import (
    exact_moments,
    moments,
    placed_in_cells,
    ranked_normals,
    wide_draws,
    window_shares,
    without_controls,
)


def test_weighted_draws_give_standard_normal_means():
    z, weights = wide_draws(np.random.default_rng(0), 20_000, 3.0)
    assert weights.sum() == pytest.approx(1, abs=1e-3)
    assert weights @ z**2 == pytest.approx(1, abs=1e-3)
    assert weights @ z**8 == pytest.approx(105, rel=2e-3)


@pytest.mark.parametrize("n", [2, 1000, 1024])
def test_ranked_noise_is_normal_and_independent_of_the_points(n):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n, 3))
    noise = np.stack([ranked_normals(rng, points) for _ in range(400)])
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert noise.std() == pytest.approx(1, abs=4 / np.sqrt(2 * noise.size))
    covariance = (noise * points).mean(axis=1)
    assert (np.abs(covariance.mean(axis=0)) < 4 * covariance.std(axis=0) / np.sqrt(400) + 1e-9).all()


def test_ranked_noise_makes_the_variance_of_a_diffusion_nearly_exact():
    """Ten steps x <- 0.9 x + noise from 0; independent noise has a relative error of sqrt(2/n) = 0.044."""
    rng, exact, found = np.random.default_rng(0), sum(0.81**k for k in range(10)), []
    for _ in range(16):
        points = np.zeros(1024)
        for _ in range(10):
            points = 0.9 * points + ranked_normals(rng, points)
        found.append(np.mean(points**2) / exact - 1)
    assert np.std(found) < 0.02
    assert abs(np.mean(found)) < 4 * np.std(found) / 4


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


def test_draws_in_cells_are_the_same_traced():
    """Uniform numbers become draws whose cells have their masses; rounding moves one to the next cell now and then."""
    rng = np.random.default_rng(0)
    points, masses = rng.normal(size=(50, 2)), rng.dirichlet(np.ones(50))
    which, where = rng.random(4000), rng.random((4000, 2))
    found = placed_in_cells(points, masses, 0.1, which, where)
    cells = np.abs(found[:, None] - points).max(axis=2).argmin(axis=1)
    np.testing.assert_allclose(np.bincount(cells, minlength=50) / 4000, masses, atol=4 * 0.5 / np.sqrt(4000))
    traced = jax.jit(lambda a, b: placed_in_cells(points, masses, 0.1, a, b, jax.numpy))
    same = np.abs(np.asarray(traced(which.astype("f4"), where.astype("f4"))) - found).max(axis=1) < 1e-5
    assert same.mean() > 0.98


def test_windows_average_the_observations_between_their_edges():
    shares = window_shares([0, 1, 3])
    np.testing.assert_allclose(shares @ [5.0, 1.0, 2.0, 4.0], [5.0, 1.0, 3.0])
    with pytest.raises(InputError, match="edges must increase"):
        window_shares([0, 5, 2])
