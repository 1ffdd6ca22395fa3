import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from unlazy.numerics.leave_one_out import SingularHessian, inverse_hessian, span
from unlazy.numerics.softmax_regression import SoftmaxProblem, class_basis, optimum


def _problem(classes, n=30, p=3):
    rng = np.random.default_rng(classes)
    rows = np.column_stack([rng.normal(size=(n, p)), np.ones(n)])
    penalty = np.append(np.full(p, 0.7), 0.0)
    return SoftmaxProblem(rows, rng.integers(0, classes, n), rng.uniform(0.5, 2, n), penalty, class_basis(classes))


def _objective(problem, flat):
    weights = flat.reshape(problem.rows.shape[1], -1)
    logs = log_softmax(problem.rows @ weights @ problem.basis.T, axis=1)
    loss = -problem.weights @ logs[np.arange(len(logs)), problem.labels]
    return loss + np.sum(problem.penalty[:, None] * weights**2) / 2


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_gradient_vanishes_at_the_optimum_and_starts_do_not_matter(classes):
    problem = _problem(classes)
    start = np.zeros((4, problem.basis.shape[1]))
    found = optimum(problem, start)
    slope = approx_fprime(found.weights.ravel(), lambda flat: _objective(problem, flat), 1e-6)
    assert np.abs(slope).max() < 2e-4
    other = optimum(problem, start + np.random.default_rng(0).normal(size=start.shape))
    np.testing.assert_allclose(other.weights, found.weights, atol=1e-6)
    np.testing.assert_allclose(other.left_out.scores, found.left_out.scores, atol=1e-2)


def test_inverse_hessian_is_that_of_the_dense_matrix():
    rng = np.random.default_rng(1)
    rows, weights = rng.normal(size=(20, 3)), rng.uniform(size=20)
    half = rng.normal(size=(20, 2, 2))
    curvature = half @ half.swapaxes(1, 2)
    dense = np.kron(np.eye(2), np.diag([1.0, 2.0, 0.0]))
    for row, weight, block in zip(rows, weights, curvature, strict=True):
        dense += weight * np.kron(block, np.outer(row, row))
    found = inverse_hessian(rows, np.array([1.0, 2.0, 0.0]), weights, curvature)
    np.testing.assert_allclose(found.reshape(6, 6), np.linalg.inv(dense), atol=1e-10)


def test_directions_without_penalty_and_curvature_are_refused():
    rows = np.ones((5, 2))
    with pytest.raises(SingularHessian):
        inverse_hessian(rows, np.zeros(2), np.ones(5), np.ones((5, 1, 1)))
    with pytest.raises(SingularHessian, match="a column"):
        inverse_hessian(np.zeros((5, 1)), np.zeros(1), np.ones(5), np.ones((5, 1, 1)))


def test_span_keeps_inner_products():
    rows = np.random.default_rng(2).normal(size=(4, 9))
    reduced, basis = span(rows)
    assert reduced.shape == (4, 4)
    np.testing.assert_allclose(reduced @ basis.T, rows, atol=1e-12)
    assert span(rows.T)[1] is None
