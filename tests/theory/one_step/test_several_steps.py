"""What the second large step learns, against the closed form for relu."""

import numpy as np
import pytest
from scipy.integrate import quad

from unlazy.checks import InputError
from unlazy.theory.one_step.several_steps import staircase_component


@pytest.mark.parametrize(("samples", "step", "noise"), [(2.0, 1.0, 0.01), (8.0, 0.5, 0.3), (np.inf, 3.0, 0.0)])
def test_relu_has_its_closed_form(samples, step, noise):
    """E[z 1(s z > 0)] = 1 / sqrt(2 pi), mu1 = E sigma'^2 = 1/2."""

    def integrand(alpha):
        c = step * alpha / 2
        s = np.sqrt(c**2 + 1 + (step * alpha) ** 2 * (2 + noise) / (2 * samples))
        return step * alpha * c / s / np.sqrt(2 * np.pi) * np.exp(-(alpha**2) / 2) / np.sqrt(2 * np.pi)

    expected = quad(integrand, -10, 10, epsabs=1e-12)[0]
    found = staircase_component("relu", samples, relative_step_size=step, noise_variance=noise)
    assert found == pytest.approx(expected, rel=1e-3)


def test_odd_activations_and_no_step_learn_nothing():
    assert abs(staircase_component("erf", 4, relative_step_size=1, noise_variance=0)) < 1e-12
    np.testing.assert_array_equal(staircase_component("relu", [1, 4], relative_step_size=0, noise_variance=0), 0)


def test_it_refuses_a_negative_step():
    with pytest.raises(InputError, match="relative_step_size"):
        staircase_component("relu", 4, relative_step_size=-1, noise_variance=0)
