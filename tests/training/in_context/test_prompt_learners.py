import numpy as np
import pytest

from unlazy.training.in_context.prompt_attention import TaskFamily, draw_tasks, task_values
from unlazy.training.in_context.prompt_learners import (
    averaged_answers,
    index_references,
    kernel_answers,
    linear_answers,
    linear_references,
    neighbour_answers,
)
from unlazy.training.in_context.transformer import FreshPrompts, relative_errors

N, K, D = 5, 7, 3


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, K, D)), rng.standard_normal((N, K))


def at_each_prefix(inputs, labels, answer):
    return np.array(
        [[answer(x[:i], y[:i], x[i]) if i else 0.0 for i in range(K)] for x, y in zip(inputs, labels, strict=True)]
    )


def test_simple_learners_are_their_definitions(data):
    def neighbours(x, y, query):
        order = sorted(range(len(x)), key=lambda i: np.linalg.norm(x[i] - query))
        return np.mean([y[i] for i in order[:3]])

    np.testing.assert_allclose(
        averaged_answers(*data),
        at_each_prefix(*data, lambda x, y, q: np.mean([b * (a @ q) for a, b in zip(x, y, strict=True)])),
    )
    np.testing.assert_allclose(neighbour_answers(*data, 3), at_each_prefix(*data, neighbours))


def test_linear_learners_solve_their_least_squares_problems(data):
    def ridge(x, y, query):
        rows, targets = np.concatenate([x, np.sqrt(0.7) * np.eye(D)]), np.concatenate([y, np.zeros(D)])
        return query @ np.linalg.lstsq(rows, targets, rcond=None)[0]

    np.testing.assert_allclose(linear_answers(*data, 0.7), at_each_prefix(*data, ridge), atol=1e-10)
    np.testing.assert_allclose(
        linear_answers(*data, 0.0),
        at_each_prefix(*data, lambda x, y, q: q @ np.linalg.lstsq(x, y, rcond=None)[0]),
        atol=1e-10,
    )


def test_kernel_ridge_is_ridge_regression_on_the_features_of_its_kernel(data):
    ridges = np.array([0.01, 0.5])

    def features(x):
        extended = np.concatenate([np.ones((len(x), 1)), x / np.sqrt(D)], axis=1)
        return np.einsum("ni,nj->nij", extended, extended).reshape(len(x), -1)

    def answer(ridge):
        def one(x, y, query):
            known = features(x)
            added = ridge * np.mean(np.sum(known**2, axis=1))
            rows = np.concatenate([known, np.sqrt(added) * np.eye(known.shape[1])])
            weights = np.linalg.lstsq(rows, np.concatenate([y, np.zeros(known.shape[1])]), rcond=None)[0]
            return features(query[None])[0] @ weights

        return one

    found = kernel_answers(*data, 2, ridges)
    for row, ridge in zip(found, ridges, strict=True):
        np.testing.assert_allclose(row, at_each_prefix(*data, answer(ridge)), atol=1e-9)


def test_bayes_is_the_best_linear_learner_and_has_its_closed_error_after_one_pair():
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((40_000, 6, 1))
    values = inputs[:, :, 0] * rng.standard_normal((40_000, 1))
    labels = values + 0.5 * rng.standard_normal(values.shape)
    bayes, least_squares, averaging, _ = linear_references(FreshPrompts(inputs, values, labels), 0.25)
    # in one dimension the posterior variance of the slope after x_1, ..., x_i is rho/(rho + sum x^2)
    squares = np.cumsum(inputs[:, :, 0] ** 2, axis=1)[:, :-1]
    np.testing.assert_allclose(bayes[1:], np.mean(0.25 / (0.25 + squares), axis=0), rtol=0.06)
    assert bayes[0] == least_squares[0] == averaging[0] == 1
    assert (bayes[1:] < least_squares[1:]).all()
    assert (bayes[1:] < averaging[1:]).all()


def test_the_subspace_helps_single_index_learners():
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.standard_normal((8, 1)))[0]
    family = TaskFamily(basis, 1, 2, 0.01)
    inputs = rng.standard_normal((400, 9, 8))
    values = task_values(family, draw_tasks(rng, family, 400), inputs @ basis)
    labels = values + 0.1 * rng.standard_normal(values.shape)
    subspace, everywhere = index_references(FreshPrompts(inputs, values, labels), family)
    assert subspace[0] == everywhere[0] == 1
    # three numbers determine a parabola
    assert subspace[8] < 0.1
    assert everywhere[8] > 0.5


def test_relative_errors_are_1_for_predicting_0():
    values = np.random.default_rng(4).standard_normal((50, 4))
    np.testing.assert_allclose(relative_errors(np.zeros((2, 50, 4)), values), 1)
    np.testing.assert_allclose(relative_errors(values, values), 0)
