import numpy as np
import pytest

from unlazy.estimators.in_context.prior import start_prior, strides
from unlazy.estimators.in_context.process import CUBIC, GAUSSIAN, LINEAR, Process, condition, kernel
from unlazy.estimators.in_context.steps import Prior, around, left_out, step
from unlazy.estimators.metric.task_batches import left_out_errors, make_batches


def mixed_tasks(seed=0, tasks=12):
    rng = np.random.default_rng(seed)
    root = np.diag(np.sqrt([1.0, 0.5, 0.1, 0.02]))
    mean = np.array([1.0, -2.0, 0.0, 0.5])
    pairs = []
    for i in range(tasks):
        X = rng.standard_normal((2 + i % 6, 4))
        pairs.append((X, X @ (mean + root @ rng.standard_normal(4)) + 0.3 * rng.standard_normal(len(X))))
    return pairs


def log_density(pairs, prior):
    """Minus twice the log density of all targets and of the mean, up to a constant."""
    total = np.linalg.slogdet(prior.covariance)[1] + prior.mean @ np.linalg.solve(prior.covariance, prior.mean)
    for X, y in pairs:
        covariance = X @ prior.covariance @ X.T + prior.noise_variance * np.eye(len(X))
        residual = y - X @ prior.mean
        total += np.linalg.slogdet(covariance)[1] + residual @ np.linalg.solve(covariance, residual)
    return total


@pytest.mark.parametrize("stride", [1.0, 1.35, 4.0, 60.0])
def test_steps_of_any_stride_never_lower_the_density_of_the_tasks(stride):
    pairs = mixed_tasks(tasks=60)
    batches = make_batches(pairs, centre=False)
    prior = start_prior(batches, 4)
    values = []
    for _ in range(25):
        values.append(log_density(pairs, prior))
        prior = step(batches, prior, stride=stride)[0]
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < values[0] - 1


def test_long_strides_follow_expectation_maximisation_in_far_fewer_steps():
    rng = np.random.default_rng(7)
    direction = np.full(10, 0.5)
    pairs = []
    for _ in range(150):
        X = rng.standard_normal((5, 10))
        pairs.append((X, rng.standard_normal() * X @ direction + 0.3 * rng.standard_normal(5)))
    batches = make_batches(pairs, centre=False)
    start = start_prior(batches, 10)._replace(noise_variance=0.09)
    slow, values = start, []
    for _ in range(301):
        values.append(log_density(pairs, slow))
        slow = step(batches, slow)[0]
    fast, passed = start, 0.0
    for stride in strides(18, 400):
        before = log_density(pairs, fast)
        fast, passed = step(batches, fast, stride=stride)[0], passed + stride
        assert log_density(pairs, fast) < before
    assert passed < 300
    # as far as most of those single steps, and much farther than as many
    assert log_density(pairs, fast) < values[int(passed / 2)]
    assert log_density(pairs, fast) < values[18] - 20
    assert np.linalg.norm(fast.covariance - slow.covariance, 2) < 0.02 * np.linalg.norm(slow.covariance, 2)


def test_long_strides_rest_where_expectation_maximisation_ends():
    batches = make_batches(mixed_tasks(tasks=60), centre=False)
    prior = start_prior(batches, 4)._replace(noise_variance=0.09)
    for _ in range(300):
        prior = step(batches, prior)[0]
    moved = step(batches, prior, stride=50.0)[0]
    np.testing.assert_allclose(moved.covariance, prior.covariance, atol=1e-6)


