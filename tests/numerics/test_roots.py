import numpy as np
import pytest
from scipy.optimize import brentq

from unlazy.numerics.roots import (
    ConvergenceError,
    bisect,
    expanded,
    golden_minimum,
    increasing_root,
    newton_root,
    root_between,
    scalar_minimum,
    scalar_root,
)


@pytest.mark.parametrize("root", [1e-300, 3e-20, 1 / 3, 1.0, 7e15, 1e300])
def test_roots_are_found_to_the_last_digits_across_six_hundred_decades(root):
    for function in (lambda x: x - root, lambda x: np.where(x < root, -1.0, 1.0)):
        found = increasing_root(function, 1e-305, 1e305)
        assert abs(found / root - 1) < 1e-15


def test_agrees_with_closed_form_for_a_quadratic():
    b = np.geomspace(1e-3, 1e3, 13)[:, None]
    c = np.geomspace(1e-6, 1e6, 7)
    found = increasing_root(lambda x, b, c: x * (x + b) - c, 1e-30, 1e30, b, c)
    exact = 2 * c / (b + np.sqrt(b**2 + 4 * c))
    assert found.shape == (13, 7)
    np.testing.assert_allclose(found, exact, rtol=1e-13)


def test_agrees_with_brent_on_a_transcendental_function():
    def function(x, a):
        return np.tanh(np.log(x) - a) + 0.1 * np.log(x)

    a = np.linspace(-8, 8, 9)
    found = increasing_root(function, 1e-8, 1e8, a)
    brent = [brentq(lambda t, a=a: function(np.exp(t), a), -18, 18, xtol=1e-15, rtol=1e-15) for a in a]
    np.testing.assert_allclose(np.log(found), brent, rtol=1e-13, atol=1e-14)


def test_flat_steep_and_discontinuous_functions_converge():
    np.testing.assert_allclose(increasing_root(lambda x: (x - 2.0) ** 9, 1e-9, 1e9), 2.0, rtol=1e-14)
    np.testing.assert_allclose(increasing_root(lambda x: np.expm1(300 * (x - 2)), 1e-3, 4), 2.0, rtol=1e-14)
    np.testing.assert_allclose(increasing_root(lambda x: np.where(x < 2, -1.0, 1.0), 0.1, 9), 2.0, rtol=1e-14)
    np.testing.assert_allclose(increasing_root(lambda x: np.where(x < 2, -np.inf, 1.0), 0.1, 9), 2, rtol=1e-14)


def test_denormal_roots_end_at_the_nearest_number():
    for function in (lambda x: x - 3e-322, lambda x: np.where(x < 3e-322, -1.0, 1.0)):
        assert increasing_root(function, 1e-323, 1.0) == pytest.approx(3e-322, abs=5e-324)


def test_converged_elements_are_not_evaluated_again():
    sizes = []

    def function(x, root, power):
        sizes.append(x.size)
        return np.sign(x - root) * np.abs(x - root) ** power

    powers = np.array([1.0] * 90 + [9.0] * 10)
    found = increasing_root(function, 0.5, 4.0, np.full(100, 2.0), powers)
    np.testing.assert_allclose(found, 2.0, rtol=1e-14)
    assert sizes[0] == 100
    assert sizes[-1] <= 10


def test_smooth_functions_need_about_ten_evaluations():
    calls = []

    def function(x):
        calls.append(x)
        return 1 - 1 / (1 + x) - 0.01 / x

    increasing_root(function, 1e-4, 1e2)
    assert len(calls) <= 15


def test_a_root_at_an_end_of_the_bracket_is_returned():
    assert increasing_root(lambda x: x - 1, 1.0, 2.0) == 1
    assert increasing_root(lambda x: x - 2, 1.0, 2.0) == 2
    assert increasing_root(lambda x: x - 2, 2.0, 2.0) == 2


@pytest.mark.parametrize(
    ("function", "low", "high", "message"),
    [
        (lambda x: x + 1, 1.0, 2.0, "bracket"),
        (lambda x: 1.5 - x, 1.0, 2.0, "bracket"),
        (lambda x: x - 1, -1.0, 2.0, "bracket"),
        (lambda x: x - 1, 2.0, 0.5, "bracket"),
        (lambda x: x * np.nan, 1.0, 2.0, "bracket"),
        (lambda x: np.where((x > 1) & (x < 2), np.nan, x - 1.5), 1.0, 2.0, "NaN inside"),
    ],
)
def test_no_number_is_returned_where_there_is_no_root(function, low, high, message):
    with pytest.raises(ConvergenceError, match=message):
        increasing_root(function, low, high)


