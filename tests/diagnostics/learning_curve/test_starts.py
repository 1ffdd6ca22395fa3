"""Effective penalties that start from solutions at other sizes, against the equations themselves and explicit
formulas."""

import numpy as np
import pytest

from unlazy.diagnostics.learning_curve.kernel import KernelTheory
from unlazy.diagnostics.learning_curve.linear import cholesky, inverse_of, solve
from unlazy.diagnostics.learning_curve.pointwise import first_anchor, pointwise_error
from unlazy.numerics.roots import ConvergenceError


def pool(rows=150, penalty=0.05):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4)) * rng.lognormal(size=(rows, 1))
    kernel = np.exp(-0.2 * np.square(x[:, None] - x[None]).sum(axis=2))
    y = np.sin(2 * x[:, :1]) + 0.3 * rng.normal(size=(rows, 1))
    return kernel, y - y.mean(), penalty


@pytest.mark.parametrize("parts", [(0.5, 0.2), (2.0, 5.0, 10.0), (10.0,), (0.02, 7.0)])
def test_solutions_that_start_from_others_satisfy_the_equations(parts):
    kernel, y, penalty = pool()
    anchors = [first_anchor(kernel, penalty)]
    for f in parts:
        found = pointwise_error(kernel, y, f * len(y), penalty, anchors=anchors)
        anchors.append(found.anchor)
        inverse = np.linalg.inv(kernel + np.diag(found.kappa))
        g = np.diagonal(inverse)
        np.testing.assert_allclose(found.kappa - penalty, (1 - f) / g, rtol=1e-6)
        x = np.linalg.solve(np.diag(g**2) - (1 - f) * inverse**2, np.sum((inverse @ y) ** 2, axis=1))
        np.testing.assert_allclose(found.errors, f * x, rtol=1e-5, atol=1e-7 * np.abs(x).max())
        assert found.errors.mean() == pytest.approx(f * x.mean(), rel=1e-6)


def test_the_order_in_which_sizes_are_asked_for_does_not_matter():
    kernel, y, penalty = pool()
    n = len(y) * np.array([0.3, 1.0, 2.0, 4.0, 9.0])
    rest = np.full(n.shape, penalty), np.full(n.shape, np.inf)
    together = KernelTheory(kernel, y).predict(n, *rest, "pointwise")
    for order in ([4, 0, 2, 1, 3], [3, 4, 1, 2, 0]):
        theory = KernelTheory(kernel, y)
        for i in order:
            alone = theory.predict(n[[i]], rest[0][[i]], rest[1][[i]], "pointwise")
            assert alone.test_error[0] == pytest.approx(together.test_error[i], rel=1e-6)
            assert alone.deviation[0] == pytest.approx(together.deviation[i], rel=2e-3)
            assert alone.reliable[0] == together.reliable[i]


def test_the_slope_of_an_anchor_is_that_of_a_finite_difference():
    kernel, y, penalty = pool()
    anchor = pointwise_error(kernel, y, 2 * len(y), penalty).anchor
    low, high = (pointwise_error(kernel, y, 2 * len(y) * np.exp(s * 1e-3), penalty).anchor for s in (-1, 1))
    difference = (high.cavity - low.cavity) / 2e-3
    np.testing.assert_allclose(anchor.slope, difference, rtol=0.01, atol=0.01 * np.abs(difference).max())


def test_the_penalty_path_is_that_of_explicit_leave_one_out_errors():
    kernel, y, _ = pool(60)
    y = np.column_stack([y, y**2 - np.mean(y**2)])
    path = KernelTheory(kernel, y).penalty_path()
    for i in (300, 600, 900):
        inverse = np.linalg.inv(kernel + path.penalty[i] * np.eye(60))
        residuals, missed = inverse @ y, path.penalty[i] * np.trace(inverse)
        left_out = np.sum((residuals / np.diagonal(inverse)[:, None]) ** 2, axis=1)
        assert path.loo_error[i] == pytest.approx(left_out.mean(), rel=1e-7)
        sum_of_squares = path.penalty[i] ** 2 * np.sum(residuals**2)
        assert path.gcv[i] == pytest.approx(60 * sum_of_squares / missed**2, rel=1e-9)
        assert path.noise_variance[i] == pytest.approx(sum_of_squares / missed, rel=1e-9)


def test_inverses_are_whole_and_systems_are_solved_to_the_precision_asked_for():
    kernel, y, penalty = pool(300)
    factor, log_determinant = cholesky(kernel, np.full(300, penalty))
    matrix = kernel + penalty * np.eye(300)
    assert log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-10)
    inverse = inverse_of(factor)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=1e-9 * np.abs(inverse).max())
    squares, g = inverse**2, np.diagonal(inverse)
    exact = np.linalg.solve(np.diag(g**2) + 3 * squares, y[:, 0])
    for precision in (1e-4, 1e-10):
        found = solve(squares, g**2, 3.0, y[:, 0], precision)
        assert np.linalg.norm(found - exact) <= 100 * precision * np.linalg.norm(exact)
    with pytest.raises(ConvergenceError, match="not positive definite"):
        cholesky(kernel, np.full(300, -0.5))
