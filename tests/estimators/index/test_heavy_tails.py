"""Index regressors on tables with heavy-tailed columns: what they say of far rows, and ridge regression beside them."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unlazy.estimators import AdditiveIndexRegressor, MultiIndexRegressor, SingleIndexRegressor
from unlazy.estimators.index.choice import Folds, HeldOut, beats_ridge, choose, linear_model
from unlazy.estimators.index.near import Near
from unlazy.estimators.index.search import QUICK, find

TEST_ROWS = 4000
ESTIMATORS = (SingleIndexRegressor, AdditiveIndexRegressor, MultiIndexRegressor)
SLOW = tuple(pytest.param(estimator, marks=pytest.mark.slow) for estimator in ESTIMATORS[1:])


def houses(n, rng):
    """Columns like those of a census of house prices: log-normal ones, a few averages over nearly empty blocks."""
    income = np.exp(1.2 + 0.47 * rng.standard_normal(n))
    age = rng.integers(1, 53, n).astype(float)
    rooms = 5 * np.exp(0.25 * rng.standard_normal(n))
    rooms = np.where(rng.random(n) < 0.01, rooms * rng.uniform(2, 25, n), rooms)
    bedrooms = rooms / 5 * np.exp(0.08 * rng.standard_normal(n))
    population = np.exp(7 + 0.75 * rng.standard_normal(n))
    occupancy = 2.9 * np.exp(0.2 * rng.standard_normal(n))
    occupancy = np.where(rng.random(n) < 0.003, occupancy * np.exp(rng.uniform(1, 6, n)), occupancy)
    latitude = 35.6 + 2.1 * rng.standard_normal(n)
    longitude = -119.5 - 0.9 * (latitude - 35.6) + 0.8 * rng.standard_normal(n)
    price = 0.42 * income + 0.009 * age + 0.6 * np.log(5 * bedrooms / rooms) - 0.8 * np.log(occupancy / 2.9)
    price = price - 0.4 * (latitude - 35.6) - 0.42 * (longitude + 119.5)
    price = np.clip(price * np.exp(0.25 * rng.standard_normal(n)) + 0.3, 0.15, 5)
    return np.column_stack([income, age, rooms, bedrooms, population, occupancy, latitude, longitude]), price


def log_normal(n, rng):
    """Eight log-normal columns, of which one entry in 500 is 30 times too large, and a label that saturates."""
    x = np.exp(rng.standard_normal((n, 8))) * np.where(rng.random((n, 8)) < 0.002, 30.0, 1.0)
    direction = rng.standard_normal(8)
    return x, np.tanh(np.log(x) @ direction / np.linalg.norm(direction)) + 0.5 * rng.standard_normal(n)


def spending(n, rng):
    """A label that grows like the logarithm of a sum of such columns, with noise in proportion."""
    x, _ = log_normal(n, rng)
    total = x @ np.abs(rng.standard_normal(8))
    return x, np.log1p(total) * np.exp(0.3 * rng.standard_normal(n))


def straight(n, rng):
    """The same columns and a label that is linear in them, for which ridge regression is right however far out."""
    x, _ = log_normal(n, rng)
    return x, x @ rng.standard_normal(8) + 2 * rng.standard_normal(n)


def bent(n, rng):
    """A label that is nearly linear in log-normal columns: a standardised sum of them, and a little of its root."""
    x = np.exp(1.3 * rng.standard_normal((n, 6)))
    weights = np.abs(rng.standard_normal(6))
    deviation = np.exp(1.3**2 / 2) * np.sqrt(np.exp(1.3**2) - 1) * np.linalg.norm(weights)
    total = (x - np.exp(1.3**2 / 2)) @ weights / deviation
    return x, total + 0.3 * np.sign(total) * np.sqrt(np.abs(total) + 0.1) + 0.3 * rng.standard_normal(n)


def few_rows(n, rng):
    """A linear label of columns with heavy tails; what is far among new rows is farther than any of 150."""
    x = rng.standard_t(3, (n, 8))
    return x, x @ rng.standard_normal(8) + 0.3 * rng.standard_normal(n)


def diabetes(n, rng):
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    order = rng.permutation(len(y))
    return x[order], y[order]


def errors(estimator, table, seed):
    """Squared errors on new rows of the estimator and of ridge regression, and the fitted estimator."""
    rng = np.random.default_rng([77, seed])
    n = {diabetes: 300, few_rows: 150}.get(table, 1000)
    x, y = table(n + TEST_ROWS, rng)
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 5, 30))).fit(x[:n], y[:n])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = estimator(random_state=0).fit(x[:n], y[:n])
    return *(np.mean((one.predict(x[n:]) - y[n:]) ** 2) for one in (model, ridge)), model


@pytest.mark.parametrize("table", [houses, log_normal, spending, straight, few_rows, diabetes])
@pytest.mark.parametrize(
    "estimator", [ESTIMATORS[0], *(pytest.param(e, marks=pytest.mark.slow) for e in ESTIMATORS[1:])]
)
def test_error_is_never_much_above_that_of_ridge_regression(estimator, table):
    for seed in range(2):
        found, ridge, _ = errors(estimator, table, seed)
        assert found < 1.1 * ridge


@pytest.mark.parametrize(("table", "seed"), [(bent, 3), (few_rows, 0), (few_rows, 2), (few_rows, 7)])
def test_label_that_is_nearly_straight_is_left_to_ridge_regression(table, seed):
    """The draws in which bounded links had 1.3 to 21 times the error of ridge regression, by few far rows."""
    found, ridge, _ = errors(SingleIndexRegressor, table, seed)
    assert found < 1.1 * ridge


@pytest.mark.parametrize("estimator", ESTIMATORS[1:])
def test_error_with_several_directions_is_never_much_above_that_of_ridge_regression(estimator):
    """The draws in which links that went on straight had three to five times the error of ridge regression."""
    for seed in range(2):
        found, ridge, _ = errors(estimator, houses, seed)
        assert found < 1.1 * ridge


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("table", [houses, log_normal, spending, straight, bent, few_rows, diabetes])
def test_error_is_never_much_above_that_of_ridge_regression_over_many_draws(estimator, table):
    ratios = []
    for seed in range(2, 18):
        found, ridge, _ = errors(estimator, table, seed)
        ratios.append(found / ridge)
    assert max(ratios) < 1.1
    assert np.median(ratios) < {houses: 0.9, log_normal: 0.7, spending: 0.9}.get(table, 1.02)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_far_rows_are_predicted_within_what_the_rows_support(estimator):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((400, 6))
    y = np.abs(x[:, 0]) + np.tanh(2 * x[:, 1]) + 0.1 * rng.standard_normal(400)
    if estimator is SingleIndexRegressor:
        y = (x[:, 0] + x[:, 1]) ** 3 / 3 + 0.1 * rng.standard_normal(400)
    model = estimator(random_state=0).fit(x, y)
    assert model.certain_
    far = model.predict(np.concatenate([1e3 * x, 1e200 * x, 1e5 * np.eye(6), -1e5 * np.eye(6)]))
    # a link that predicts the outer rows may go on by a quarter of their range: 1.5^3 = 3.4 for a cubic
    assert np.abs(far - y.mean()).max() < 4 * np.abs(y - y.mean()).max()


def test_certain_fit_that_is_worse_than_ridge_on_held_out_rows_is_not_kept():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((200, 4))
    labels = rows[:, 0] + rows[:, 1] ** 2 + 0.1 * rng.standard_normal(200)
    order = rng.permutation(200)
    folds = Folds(rows, labels, [(order[part:], order[:part]) for part in (40, 60)])

    def truth(z):
        return z[:, 0] + z[:, 1] ** 2

    assert beats_ridge(folds, lambda x, y: truth)
    assert not beats_ridge(folds, lambda x, y: lambda z: 0.5 * z[:, 0])
    # right on all rows but one, on which it is off by a hundred deviations
    assert not beats_ridge(folds, lambda x, y: lambda z: np.where(z[:, 0] == rows[order[0], 0], 100.0, truth(z)))
    # right on all rows but the far ones
    far = np.sort(np.linalg.norm(rows, axis=1))[-10]
    assert not beats_ridge(folds, lambda x, y: lambda z: np.where(np.linalg.norm(z, axis=1) < far, truth(z), -9.0))


def test_no_dependence_falls_back_to_ridge_regression_or_the_mean():
    """A stage that explains 1% of the variance is told from chance at 4000 rows, and announced as no dependence."""
    rng = np.random.default_rng(5)
    targets = rng.standard_normal(4000)
    other, linear = 0.1 * targets + rng.standard_normal(4000), rng.standard_normal(4000)
    predictions = np.column_stack([linear, other])
    choice = choose(HeldOut(("ridge", "full"), predictions, targets, 1.0, np.ones((1, 2))), ())
    assert 0 < choice.scores["full"] < 0.02
    assert choice.stage in ("ridge", "mean")


def test_linear_stage_goes_on_as_ridge_regression_does():
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((100, 3))
    found = find(rows, rows[:, 0] + 0.1 * rng.standard_normal(100), np.random.RandomState(0), QUICK)
    far = 1e6 * np.eye(3)
    expected = found.linear.intercept + far @ found.linear.coefficients
    np.testing.assert_allclose(linear_model(found.linear)(far), expected, rtol=1e-9)


def test_values_stay_near_those_of_the_rows_around():
    rng = np.random.default_rng(6)
    t = rng.standard_normal((300, 2))
    labels = t[:, 0] ** 2
    near = Near(t, labels)
    places = rng.standard_normal((50, 2))
    nearest = np.argsort(np.linalg.norm((places[:, None] - t) / t.std(axis=0), axis=2), axis=1)[:, :10]
    least, most = labels[nearest].min(axis=1), labels[nearest].max(axis=1)
    np.testing.assert_array_equal(near.kept(places[:, 0] ** 2, places), places[:, 0] ** 2)
    low, high = near.kept(np.full(50, -1e9), places), near.kept(np.full(50, 1e9), places)
    quarter = np.ptp(labels) / 4
    np.testing.assert_allclose(high, np.minimum(2 * most - least, labels.max() + quarter))
    np.testing.assert_allclose(low, np.maximum(2 * least - most, labels.min() - quarter))
    # an extreme row changes no distance into one that is not a number
    assert np.isfinite(near.kept(np.full(1, 1e9), [[1e300, -1e300]])).all()
