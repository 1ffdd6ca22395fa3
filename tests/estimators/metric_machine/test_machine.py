"""The machines on drawn tables whose answer is known, and on what users may do wrong."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import MetricMachineClassifier, MetricMachineRegressor


# few rows for the metric and few trees: the checks are about the interface, and hundreds of fits
@parametrize_with_checks(
    [MetricMachineRegressor(metric_rows=24, trees=3), MetricMachineClassifier(metric_rows=24, trees=3)]
)
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def table(n, seed):
    """A number that bends, a text that shifts, a column with gaps that mean something, and noise."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 5)), columns=list("abcde"))
    frame["city"] = rng.choice(["Rome", "Oslo", "Lima"], n)
    y = np.sin(2 * frame.a) + frame.city.map({"Rome": 1.0, "Oslo": -1.0, "Lima": 0.0}) + 0.8 * (frame.b > 1)
    frame.loc[frame.b > 1, "b"] = np.nan
    return frame, (y + 0.2 * rng.standard_normal(n)).to_numpy()


def test_regressor_learns_a_table_as_it_is():
    frame, y = table(500, 0)
    new, y_new = table(1000, 1)
    model = MetricMachineRegressor(random_state=0).fit(frame, y)
    error = np.mean((model.predict(new) - y_new) ** 2)
    # noise is 0.04 of 1.3; ridge regression cannot bend
    assert error < 0.12
    assert set(np.array(frame.columns)[np.argsort(model.feature_importances_)[-3:]]) == {"a", "b", "city"}
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.score_interval_[0] < model.score_ < model.score_interval_[1]
    # the cross-fitted score is that of new rows
    assert model.score_ == pytest.approx(1 - error / y_new.var(), abs=0.06)
    assert model.stage_scores_["ridge"] < model.score_


def test_a_linear_table_is_left_to_ridge_regression():
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(4):
        x, new = rng.standard_normal((150, 8)), rng.standard_normal((2000, 8))
        slopes = rng.standard_normal(8)
        y = x @ slopes + 2 * rng.standard_normal(150)
        ridge = RidgeCV(np.logspace(-2, 3, 20)).fit(x, y)
        machine = MetricMachineRegressor(random_state=0).fit(x, y)
        errors = [np.mean((one.predict(new) - new @ slopes) ** 2) for one in (machine, ridge)]
        ratios.append((errors[0] + 4) / (errors[1] + 4))
    assert np.mean(ratios) < 1.05


def test_noise_is_called_noise():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((200, 5)), rng.standard_normal(200)
    model = MetricMachineRegressor(random_state=0).fit(x, y)
    assert model.score_ < 0.1
    assert np.var(model.predict(rng.standard_normal((500, 5)))) < 0.1


def test_probabilities_are_those_of_the_classes():
    rng = np.random.default_rng(4)
    x, new = rng.standard_normal((600, 6)), rng.standard_normal((4000, 6))

    def shares(rows):
        scores = np.column_stack([2 * np.sin(2 * rows[:, 0]), rows[:, 1] ** 2 - 1, np.zeros(len(rows))])
        odds = np.exp(scores)
        return odds / odds.sum(axis=1, keepdims=True)

    def labels(rows):
        return np.array(["x", "y", "z"])[(shares(rows).cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1)]

    y, y_new = labels(x), labels(new)
    model = MetricMachineClassifier(random_state=0).fit(x, y)
    best, plain = log_loss(y_new, shares(new)), log_loss(y_new, LogisticRegression().fit(x, y).predict_proba(new))
    assert log_loss(y_new, model.predict_proba(new)) < 0.5 * best + 0.5 * plain
    # calibrated: of all that is given 60 to 80% as much comes true
    given = model.predict_proba(new)
    here = (given > 0.6) & (given < 0.8)
    true = (y_new[:, None] == model.classes_)[here]
    assert true.mean() == pytest.approx(given[here].mean(), abs=4 * true.std() / np.sqrt(true.size) + 0.03)


