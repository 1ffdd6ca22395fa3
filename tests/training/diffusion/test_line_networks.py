import numpy as np
import pytest

from unlazy.training.diffusion.line_networks import line_networks


# slow because the program takes seconds to compile
@pytest.mark.slow
def test_samples_come_to_lie_on_the_line():
    found, empirical = line_networks(np.random.default_rng(0), (2, 5), 200, width=32, steps=600, draws=500)
    # noise of sigma sqrt(d - 1) in units of the columns, sigma^2 = 2e-3, is what the last step takes off
    assert (found.off_line < 0.7 * found.noisy_off_line).all()
    assert (found.off_line < 0.1).all()
    assert (found.along < 0.3).all()
    assert 0.02 < empirical < 0.06
