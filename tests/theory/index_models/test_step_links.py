"""Links of three jumps: what gradients and transforms of the label see of them."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.theory import generative_exponent, information_exponent, step_link
from unlazy.theory.index_models.step_links import step_labels


@pytest.mark.parametrize("height", [0.3, 1.0, 2.0, 7.0])
def test_the_first_two_coefficients_vanish_and_the_third_does_not(height):
    link = step_link(height)
    places = [*link.breakpoints]
    moments = [
        quad(lambda z, k=k: link(np.array(z)) * z**k * norm.pdf(z), -12, 12, points=places, epsabs=1e-12)[0]
        for k in (1, 2, 3)
    ]
    # E[g z^3] = E[g He_3] + 3 E[g z]; integrating by parts -2 (1 + height) c^2 phi(c)
    jump = places[2]
    assert moments[0] == pytest.approx(0, abs=1e-9)
    assert moments[1] == pytest.approx(0, abs=1e-9)
    assert moments[2] == pytest.approx(-2 * (1 + height) * jump**2 * norm.pdf(jump), abs=1e-9)
    assert information_exponent(link).exponent == 3


def test_a_transform_of_the_label_sees_the_direction_unless_the_label_is_a_sign():
    assert generative_exponent(step_link(1.0)).exponent == 3
    for height in (0.5, 0.9, 2.0):
        found = generative_exponent(step_link(height))
        assert found.exponent == 1
        # the sign of labels beyond the jump, turned around, is that of z: by hand E[z | y] on four values
        inner, outer = norm.cdf(step_link(height).breakpoints[2]) - 0.5, norm.sf(step_link(height).breakpoints[2])
        edge = norm.pdf(step_link(height).breakpoints[2])
        by_hand = 2 * ((norm.pdf(0) - edge) ** 2 / inner + edge**2 / outer)
        assert found.squared_correlations[1] == pytest.approx(by_hand, rel=1e-6)


def test_labels_are_those_of_the_link_in_numpy_and_jax():
    jnp = pytest.importorskip("jax.numpy")
    z = np.linspace(-3, 3, 13) + 0.01
    np.testing.assert_array_equal(step_labels(z, 2.0), step_link(2.0)(z))
    np.testing.assert_allclose(step_labels(jnp.asarray(z), 2.0), step_link(2.0)(z))


@pytest.mark.parametrize("height", [0.0, -1.0, np.nan, np.inf, 1e7, [1.0, 2.0]])
def test_wrong_heights_are_named(height):
    with pytest.raises(InputError, match="height"):
        step_link(height)
