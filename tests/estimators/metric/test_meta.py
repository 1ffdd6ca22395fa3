import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import Ridge

from unlazy.checks import InputError
from unlazy.estimators import MetaMetricRegressor
from unlazy.estimators.metric.start import scalar_evidence
from unlazy.estimators.metric.task_batches import (
    MetaState,
    evidence,
    left_out_errors,
    make_batches,
    posterior_mean,
    start_state,
    step,
)

NOISE = 0.25


def draw(rng, prior, tasks, n, intercept=0.0):
    """Tasks (X, y, b) with x ~ N(0, I), b ~ N(0, prior) and an intercept of the given standard deviation."""
    d = len(prior)
    values, vectors = np.linalg.eigh(prior)
    root = vectors * np.sqrt(np.maximum(values, 0))
    drawn = []
    for i in range(tasks):
        rows = n if isinstance(n, int) else n[i % len(n)]
        b, X = root @ rng.standard_normal(d), rng.standard_normal((rows, d))
        y = X @ b + np.sqrt(NOISE) * rng.standard_normal(rows) + intercept * rng.standard_normal()
        drawn.append((X, y, b))
    return drawn


def without_truth(tasks):
    return [(X, y) for X, y, _ in tasks]


def three_directions(rng, d=30):
    """Three strong directions in a random basis: variance 0.7 each, 0.005 along the rest."""
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (basis * np.where(np.arange(d) < 3, 0.7, 0.005)) @ basis.T


def risk(tasks, coefficients):
    return np.mean([np.sum((coefficients(X, y) - b) ** 2) for X, y, b in tasks])


def bayes(prior):
    return lambda X, y: prior @ X.T @ np.linalg.solve(X @ prior @ X.T + NOISE * np.eye(len(X)), y)


def best_ridge(tasks):
    def ridge(c):
        return lambda X, y: X.T @ np.linalg.solve(X @ X.T + c * np.eye(len(X)), y)

    return min(risk(tasks, ridge(c)) for c in np.logspace(-1, 3, 17))


def mixed_tasks():
    rng = np.random.default_rng(0)
    return without_truth(draw(rng, np.diag([1.0, 0.5, 0.1, 0.0]), 12, (3, 5, 6), intercept=2.0))


@pytest.mark.parametrize("diagonal", [False, True])
def test_evidence_is_the_gaussian_likelihood_and_never_rises(diagonal):
    tasks = mixed_tasks()
    batches = make_batches(tasks, centre=False)
    state = start_state(batches)
    if not diagonal:
        state = state._replace(metric=np.diag(state.metric))
    values = []
    for _ in range(30):
        metric = np.diag(state.metric) if diagonal else state.metric
        total = 0.0
        for X, y in tasks:
            covariance = X @ metric @ X.T + state.noise_variance * np.eye(len(X))
            total += np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)
        np.testing.assert_allclose(evidence(batches, state), total, rtol=1e-9)
        values.append(total)
        state = step(batches, state)
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < values[0] - 0.1


def test_scalar_evidence_is_the_largest_gaussian_likelihood():
    rng = np.random.default_rng(4)
    root, targets = rng.standard_normal((12, 7)), rng.standard_normal((12, 40))
    targets += root @ rng.standard_normal((7, 40))
    kernel, moments = root @ root.T, targets @ targets.T / 40

    def cost(logs):
        covariance = np.exp(logs[0]) * kernel + np.exp(logs[1]) * np.eye(12)
        return np.linalg.slogdet(covariance)[1] + np.trace(np.linalg.solve(covariance, moments))

    eigenvalues, vectors = np.linalg.eigh(kernel)
    found = scalar_evidence(np.maximum(eigenvalues, 0), np.einsum("ij,ik,kj->j", vectors, moments, vectors), 12)
    reached = cost(np.log([found.scale, found.noise_variance]))
    np.testing.assert_allclose(found.objective + 12, reached, rtol=1e-9)
    np.testing.assert_allclose(reached, minimize(cost, np.zeros(2)).fun, atol=0.02)
    np.testing.assert_allclose([found.scale, found.noise_variance], 1.0, atol=0.3)


