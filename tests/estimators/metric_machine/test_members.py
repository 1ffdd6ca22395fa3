"""Fits in a metric, their gradients and left-out residuals, against finite differences and refits."""

import numpy as np
import pytest

from unlazy.estimators.metric_machine import large
from unlazy.estimators.metric_machine.large import _projected, fit_all
from unlazy.estimators.metric_machine.rows import RowsInMemory
from unlazy.training.one_step.metric_machine.kernels import (
    DISTANCE,
    SUM,
    LaplaceKernel,
    _distances,
    gradient_outer_product,
    in_metric,
)
from unlazy.training.one_step.metric_machine.members import Shape, fit, learned_root, rounds, taught

KERNELS = [
    (LaplaceKernel(SUM, 0.7, linear=0.5), np.array([1.0, 0.2, 2.0])),
    (LaplaceKernel(DISTANCE, 0.8, 1.0, 1.0), np.array([1.0, 0.2, 2.0])),
    (LaplaceKernel(DISTANCE, 1.5, 1.4, 0.3), np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 2.0]])),
]


def draw(n=120, d=3, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    targets = np.column_stack([np.sin(2 * rows[:, 0]), rows[:, 1] * rows[:, 2]]) + 0.1 * rng.standard_normal((n, 2))
    return rows, targets - targets.mean(axis=0)


@pytest.mark.parametrize(("kernel", "root"), KERNELS)
def test_left_out_residuals_are_those_of_refits(kernel, root):
    rows, targets = draw(40)
    found = fit(kernel, rows, targets, root)
    matrix = found.matrix(found.metric.rows)
    for left_out in (0, 17):
        others = np.delete(np.arange(40), left_out)
        dual = np.linalg.solve(matrix[np.ix_(others, others)] + found.penalty * np.eye(39), targets[others])
        missed = targets[left_out] - matrix[left_out, others] @ dual
        np.testing.assert_allclose(found.residuals[left_out], missed, rtol=1e-8)


@pytest.mark.parametrize(("kernel", "root"), KERNELS)
def test_outer_product_is_that_of_finite_differences(kernel, root):
    rows, targets = draw()
    found = fit(kernel, rows, targets, root)
    # a kernel with a kink has no gradient at its own rows: the formula leaves out what a row says of itself
    gradients = np.zeros((len(rows), 3, 2))
    for i, row in enumerate(rows):
        dual = found.dual.copy()
        dual[i] = 0.0
        own = found._replace(dual=dual)
        for j, step in enumerate(1e-6 * np.eye(3)):
            gradients[i, j] = (own.predict((row + step)[None]) - own.predict((row - step)[None]))[0] / 2e-6
            # of the linear part it does say something
            slope = kernel.linear * found.metric.placed(step[None])[0] @ found.metric.rows[i] / found.metric.square
            gradients[i, j] += slope / 1e-6 * found.dual[i]
    expected = np.einsum("iko,ilo->kl", gradients, gradients) / len(rows)
    distances = found.metric.distances(found.metric.rows)
    outer = gradient_outer_product(found.metric, kernel, rows, distances, found.dual)
    np.testing.assert_allclose(outer, expected if outer.ndim == 2 else np.diag(expected), rtol=2e-5, atol=1e-7)


def test_gradients_of_noise_are_taken_off():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 4))
    noise = rng.standard_normal((300, 1))
    kernel = LaplaceKernel(DISTANCE, 1.0)
    found = fit(kernel, rows, noise, np.ones(4))._replace(penalty=1.0)
    distances = found.metric.distances(found.metric.rows)
    dual = np.linalg.solve(found.matrix(found.metric.rows) + np.eye(300), noise)
    found = found._replace(dual=dual, residuals=noise)
    plain = gradient_outer_product(found.metric, kernel, rows, distances, dual)
    left = [taught(found, rows, np.random.RandomState(seed)) for seed in range(20)]
    assert np.abs(np.trace(np.mean(left, axis=0))) < 0.2 * np.trace(plain)


def test_root_is_the_power_of_the_outer_product_and_the_identity():
    rng = np.random.default_rng(2)
    factor = rng.standard_normal((3, 5))
    outer = factor @ factor.T
    root = learned_root(Shape(0.5, 0.1, False), outer)
    values = np.linalg.eigvalsh(outer)
    inside = (root - 0.1 * np.eye(3)) / 0.9
    np.testing.assert_allclose(inside @ inside, outer / values.mean(), rtol=1e-10)
    np.testing.assert_allclose(
        learned_root(Shape(0.25, 0.4, True), outer), 0.6 * (np.diag(outer) / np.diag(outer).mean()) ** 0.25 + 0.4
    )
    # what is below the noise is no direction
    assert learned_root(Shape(0.5, 0.1, True), np.array([1.0, -0.5]))[1] == pytest.approx(0.1)


