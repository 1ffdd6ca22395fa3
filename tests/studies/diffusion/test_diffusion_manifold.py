import numpy as np
import pytest

from unlazy.studies.diffusion.diffusion_manifold import DiffusionManifold


# slow because POT imports every array library that is installed
@pytest.mark.slow
def test_the_empirical_distance_is_that_of_a_brownian_bridge():
    """Brownian bridge: E W1 sqrt(n) = sqrt(2/pi) int sqrt(F (1-F)), between 0.3 and 0.8 for such a law on [-1, 1]."""
    study = DiffusionManifold(d=3, n=(400,), data_sets=40)
    found = study.simulate(np.random.default_rng(0))
    assert 0.3 < found["empirical_distance"][0] * 20 < 0.8
    assert 0.7 * found["empirical_distance"][0] < found["spline_distance"][0] < 1.2 * found["empirical_distance"][0]
    assert np.isnan(found["kernel_distance"]).all()