def test_step_is_conditional_maximisation_with_moments_computed_task_by_task():
    pairs = mixed_tasks(1)
    covariance = np.array([[2.0, 0.3, 0, 0], [0.3, 1.0, 0, 0], [0, 0, 0.5, 0.1], [0, 0, 0.1, 0.2]])
    start = Prior(np.array([0.3, -0.1, 0.0, 1.0]), covariance, 0.4)
    found, told = step(make_batches(pairs, centre=False), start)
    precision = np.linalg.inv(covariance)
    information, pull = precision.copy(), np.zeros(4)
    for X, y in pairs:
        inverse = np.linalg.inv(X @ covariance @ X.T + 0.4 * np.eye(len(X)))
        information += X.T @ inverse @ X
        pull += X.T @ inverse @ y
    mean = np.linalg.solve(information, pull)
    moment = np.outer(mean, mean)
    for X, y in pairs:
        spread = np.linalg.inv(precision + X.T @ X / 0.4)
        deviation = spread @ X.T @ (y - X @ mean) / 0.4
        moment += np.outer(deviation, deviation) + spread
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.covariance, moment / (len(pairs) + 1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(told.mean_covariance, np.linalg.inv(information), rtol=1e-9, atol=1e-12)


def test_compressed_long_tasks_give_the_same_steps():
    from unlazy.estimators.in_context.prior import _compressed

    rng = np.random.default_rng(2)
    pairs = [(rng.standard_normal((n, 3)), rng.standard_normal(n)) for n in (2, 3, 10, 40)]
    prior = Prior(np.zeros(3), np.eye(3), 0.5)
    whole = step(make_batches(pairs, centre=False), prior)[0]
    short = step(make_batches([_compressed(pair) for pair in pairs], centre=False), prior)[0]
    assert max(len(_compressed(pair)[1]) for pair in pairs) == 3
    np.testing.assert_allclose(short.mean, whole.mean, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(short.covariance, whole.covariance, rtol=1e-10, atol=1e-13)


def test_left_out_residuals_around_the_mean_equal_refitting_without_the_row():
    pairs = mixed_tasks(3)
    prior = Prior(np.array([1.0, -1.0, 0.2, 0.0]), np.diag([1.0, 2.0, 0.5, 0.1]), 0.3)
    batches = around(make_batches(pairs, centre=False), prior.mean)
    found = left_out(batches, prior.covariance, np.array([0.3]))
    process = Process(LINEAR, prior.mean, np.sqrt(prior.covariance), 1.0, 0.3)
    total = 0.0
    for X, y in pairs:
        for i in range(len(y)):
            rest = np.arange(len(y)) != i
            total += (y[i] - condition(process, X[rest], y[rest]).predict(X[i : i + 1])[0]) ** 2
    np.testing.assert_allclose(found.errors[0], total, rtol=1e-9)


def test_left_out_errors_of_long_tasks_are_those_of_the_full_kernel():
    rng = np.random.default_rng(6)
    pairs = [(rng.standard_normal((n, 4)), rng.standard_normal(n)) for n in (2, 4, 5, 9, 30, 33)]
    batches, covariance, penalties = make_batches(pairs, centre=False), np.diag([1.0, 2, 0, 0.1]), np.array([0.01, 1])
    expected = left_out_errors(batches, covariance, penalties, centred=False)
    found = left_out(batches, covariance, penalties)
    assert {batch.targets.shape[1] > 4 for batch in batches} == {True, False}
    np.testing.assert_allclose(found.errors, expected.errors, rtol=1e-8)
    np.testing.assert_allclose(found.noise, expected.noise, rtol=1e-8)
    assert found.rows == expected.rows


@pytest.mark.parametrize("kind", [LINEAR, CUBIC, GAUSSIAN])
@pytest.mark.parametrize("n", [1, 3, 9])
def test_posterior_is_normal_conditioning(kind, n):
    rng = np.random.default_rng(4)
    process = Process(kind, rng.standard_normal(4), rng.standard_normal((4, 4)), 0.7, 0.2)
    rows, targets, new = rng.standard_normal((n, 4)), rng.standard_normal(n), rng.standard_normal((5, 4))
    everything = np.concatenate([rows, new]) @ process.root
    joint = 0.7 * kernel(kind, everything, everything)
    inverse = np.linalg.inv(joint[:n, :n] + 0.2 * np.eye(n))
    expected = new @ process.mean + joint[n:, :n] @ inverse @ (targets - rows @ process.mean)
    variance = np.diag(joint[n:, n:] - joint[n:, :n] @ inverse @ joint[:n, n:])
    found = condition(process, rows, targets)
    np.testing.assert_allclose(found.predict(new), expected, rtol=1e-8)
    np.testing.assert_allclose(found.variance(new), variance, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", [CUBIC, GAUSSIAN])
def test_mean_gradients_are_those_of_the_fitted_functions(kind):
    from unlazy.estimators.in_context.kernel import _mean_gradients

    rng = np.random.default_rng(5)
    root = rng.standard_normal((3, 3)) / 2
    pairs = [(np.column_stack([np.ones(n), rng.standard_normal((n, 3))]), rng.standard_normal(n)) for n in (4, 7)]
    process = Process(kind, np.zeros(4), np.vstack([np.zeros(3), root]), 1.0, 0.6)
    total, rows = np.zeros((3, 3)), 0
    for design, target in pairs:
        fitted = condition(process, design, target)
        for row in design:
            shifts = 1e-5 * np.eye(4)[1:]
            slope = (fitted.predict(row + shifts) - fitted.predict(row - shifts)) / 2e-5
            total += np.outer(slope, slope)
            rows += 1
    np.testing.assert_allclose(_mean_gradients(kind, pairs, root, 0.6), total / rows, rtol=1e-5, atol=1e-8)
