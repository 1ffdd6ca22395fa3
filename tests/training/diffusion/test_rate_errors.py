import numpy as np
import pytest

from unlazy.functions.rough_densities import rough_density
from unlazy.training.diffusion.rate_errors import line_distances


def test_the_distance_of_the_empirical_measure_on_the_line_is_that_of_a_brownian_bridge():
    """E W1 = int E|F_n - F| is sqrt(2/pi) int sqrt(F (1 - F)) / sqrt(n) for large n."""
    n, smoothness = 4096, 1
    found = line_distances(np.random.default_rng(2), smoothness, (n,), 4)[:, 1, 0]
    again = np.random.default_rng(2)
    for distance in found:
        f = rough_density(smoothness, again).cdf(np.linspace(-1, 1, 2001)[:, None])
        expected = 2 * np.sqrt(2 / np.pi / n) * np.sqrt(np.clip(f * (1 - f), 0, None)).mean()
        assert distance == pytest.approx(expected, rel=2e-3)
