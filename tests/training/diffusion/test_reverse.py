import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.numerics.reverse_diffusion import gaussian_reverse, time_grid
from unlazy.training.diffusion.reverse import reverse_samples, solve_flow

MEAN, VARIANCE = jnp.array([0.5, -0.3]), jnp.array([0.2, 1.5])


def _gaussian_score(x, t):
    total = jnp.exp(-2 * t[:, None]) * VARIANCE - jnp.expm1(-2 * t[:, None])
    return -(x - jnp.exp(-t[:, None]) * MEAN) / total


def _score_and_divergence(x, t):
    total = jnp.exp(-2 * t[:, None]) * VARIANCE - jnp.expm1(-2 * t[:, None])
    return _gaussian_score(x, t), -jnp.sum(1 / total, axis=1)


def test_the_compiled_scan_has_the_exact_moments_of_the_scheme():
    times = time_grid(4.0, 0.01, 20)
    run = jax.jit(lambda key, start: reverse_samples(key, _gaussian_score, start, times, scheme="exponential"))
    start = jnp.asarray(np.random.default_rng(0).standard_normal((40_000, 2)))
    found = np.asarray(run(jax.random.key(1), start))
    exact = gaussian_reverse("exponential", times, np.asarray(MEAN), np.asarray(VARIANCE))
    assert (np.abs(found.mean(axis=0) - exact.mean) < 4 * np.sqrt(exact.variance / len(found))).all()
    np.testing.assert_allclose(found.var(axis=0), exact.variance, rtol=4 * np.sqrt(2 / len(found)))


@pytest.mark.slow
def test_the_flow_gives_the_density_of_a_gaussian():
    points = jnp.asarray(np.random.default_rng(0).standard_normal((50, 2)))
    there = jax.jit(lambda x: solve_flow(_score_and_divergence, x, 0.01, 6.0, tolerance=1e-6))(points)

    def log_density_at(x, time):
        total = np.exp(-2 * time) * VARIANCE + 1 - np.exp(-2 * time)
        return -0.5 * jnp.sum((x - np.exp(-time) * MEAN) ** 2 / total + jnp.log(2 * np.pi * total), axis=1)

    assert bool(there.solved)
    exact = log_density_at(there.points, 6.0) - log_density_at(points, 0.01)
    np.testing.assert_allclose(there.log_volume, exact, atol=1e-4)
    # the flow of a Gaussian keeps the distance from the mean in deviations
    ends = [np.exp(-2 * t) * VARIANCE + 1 - np.exp(-2 * t) for t in (0.01, 6.0)]
    moved = np.exp(-6.0) * MEAN + (points - np.exp(-0.01) * MEAN) * jnp.sqrt(ends[1] / ends[0])
    np.testing.assert_allclose(there.points, moved, atol=1e-4)