def test_full_step_is_the_mean_second_moment_of_the_coefficients_given_the_rows():
    tasks = mixed_tasks()
    metric = np.array([[2.0, 0.3, 0, 0], [0.3, 1.0, 0, 0], [0, 0, 0.5, 0.1], [0, 0, 0.1, 0.2]])
    found = step(make_batches(tasks, centre=False), MetaState(metric, 0.4))
    expected = np.zeros((4, 4))
    for X, y in tasks:
        covariance = np.linalg.inv(np.linalg.inv(metric) + X.T @ X / 0.4)
        mean = covariance @ X.T @ y / 0.4
        expected += (np.outer(mean, mean) + covariance) / len(tasks)
    np.testing.assert_allclose(found.metric, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_left_out_errors_are_those_of_refits_without_the_row(centred, full):
    tasks = mixed_tasks()
    metric = np.array([2.0, 1.0, 0.5, 0.2])
    metric = np.diag(metric) + 0.1 if full else metric
    penalties = np.array([0.1, 0.7])
    found = left_out_errors(make_batches(tasks, centred), metric, penalties, centred)
    for penalty, total in zip(penalties, found.errors, strict=True):
        expected = 0.0
        for X, y in tasks:
            for i in range(len(y)):
                rest = np.arange(len(y)) != i
                x_mean, y_mean = (X[rest].mean(axis=0), y[rest].mean()) if centred else (0.0, 0.0)
                b = posterior_mean(X[rest] - x_mean, y[rest] - y_mean, MetaState(metric, penalty))
                expected += (y[i] - y_mean - (X[i] - x_mean) @ b) ** 2
        np.testing.assert_allclose(total, expected, rtol=1e-9)
    assert found.rows == sum(len(y) for _, y in tasks)


def test_noise_estimate_of_left_out_errors_is_unbiased_at_the_true_prior():
    rng = np.random.default_rng(1)
    prior = three_directions(rng, 10)
    batches = make_batches(without_truth(draw(rng, prior, 3000, 6)), centre=True)
    found = left_out_errors(batches, prior, np.array([NOISE]), centred=True)
    np.testing.assert_allclose(found.noise[0] / found.rows, NOISE, rtol=0.05)


def test_adapted_regressor_is_ridge_in_the_learned_metric():
    tasks = mixed_tasks()
    model = MetaMetricRegressor(metric="full").fit(tasks)
    X, y = tasks[1]
    adapted = model.adapt(X, y)
    root = np.linalg.cholesky(model.metric_ + 1e-14 * np.eye(4))
    ridge = Ridge(alpha=model.alpha_).fit(X @ root, y)
    np.testing.assert_allclose(adapted.predict(X), ridge.predict(X @ root), rtol=1e-6)
    np.testing.assert_allclose(adapted.intercept_, ridge.intercept_, rtol=1e-6)


def test_full_metric_of_three_strong_directions_comes_near_bayes_where_ridge_does_not():
    """d = 30 unknowns, 15 rows per task, 400 tasks: ridge about 1.3, learned about 0.22, Bayes about 0.21."""
    rng = np.random.default_rng(11)
    prior = three_directions(rng)
    tasks, new = draw(rng, prior, 400, 15), draw(rng, prior, 400, 15)
    model = MetaMetricRegressor(fit_intercept=False, max_steps=40).fit(without_truth(tasks))
    assert model.metric_kind_ == "full"
    learned = risk(new, lambda X, y: model.adapt(X, y).coef_)
    assert learned < 1.2 * risk(new, bayes(prior))
    assert learned < 0.25 * best_ridge(new)
    assert np.linalg.norm(model.metric_ - prior) < 0.25 * np.linalg.norm(prior)
    assert 0.18 < model.noise_variance_ < 0.33


def test_diagonal_metric_finds_eight_of_five_hundred_features():
    """20 rows per task, 60 tasks: ridge about 0.95, learned about 0.17, Bayes about 0.14."""
    rng = np.random.default_rng(12)
    variances = np.zeros(501)
    variances[rng.permutation(501)[:8]] = 1 / 8
    tasks, new = draw(rng, np.diag(variances), 60, 20), draw(rng, np.diag(variances), 200, 20)
    model = MetaMetricRegressor(fit_intercept=False, max_steps=25).fit(without_truth(tasks))
    assert model.metric_kind_ == "diagonal"
    assert set(np.argsort(model.metric_)[-8:]) == set(np.flatnonzero(variances))
    learned = risk(new, lambda X, y: model.adapt(X, y).coef_)
    assert learned < 1.35 * risk(new, bayes(np.diag(variances)))
    assert learned < 0.3 * best_ridge(new)


def test_intercepts_of_the_tasks_do_not_disturb_the_metric():
    rng = np.random.default_rng(3)
    tasks = without_truth(draw(rng, np.diag([1.0, 0.1, 0.0]), 40, (6, 7, 9)))
    moved = [(X + rng.standard_normal(3), y + 100 * rng.standard_normal()) for X, y in tasks]
    first, second = MetaMetricRegressor().fit(tasks), MetaMetricRegressor().fit(moved)
    assert first.metric_kind_ == second.metric_kind_
    np.testing.assert_allclose(second.metric_, first.metric_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(second.noise_variance_, first.noise_variance_, rtol=1e-6)


def test_order_of_unequal_tasks_does_not_matter_within_the_folds():
    tasks = mixed_tasks()
    options = {"noise_variance": NOISE, "steps": 7, "metric": "full"}
    first = MetaMetricRegressor(**options).fit(tasks)
    second = MetaMetricRegressor(**options).fit(tasks[::-1])
    np.testing.assert_allclose(first.metric_, second.metric_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("x", "y"), [(1e120, 1.0), (1e-120, 1e-100), (1.0, 1e120), (1e-3, 1e3)])
def test_units_only_change_units(x, y):
    tasks = mixed_tasks()
    plain = MetaMetricRegressor().fit(tasks)
    scaled = MetaMetricRegressor().fit([(x * X, y * t) for X, t in tasks])
    np.testing.assert_allclose(scaled.metric_ * (x / y) * (x / y), plain.metric_, rtol=1e-6, atol=1e-9)
    first, second = plain.adapt(*tasks[0]), scaled.adapt(x * tasks[0][0], y * tasks[0][1])
    np.testing.assert_allclose(second.coef_ * (x / y), first.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(second.intercept_ / y, first.intercept_, rtol=1e-6, atol=1e-9)


def test_copies_adapt_alike_and_given_settings_are_kept():
    tasks = mixed_tasks()
    model = MetaMetricRegressor(noise_variance=0.3, steps=4, metric="diagonal").fit(tasks)
    assert (model.noise_variance_, model.alpha_, model.steps_) == (pytest.approx(0.3), pytest.approx(0.3), 4)
    for copy in (pickle.loads(pickle.dumps(model)), clone(model).fit(tasks)):
        np.testing.assert_array_equal(copy.adapt(*tasks[0]).coef_, model.adapt(*tasks[0]).coef_)
    assert {len(column) for column in model.path_.values()} == {5}


@pytest.mark.parametrize("metric", ["full", "diagonal"])
@pytest.mark.parametrize("noise_variance", [0.0, 1e-16])
def test_targets_known_to_be_free_of_noise_are_interpolated(metric, noise_variance):
    rng = np.random.default_rng(5)
    tasks = [(X, X @ b) for X, b in zip(rng.standard_normal((20, 3, 4)), rng.standard_normal((20, 4)), strict=True)]
    tasks += [(np.vstack([X, X]), np.concatenate([y, y])) for X, y in tasks]
    model = MetaMetricRegressor(metric=metric, noise_variance=noise_variance).fit(tasks)
    assert model.noise_variance_ == noise_variance
    assert 0 < model.alpha_ < 1e-7
    for X, y in tasks:
        np.testing.assert_allclose(model.adapt(X, y).predict(X), y, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "ful"}, "did you mean full"),
        ({"cv": 13}, "at most the number of tasks, 12"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"steps": -1}, "steps must be an integer >= 0"),
        ({"noise_variance": -0.1}, "noise_variance must be >= 0"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
        ({"fit_intercept": None}, "fit_intercept must be True or False, got None"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        MetaMetricRegressor(**options).fit(mixed_tasks())


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "at least one pair"),
        ([np.ones(3)], "pairs"),
        (None, "tasks must be pairs .*, got NoneType"),
        ([(np.ones((3, 2)), np.ones(4))], "y of task 0 must have 3 entries"),
        ([(np.eye(3), np.arange(3)), (np.ones((3, 2)), np.arange(3))], "X of task 1 must have 3 features"),
        ([(np.ones((1, 2)), np.ones(1))], "at least 2 rows"),
        ([(np.full((3, 2), np.nan), np.ones(3))], "X of task 0 must not have gaps, got NaN in column 0, 1"),
        ([(np.eye(3), np.ones(3))] * 6, "targets that vary"),
    ],
)
def test_wrong_tasks_are_refused(tasks, message):
    with pytest.raises(InputError, match=message):
        MetaMetricRegressor().fit(tasks)


def test_new_task_of_another_width_is_refused():
    model = MetaMetricRegressor().fit(mixed_tasks())
    with pytest.raises(InputError, match="X must have 4 features"):
        model.adapt(np.ones((5, 3)), np.arange(5.0))
    with pytest.raises(InputError, match="X must have 4 features"):
        model.adapt(*mixed_tasks()[0]).predict(np.ones((5, 3)))
