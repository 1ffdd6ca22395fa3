import numpy as np

from unlazy.numerics.control_variates import without_controls


def test_noise_that_the_controls_explain_is_taken_off_and_the_mean_stays():
    rng = np.random.default_rng(0)
    controls, noise = rng.standard_normal((500, 40, 2)), 0.1 * rng.standard_normal((500, 40))
    means = without_controls(3 + controls @ [2.0, -1.0] + noise, controls).mean(axis=-1)
    assert abs(means.mean() - 3) < 4 * means.std() / np.sqrt(500)
    assert means.std() < 0.12 / np.sqrt(40)
