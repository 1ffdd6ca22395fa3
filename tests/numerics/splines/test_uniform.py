import numpy as np
import pytest
from scipy.interpolate import BSpline

from unlazy.numerics.splines.uniform import bending, uniform_basis, uniform_spline

KNOTS = -1 + 3 / 8 * np.arange(-3, 12)


def test_basis_is_that_of_scipy_and_straight_beyond():
    t = np.linspace(-1, 2, 50)[:-1]
    np.testing.assert_allclose(uniform_basis(t, -1, 2, 8), BSpline.design_matrix(t, KNOTS, 3).toarray(), atol=1e-12)
    beyond = uniform_basis(np.array([2.0, 2.5, 3.0]), -1, 2, 8)
    np.testing.assert_allclose(beyond[2] - beyond[1], beyond[1] - beyond[0], atol=1e-12)


@pytest.mark.parametrize("derivative", [0, 1])
def test_spline_and_its_slope_are_those_of_scipy_and_straight_beyond(derivative):
    coefficients = np.random.default_rng(1).standard_normal(11)
    t = np.linspace(-1, 2, 50)[:-1]
    expected = BSpline(KNOTS, coefficients, 3)(t, derivative)
    np.testing.assert_allclose(uniform_spline(t, coefficients, -1, 2, derivative), expected, atol=1e-12)
    far = np.array([-3.0, -2.0, 2.5, 4.0])
    sums = uniform_basis(far, -1, 2, 8) @ coefficients
    np.testing.assert_allclose(uniform_spline(far, coefficients, -1, 2), sums, atol=1e-12)


def test_bending_of_coefficients_on_a_line_is_zero():
    line = 2 - 3 * np.arange(9)
    np.testing.assert_allclose(line @ bending(9) @ line, 0, atol=1e-12)
    parabola = np.arange(9) ** 2
    assert parabola @ bending(9) @ parabola == pytest.approx(7 * 4)
