"""Links of which label and square hide the direction, by other quadratures."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad
from scipy.stats import norm

from unlazy.functions.orthogonal import Hermite
from unlazy.theory import generative_exponent, moment_residual, monomial_exponents
from unlazy.theory.index_models.hidden_squares import light_labels, light_polynomial, two_sizes


def moment(link, power, degree):
    """E[g^i h_k] of a polynomial of degree 23, exactly."""
    z, weights = hermegauss(80)
    return weights / weights.sum() @ (link(z) ** power * Hermite().values(z, degree)[degree])


def test_the_polynomial_is_superorthogonal_and_its_cube_is_not_hidden():
    link = light_polynomial()
    assert moment_residual(link, hidden_degree=2, hidden_power=2) < 1e-12
    assert moment(link, 2, 0) == pytest.approx(1)
    assert monomial_exponents(link, [1, 2, 3]).exponents.tolist() == [3, 4, 1]


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
def test_another_first_coefficient_shows_the_direction_in_the_square(factor):
    first, other = (np.array(light_polynomial(f).hermite_coefficients) for f in (1.0, factor))
    np.testing.assert_allclose(other[3] / other[5], factor * first[3] / first[5])
    np.testing.assert_allclose(other[5:] / other[5], first[5:] / first[5])
    assert moment(light_polynomial(factor), 2, 0) == pytest.approx(1)
    assert abs(moment(light_polynomial(factor), 1, 1)) < 1e-10
    assert abs(moment(light_polynomial(factor), 2, 2)) > 0.02


def test_inputs_that_occur_hold_almost_all_of_the_moments():
    link = light_polynomial()
    square, fourth = (
        quad(lambda z, f=f: f(link(np.array(z)), z) * norm.pdf(z), -5.4, 5.4, limit=200)[0]
        for f in (lambda y, z: y**2 * (z**2 - 1), lambda y, z: y**4)
    )
    assert abs(square) < 3e-4
    assert fourth < 1.5


def test_labels_for_a_traced_factor_are_those_of_the_polynomial():
    jnp = pytest.importorskip("jax.numpy")
    z = np.linspace(-4, 4, 33)
    for factor in (1.0, 2.0, 0.3):
        np.testing.assert_allclose(light_labels(z, factor), light_polynomial(factor)(z), atol=1e-12)
        found = light_labels(jnp.asarray(z), jnp.asarray(factor))
        np.testing.assert_allclose(found, light_polynomial(factor)(z), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("jump", [0.2, 0.4, 0.5])
def test_two_sizes_hide_the_direction_in_label_and_square_and_show_it_in_the_cube(jump):
    link = two_sizes(jump)

    def moment(power, test):
        value = lambda z: float(link(np.array(z))) ** power * test(z) * norm.pdf(z)  # noqa: E731
        return quad(value, -12, 12, points=link.breakpoints, epsabs=1e-12)[0]

    assert moment(2, lambda z: 1.0) == pytest.approx(1)
    assert moment(1, lambda z: z) == pytest.approx(0, abs=1e-9)
    assert moment(2, lambda z: z**2 - 1) == pytest.approx(0, abs=1e-9)
    assert moment(1, lambda z: z**3) > 0.5
    assert moment(3, lambda z: z) > 0.2
    assert generative_exponent(link).exponent == 1
    assert np.unique(np.abs(link(np.linspace(-3, 3, 100)))).size == 2
