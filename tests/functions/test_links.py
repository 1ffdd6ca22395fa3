"""Links by name: values, derivatives, and that NumPy and JAX agree."""

import math

import numpy as np
import pytest
from numpy.polynomial import hermite_e

from unlazy.checks import InputError
from unlazy.functions.links import LINKS, Link, link, polynomial

POINTS = np.array([-3.3, -1.0, -0.4, 0.2, 0.9, 2.7])


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_hermite_links_are_the_orthonormal_polynomials(k):
    expected = hermite_e.hermeval(POINTS, [0] * k + [1]) / math.sqrt(math.factorial(k))
    np.testing.assert_allclose(link(f"He{k}")(POINTS), expected, rtol=1e-12)


@pytest.mark.parametrize("name", LINKS)
def test_derivatives_are_finite_differences(name):
    found, step = link(name), 1e-6
    differences = (found(POINTS + step) - found(POINTS - step)) / (2 * step)
    np.testing.assert_allclose(found.derivative(POINTS), differences, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", LINKS)
def test_jax_and_numpy_agree(name):
    import jax
    import jax.numpy as jnp

    found = link(name)
    with jax.enable_x64(True):
        z = jnp.asarray(POINTS)
        np.testing.assert_allclose(found(z), found(POINTS), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.derivative(z), found.derivative(POINTS), rtol=1e-12, atol=1e-14)


def test_polynomial_adds_its_terms():
    mixed = polynomial([0.5, 0.0, -1.0, 2.0])
    expected = 0.5 - link("He2")(POINTS) + 2 * link("He3")(POINTS)
    np.testing.assert_allclose(mixed(POINTS), expected, rtol=1e-12)
    assert polynomial([1.0]).derivative(POINTS).shape == POINTS.shape


def test_unknown_name_suggests():
    with pytest.raises(InputError, match="He3"):
        link("He33")


def test_a_link_is_its_own_link():
    own = Link("own", np.exp, np.exp)
    assert link(own) is own


@pytest.mark.parametrize("bad", [[], [[1.0]], [math.nan]])
def test_bad_coefficients_are_refused(bad):
    with pytest.raises(InputError, match="hermite"):
        polynomial(bad)
