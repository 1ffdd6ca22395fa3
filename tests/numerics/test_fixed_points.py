import numpy as np
import pytest

from unlazy.numerics.fixed_points import continued, fixed_points, newton, newton_by_differences
from unlazy.numerics.roots import ConvergenceError


def logarithms(x, target):
    """log of (x0 x1^2, x1 / x0) over the target, with x = e^u, and its derivative by u: linear in u."""
    jacobian = np.array([[1.0, 2.0], [-1.0, 1.0]])
    return x @ jacobian.T - np.log(target), np.broadcast_to(jacobian, (*x.shape, 2))


def curved(x):
    """x0 + tanh x1 = .3, x1^3 + x1 = x0: bent, with one root."""
    residual = np.stack([x[..., 0] + np.tanh(x[..., 1]) - 0.3, x[..., 1] ** 3 + x[..., 1] - x[..., 0]], axis=-1)
    jacobian = np.zeros((*x.shape, 2))
    jacobian[..., 0, 0], jacobian[..., 0, 1] = 1.0, 1 / np.cosh(x[..., 1]) ** 2
    jacobian[..., 1, 0], jacobian[..., 1, 1] = -1.0, 3 * x[..., 1] ** 2 + 1
    return residual, jacobian


def test_newton_solves_many_systems_at_once_over_hundreds_of_decades():
    wanted = np.array([[1e-120, 3.0], [2.0, 1e100], [1.0, 1.0]])
    target = np.stack([wanted[:, 0] * wanted[:, 1] ** 2, wanted[:, 1] / wanted[:, 0]], axis=1)
    found = newton(lambda x: logarithms(x, target), np.zeros((3, 2)), max_iterations=200)
    np.testing.assert_allclose(found, np.log(wanted), atol=1e-12)


@pytest.mark.parametrize("start", [(0.0, 0.0), (30.0, -20.0), (-5.0, 5.0)])
def test_newton_and_its_version_by_differences_find_the_same_root(start):
    found = newton(curved, np.array(start))
    np.testing.assert_allclose(curved(found)[0], 0, atol=1e-15)
    other, excess, length = newton_by_differences(lambda x: curved(x)[0], np.array(start))
    np.testing.assert_allclose(other, found, atol=1e-12)
    assert np.abs(excess).max() < 1e-13
    assert length < 1e-7


def test_newton_reaches_complex_roots():
    found = newton(lambda x: (np.exp(x) - 1j, np.exp(x)[..., None]), np.array([0.5 + 1j]))
    np.testing.assert_allclose(found, [np.pi / 2 * 1j], atol=1e-15)


def test_newton_ends_where_rounding_ends_its_progress():
    calls = []

    def noisy(x):
        calls.append(x)
        return x - 1 + 1e-9 * np.sin(1e12 * x), np.ones((1, 1))

    np.testing.assert_allclose(newton(noisy, np.zeros(1)), 1, atol=3e-9)
    assert len(calls) < 30


@pytest.mark.parametrize(
    "equations",
    [
        lambda x: (x**2 + 1, 2 * x[..., None]),
        lambda x: (x * np.nan, np.ones((1, 1))),
        lambda x: (x, np.zeros((1, 1))),
    ],
)
def test_newton_without_a_root_is_an_error(equations):
    with pytest.raises(ConvergenceError, match="Newton's method did not arrive"):
        newton(equations, np.full(1, 0.7))


def test_differences_stay_where_the_excess_is_finite():
    found, _, _ = newton_by_differences(lambda x: np.where(x > 0, np.log(x), np.inf) - 2, np.array([0.01]))
    np.testing.assert_allclose(found, np.exp(2), rtol=1e-9)


def test_a_path_of_solutions_arrives_where_no_start_does():
    """x = artanh(1 - parameter) from a solver that fails unless it begins within .4 of the solution."""

    def solve(parameter, start):
        wanted = np.arctanh(1 - parameter)
        if abs(start[0] - wanted) > 0.4:
            raise ConvergenceError("too far")
        return np.array([wanted])

    with pytest.raises(ConvergenceError):
        solve(1e-9, np.array([np.arctanh(0.5)]))
    found = continued(solve, 0.5, np.array([np.arctanh(0.5)]), 1e-9)
    np.testing.assert_allclose(found, np.arctanh(1 - 1e-9))
    with pytest.raises(ConvergenceError, match="too far"):
        continued(solve, 0.5, np.array([np.arctanh(0.5)]), 1e-9, factor=10.0, least_factor=10.0)
    assert continued(solve, 0.5, np.ones(1), 0.5) == 1


def test_rows_that_cycle_are_finished_by_newtons_method():
    slope = np.array([[-0.5], [-1.0], [-3.0]])
    found = fixed_points(lambda x, rows: 1 + slope[rows] * np.tanh(x), np.zeros((3, 1)), lambda row: f"row {row}")
    np.testing.assert_allclose(found, 1 + slope * np.tanh(found), atol=1e-10)