def test_too_few_iterations_are_an_error_that_counts_the_open_elements():
    with pytest.raises(ConvergenceError, match="no convergence in 3 iterations: 2 of 2 elements"):
        increasing_root(lambda x, a: x**3 - a, 1e-9, 1e9, [2.0, 3.0], max_iterations=3)


@pytest.mark.parametrize("root", [-7e5, -1e-9, 0.0, 1e-200, 0.3, 2e9])
def test_a_linear_scale_has_roots_of_any_sign(root):
    for function in (lambda x: x - root, lambda x: (x - root) ** 3 + x - root, lambda x: np.where(x < root, -1.0, 1.0)):
        np.testing.assert_allclose(root_between(function, -1e10, 1e11), root, rtol=1e-15, atol=1e-20)
    with pytest.raises(ConvergenceError, match="bracket"):
        root_between(lambda x: x - root, root + 1, root + 2)


def test_newton_in_a_bracket_agrees_with_the_bracket_alone():
    variance = np.array([0.1, 5.0, 50.0, 1e4])
    margin = np.array([[-1e3], [-3.0], [0.2], [40.0]]) + 0 * variance
    variance, margin = np.broadcast_to(variance, margin.shape).ravel(), margin.ravel()

    def equation(s, rows):
        share = 1 / (1 + np.exp(np.clip(s, -700, 700)))
        return s - margin[rows] - variance[rows] * share, 1 + variance[rows] * share * (1 - share)

    found = newton_root(equation, margin, margin + variance, margin + variance / 2, 1e-14)
    rows = np.arange(margin.size)
    other = root_between(lambda s, i: equation(s, i.astype(int))[0], margin, margin + variance, rows)
    np.testing.assert_allclose(found, other, rtol=1e-13, atol=1e-12)


def test_newton_bisects_where_there_is_no_slope_and_refuses_what_is_no_number():
    one = np.ones(1)
    found = newton_root(lambda x, rows: (np.sign(x - 2.0), 0 * x), 0 * one, 5 * one, one, 1e-13)
    np.testing.assert_allclose(found, 2, rtol=1e-12)
    with pytest.raises(ConvergenceError, match="did not settle in 200 steps: 1 of 1"):
        newton_root(lambda x, rows: (x * np.nan, one), 0 * one, one, one / 2, 1e-13)


def test_bisection_ends_next_to_the_place_where_a_property_is_lost():
    lost = np.array([0.1, 2 / 3, 5.0])
    low, high = bisect(lambda x: x < lost, np.zeros(3), np.full(3, 8.0))
    np.testing.assert_allclose(low, lost, rtol=1e-15)
    assert (low <= lost).all() & (lost <= high).all()
    backwards, _ = bisect(lambda x: x > 0.3, 1.0, 0.0)
    np.testing.assert_allclose(backwards, 0.3, rtol=1e-15)


def test_ends_of_brackets_are_powers_of_the_factor():
    wanted = np.array([0.5, 3.0, 1e9])
    np.testing.assert_array_equal(expanded(lambda x: x >= wanted, np.ones(3), 10.0), [1, 10, 1e9])
    with pytest.raises(ConvergenceError, match="no bracket from 1 to"):
        expanded(lambda x: x < -wanted, np.ones(3), 10.0)


def test_minima_are_known_to_the_root_of_the_digits():
    place = np.array([-1.0, 0.3, 2.5])
    found = golden_minimum(lambda x: (x - place) ** 2 + np.cosh(x - place), np.full(3, -3.0), np.full(3, 4.0), 50)
    np.testing.assert_allclose(found, place, atol=3e-8)
    at, value = scalar_minimum(lambda x: 2 + (x - 0.3) ** 2, -3, 4, 1e-9)
    assert (at, value) == (pytest.approx(0.3, abs=1e-8), pytest.approx(2))
    assert scalar_root(lambda x: x**3 - 2, 0, 2, 1e-14) == pytest.approx(2 ** (1 / 3), rel=1e-14)
