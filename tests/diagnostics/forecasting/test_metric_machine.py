"""Forecasts of metric machines: a metric that one half taught, held fixed, as the kernel of the other half."""

import numpy as np
import pytest
from sklearn.utils import check_random_state

from unlazy.checks import InputError
from unlazy.diagnostics.forecasting import forecast, metric_machine
from unlazy.diagnostics.forecasting.check import check_methods
from unlazy.diagnostics.forecasting.methods import fit_methods
from unlazy.diagnostics.forecasting.metric_machine import MetricGain, metric_curve, pool_of, refusal
from unlazy.estimators import MetricMachineRegressor
from unlazy.estimators.common.folds import parted_halves


def rows_of(n, seed, d=10):
    """A target of two of the columns, whose variance is 1 in the population, with a tenth of noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    signal = np.tanh(2 * x[:, 0]) + x[:, 0] * x[:, 1]
    return x, ((signal + 0.42 * rng.standard_normal(n)) / 1.37)[:, None]


def machine_of(n, seed, **options):
    (method,) = fit_methods(["metric-machine"], *rows_of(n, seed, **options))
    return method


@pytest.fixture(scope="module")
def machines():
    return [machine_of(200, seed) for seed in range(3)]


@pytest.fixture(scope="module")
def trained():
    """Errors of the machine itself with 200 and 400 rows, means over draws."""
    new, truth = rows_of(1000, 99)
    errors = {}
    for n in (200, 400):
        draws = (rows_of(n, seed) for seed in range(10, 12))
        machines = [MetricMachineRegressor(random_state=0).fit(x, y[:, 0]) for x, y in draws]
        errors[n] = np.mean([np.mean((one.predict(new) - truth[:, 0]) ** 2) for one in machines])
    return errors


def test_forecasts_are_near_the_machine_trained_on_fresh_rows(machines, trained):
    for n, error in trained.items():
        points = [method.at(np.array([float(n)])) for method in machines]
        middle = np.exp(np.mean([np.log(one.test_error[0]) for one in points]))
        assert error / 1.3 < middle < 1.3 * error
        assert all(one.low[0] < error < one.high[0] for one in points)
        assert not error / 1.3 < 1.8 * middle < 1.3 * error


def test_a_learned_metric_is_forecast_below_a_fixed_kernel_where_few_columns_matter(machines):
    (fixed,) = fit_methods(["rbf"], *rows_of(200, 0))
    n = np.array([200.0, 400.0])
    assert (machines[0].at(n).test_error < 0.7 * fixed.at(n).test_error).all()


def test_with_the_rows_of_a_half_the_error_is_that_of_leaving_rows_of_it_out():
    """The closed form: leave-one-out of kernel ridge regression with an intercept, in the metric of the other half."""
    x, y = rows_of(120, 0)
    curve, penalty, m = metric_curve(x, y), 0.1, 60
    errors = []
    for half, place in zip(curve.curves, parted_halves(y[:, 0], check_random_state(0)), strict=True):
        kernel, labels = half.kernel_matrix_, y[place, 0]
        system = np.block([[kernel + penalty * np.eye(m), np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        inverse = np.linalg.inv(system)[:m, :m]
        errors.append(np.mean((inverse @ labels / np.diagonal(inverse)) ** 2))
    found = curve.predict(np.array([float(m)]), penalty).test_error[0]
    assert found == pytest.approx(np.sqrt(np.prod(errors)), rel=1e-6)


def test_a_half_has_no_say_in_the_metric_that_is_used_on_it():
    """Of a target without signal no kernel promises less than the variance, which fitted metrics would."""
    rng = np.random.default_rng(0)
    errors = [
        fit_methods(["metric-machine"], rng.standard_normal((100, 30)), rng.standard_normal((100, 1)))[0]
        .at(np.array([100.0, 200.0]))
        .test_error
        for _ in range(4)
    ]
    assert np.median(errors) > 0.9


def test_intervals_allow_for_a_better_metric_on_the_low_side_only(machines):
    n = np.array([50.0, 100.0, 400.0, 1e6])
    for method in machines:
        assert method.metric_gain is not None
        found, fixed = method.at(n), method.curve.predict(n[:3], method.penalty)
        np.testing.assert_allclose(found.low[:3], fixed.low * method.metric_gain.at(n)[:3])
        np.testing.assert_allclose(found.high[:3], fixed.high)
    np.testing.assert_allclose(MetricGain(100, 0.5).at(n), [1, 1, 0.5, 20**-0.5])


def test_the_page_says_that_the_metric_is_held_fixed_and_json_has_what_it_may_bring():
    found = forecast(tuple(rows_of(200, 0)), kernel="ridge,metric-machine", n="1x,2x")
    page = " ".join(str(found).split())
    assert "rounds from 100 rows" in page or "round from 100 rows" in page
    assert "the metric is held fixed, low ends allow for a better one" in page
    ridge, machine = found.as_json()["methods"]
    assert ridge["metric_gain"] is None
    assert machine["metric_gain"]["rows"] == 100
    assert machine["rows_used"] == 200
    assert 0 <= machine["metric_gain"]["slope"] <= 1


@pytest.mark.parametrize(
    ("n", "d", "said"),
    [
        (99, 3, "it needs at least 100 rows, got 99"),
        (110, 501, "it takes at most 500 columns, got 501"),
    ],
)
def test_where_it_cannot_be_done_one_line_says_so_and_the_others_answer(n, d, said):
    x, y = rows_of(n, 0, d)
    found = forecast((x, y), kernel="ridge,metric-machine", n="1x")
    assert [one.name for one in found.methods] == ["ridge"]
    assert f"no forecast of the metric machine: {said}" in found.table.notes
    with pytest.raises(InputError, match=said):
        forecast((x, y), kernel="metric-machine", n="1x")


def test_several_targets_and_targets_of_almost_one_value_are_refused():
    x, y = rows_of(100, 0, 3)
    assert refusal(x, y) == ""
    assert "one target, got 2" in refusal(x, np.hstack([y, y]))
    assert "most common target" in refusal(x, (np.arange(100) < 3)[:, None].astype(float))
    assert refusal(x, (np.arange(100) < 4)[:, None].astype(float)) == ""


def test_two_classes_and_rows_that_repeat_each_other_have_a_forecast():
    x, y = rows_of(60, 1, 3)
    classes = (y > 0.3).astype(float)
    found = forecast((np.vstack([x, x]), np.vstack([classes, classes])), kernel="metric-machine", n="1x,2x")
    points = found.methods[0].points
    assert points.in_range.all()
    assert (points.low <= points.test_error).all()
    assert (points.test_error <= points.high).all()


def test_large_tables_teach_the_metric_with_some_of_their_rows_and_are_measured_on_others(trained, monkeypatch):
    assert len(pool_of(np.zeros((3000, 10)))) == 600
    assert len(pool_of(np.zeros((3000, 400)))) == 447
    monkeypatch.setattr(metric_machine, "LARGEST_POOL", 200)
    x, y = rows_of(1200, 5)
    (method,) = fit_methods(["metric-machine"], x, y)
    assert method.rows_used == 200
    assert method.measured is not None
    assert method.measured.n == 400
    # the metric of 100 rows with 400 rows is as good as the machine with some number of rows between
    assert 0.8 * trained[400] < method.measured.error < 1.2 * trained[200]
    points = method.at(np.array([1200.0, 12000.0]))
    assert points.in_range.all()
    assert (points.high == points.high[0]).all()


def test_a_check_trains_the_whole_machine_and_counts_parts_that_are_too_small_as_out_of_range():
    x, y = rows_of(270, 3, 4)
    checked = check_methods(fit_methods(["metric-machine"], x, y), x, y, splits=1)
    known = {one.factor: np.isfinite(one.forecast) for one in checked}
    assert known == {2: True, 5: False, 10: False}
    order = np.random.default_rng(0).permutation(270)
    new, rows = order[:54], order[54:]
    machine = MetricMachineRegressor(random_state=0).fit(x[rows], y[rows, 0] - y[rows].mean())
    error = np.mean((y[new, 0] - y[rows].mean() - machine.predict(x[new])) ** 2)
    assert checked[0].measured == pytest.approx(error, rel=1e-9)
