import numpy as np

from unlazy.functions.rough_densities import rough_density
from unlazy.training.diffusion.rate_errors import line_distances


def test_the_distance_of_the_empirical_measure_on_the_line_is_that_of_its_draws():
    """E W1 = int E|F_n - F| is sqrt(2/pi) int sqrt(F (1 - F)) / sqrt(n) for large n."""
    n, smoothness = 4096, 1
    found = line_distances(np.random.default_rng(2), smoothness, (n,), 40)[:, 1, 0]
    again = np.random.default_rng(2)
    grid = np.linspace(-1, 1, 2001)[:, None]
    expected = []
    for _ in range(40):
        f = rough_density(smoothness, again).cdf(grid)
        expected.append(np.sqrt(2 / np.pi / n) * np.sqrt(np.clip(f * (1 - f), 0, None)).mean() * 2)
    error = found.std(ddof=1) / np.sqrt(40)
    assert abs(found.mean() - np.mean(expected)) < 4 * error
    assert error < 0.1 * np.mean(expected)