@pytest.mark.parametrize(
    ("truth", "most"),
    [
        (lambda rows: 2.0 * (rows[:, 0] > 0.5) * (rows[:, 1] > 0) - (rows[:, 2] > 1), 0.7),
        (lambda rows: np.sin(rows[:, 0] + rows[:, 1]) + 0.5 * rows[:, 2], 1.1),
    ],
)
def test_a_target_that_jumps_is_left_to_the_forest_and_a_smooth_one_to_the_kernels(truth, most):
    rng = np.random.default_rng(9)
    x, new = rng.standard_normal((240, 6)), rng.standard_normal((1000, 6))
    y = truth(x) + 0.1 * rng.standard_normal(240)
    both, kernels = (MetricMachineRegressor(trees=trees, random_state=0).fit(x, y) for trees in (300, 0))
    missed = [np.mean((model.predict(new) - truth(new)) ** 2) for model in (both, kernels)]
    assert missed[0] < most * missed[1]
    assert "forest" not in {member.stage for member in kernels.members_}
    assert set(np.argsort(-both.feature_importances_)[:3]) == {0, 1, 2}


def test_more_rows_than_teach_the_metric_are_all_used():
    frame, y = table(3000, 5)
    new, y_new = table(1000, 6)
    few = MetricMachineRegressor(metric_rows=300, random_state=0).fit(frame.iloc[:300], y[:300])
    many = MetricMachineRegressor(metric_rows=300, random_state=0).fit(frame, y)
    # above the noise, 0.2^2
    errors = [np.mean((one.predict(new) - y_new) ** 2) - 0.04 for one in (few, many)]
    assert errors[1] < 0.7 * errors[0]
    assert len(many.leave_one_out_) == 300


@pytest.mark.parametrize(
    ("estimator", "X", "y", "message"),
    [
        (MetricMachineRegressor(), [[float(i)] for i in range(20)], ["a"] * 20, "y must be numbers"),
        (MetricMachineRegressor(), [[1.0]] * 20, range(20), "X must have a column with different values"),
        (MetricMachineRegressor(metric_rows=3), [[float(i)] for i in range(20)], range(20), "metric_rows must be"),
        (MetricMachineRegressor(trees=-1), [[float(i)] for i in range(20)], range(20), "trees must be"),
        (MetricMachineRegressor(), [[float(i)] for i in range(20)], [*range(19), np.inf], "y must be finite"),
        (MetricMachineClassifier(), [[float(i)] for i in range(20)], ["a"] * 20, "y must hold at least 2 classes"),
        (MetricMachineRegressor(), [[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], "X must have at least 10 rows"),
    ],
)
def test_bad_input_is_one_line(estimator, X, y, message):
    with pytest.raises(InputError, match=message) as caught:
        estimator.fit(X, list(y))
    assert "\n" not in str(caught.value)


def test_report_says_what_matters_and_what_simpler_machines_miss():
    frame, y = table(400, 8)
    model = MetricMachineRegressor(random_state=0).fit(frame, y)
    report = model.report()
    assert set(list(report.importances)[:3]) == {"a", "b", "city"}
    assert report.gains["ridge"].low > 1.2
    assert report.gains["ridge"].low < report.gains["ridge"].ratio < report.gains["ridge"].high
    ratio = (1 - model.stage_scores_["ridge"]) / (1 - model.score_)
    assert report.gains["ridge"].ratio == pytest.approx(ratio, rel=1e-6)
    assert "a (" in str(report)
    assert len(report.figure().axes) == 2


@pytest.mark.parametrize(("draw", "noise"), [("lognormal", 0.3), ("standard_normal", 0.01)])
def test_on_a_linear_table_it_is_as_good_as_ridge_whatever_the_tails(draw, noise):
    rng = np.random.default_rng(0)
    X, new = (getattr(rng, draw)(size=(rows, 6)) for rows in (200, 2000))
    weights = rng.normal(size=6)
    y = X @ weights + noise * rng.normal(size=200)
    machine, ridge = MetricMachineRegressor(random_state=0).fit(X, y), RidgeCV(np.logspace(-5, 3, 17)).fit(X, y)
    missed = [np.mean((model.predict(new) - new @ weights) ** 2) + noise**2 for model in (machine, ridge)]
    assert missed[0] < 1.1 * missed[1]
    assert machine.stage_scores_["ridge"] > machine.stage_scores_["ridge of bounded columns"]
    # what matters is what the coefficients say
    shares = weights**2 * X.var(axis=0)
    np.testing.assert_allclose(machine.feature_importances_, shares / shares.sum(), atol=0.05)
