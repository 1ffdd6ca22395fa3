"""Gauss-Newton steps on the direction of a single index; `linear_signal` is tested with the estimators."""

import numpy as np

from unlazy.numerics.index_directions import refined_directions


def _least_squares(design, response):
    return np.linalg.lstsq(design, response, rcond=None)[0]


def test_steps_with_the_true_link_end_at_the_least_squares_of_the_model():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 6))
    rows -= rows.mean(axis=0)
    beta = np.array([1.0, 0.5, 0, 0, 0, 0]) / np.std(rows @ [1.0, 0.5, 0, 0, 0, 0])
    labels = np.tanh(rows @ beta) + 0.1 * rng.standard_normal(400)
    start = _least_squares(rows, labels)[:, None]

    def smooth(index):
        return np.tanh(index[:, 0]), 1 / np.cosh(index) ** 2

    def loss(direction):
        return np.sum((labels - np.tanh(rows @ direction / np.std(rows @ direction))) ** 2)

    found = refined_directions(rows, labels, start, 30, smooth, _least_squares)[:, 0]
    np.testing.assert_allclose(np.std(rows @ found), 1)
    assert loss(found) < loss(start[:, 0])
    assert loss(found) < loss(beta)
    assert abs(found @ beta) / np.linalg.norm(found) / np.linalg.norm(beta) > 0.995


def test_a_linear_link_leaves_the_least_squares_direction():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((100, 4))
    rows -= rows.mean(axis=0)
    labels = rows @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(100)
    labels -= labels.mean()

    def smooth(index):
        slope = index[:, 0] @ labels / (index[:, 0] @ index[:, 0])
        return slope * index[:, 0], np.full_like(index, slope)

    expected = _least_squares(rows, labels)
    found = refined_directions(rows, labels, rng.standard_normal((4, 1)), 3, smooth, _least_squares)[:, 0]
    np.testing.assert_allclose(np.abs(found), np.abs(expected) / np.std(rows @ expected), rtol=1e-10)