@pytest.mark.parametrize("kind", [SUM, DISTANCE])
def test_metric_finds_the_columns_that_matter(kind):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((400, 10))
    targets = (np.sin(2 * rows[:, :1]) + rows[:, 1:2] ** 2 + 0.1 * rng.standard_normal((400, 1))) / 1.5
    targets -= targets.mean()
    halves = (np.arange(200), np.arange(200, 400))
    found = rounds(kind, rows, targets, halves, np.random.RandomState(0))
    errors = [np.mean((targets - one.predictions) ** 2) for one in found]
    assert len(found) > 1
    assert errors[-1] < 0.6 * errors[0]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(("kernel", "root"), KERNELS)
def test_normal_equations_with_all_rows_as_centres_are_the_machine_itself(kernel, root):
    rows, targets = draw(200)
    found = fit(kernel, rows, targets, root)
    everywhere = np.arange(200)
    again = _projected(found, RowsInMemory(rows), targets, everywhere)
    assert again.penalty == found.penalty
    new = np.random.default_rng(9).standard_normal((50, 3))
    np.testing.assert_allclose(again.predict(new), found.predict(new), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(again.residuals, found.residuals, rtol=1e-4, atol=1e-5)


def test_centres_that_say_the_same_are_one():
    rows, targets = draw(300)
    # of rank 4: three columns and a constant
    found = fit(LaplaceKernel(DISTANCE, np.inf, linear=1.0), rows, targets, np.ones(3))
    again = _projected(found, RowsInMemory(rows), targets, np.arange(300))
    assert len(again.dual) == 4
    new = np.random.default_rng(9).standard_normal((50, 3))
    np.testing.assert_allclose(again.predict(new), found.predict(new), rtol=1e-6, atol=1e-8)


def test_more_centres_are_nearer_to_all_rows(monkeypatch):
    rows, targets = draw(1200, seed=5)
    new = np.random.default_rng(9).standard_normal((500, 3))
    kernel = LaplaceKernel(SUM, 1.0)
    few = fit(kernel, rows[:100], targets[:100], np.ones(3))
    exact = fit_all(few, RowsInMemory(rows), targets, np.random.RandomState(0)).predict(new)
    monkeypatch.setattr(large, "_LEAST_CENTRES", 10)
    missed = []
    for most in (50, 800):
        monkeypatch.setattr(large, "MOST_CENTRES", most)
        found = fit_all(few, RowsInMemory(rows), targets, np.random.RandomState(0))
        assert len(found.dual) == most
        missed.append(np.mean((found.predict(new) - exact) ** 2))
    assert missed[1] < 0.1 * missed[0]


@pytest.mark.parametrize("near", [1e-6, 1e-2, 1e3])
def test_way_down_ends_at_the_least_penalty_of_all(near):
    rows, targets = draw(100, seed=7)
    kernel = LaplaceKernel(DISTANCE, 1.0)
    downhill, path = fit(kernel, rows, targets, np.ones(3), near), fit(kernel, rows, targets, np.ones(3))
    assert downhill.penalty == path.penalty
    np.testing.assert_allclose(downhill.residuals, path.residuals, rtol=1e-7, atol=1e-9)


def test_sums_of_two_valued_columns_are_those_of_all():
    rng = np.random.default_rng(8)
    left, right = (np.column_stack([rng.standard_normal((30, 2)), 1.7 * rng.integers(0, 2, (30, 3))]) for _ in "ab")
    for there in (1.7, 0.4):
        # a value that the other rows do not have
        left[0, -1] = there
        expected = np.abs(left[:, None] - right).sum(axis=2)
        np.testing.assert_allclose(_distances(SUM, left, right), expected, atol=1e-12)


def test_distances_have_median_1():
    rows, _ = draw()
    for kind in (SUM, DISTANCE):
        metric = in_metric(kind, rows, np.array([1.0, 5.0, 0.1]))
        between = metric.distances(metric.rows)[np.triu_indices(len(rows), 1)]
        assert np.median(between) == pytest.approx(1.0)
