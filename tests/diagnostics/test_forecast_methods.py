"""The parts of `unlazy forecast`: many rows, odd tables, the check."""

import numpy as np
import pandas as pd
import pytest

from unlazy.diagnostics._forecast_check import Checked, check_methods, verdict
from unlazy.diagnostics._forecast_factor import FactorCurve
from unlazy.diagnostics._forecast_methods import fit_methods, largest_near_least
from unlazy.diagnostics.forecast import forecast
from unlazy.diagnostics.learning_curve import LearningCurve
from unlazy.errors import InputError


def linear(rows, columns, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    y = x @ rng.normal(size=columns) / np.sqrt(columns) + noise * rng.normal(size=rows)
    return x, ((y - y.mean()) / y.std())[:, None]


def test_a_covariance_says_what_the_kernel_matrix_says():
    x, y = linear(300, 8)
    factor = FactorCurve(x, y)
    curve = LearningCurve("linear", ridge=4.0, method="hybrid").fit(x, y)
    n = np.array([100.0, 300.0, 900.0])
    np.testing.assert_allclose(factor.predict(n, 4.0).error, curve.predict(n=n).error, rtol=1e-7)
    ridges, errors = factor.ridge_path()
    for i in (10, 40):
        gain = x @ np.linalg.solve(x.T @ x + ridges[i] * np.eye(8), x.T)
        left_out = (y - gain @ y)[:, 0] / (1 - np.diag(gain))
        assert errors[i] == pytest.approx(np.mean(left_out**2), rel=1e-8)


def test_ridge_on_many_rows_uses_all_of_them_and_meets_the_law_of_least_squares():
    """With n Gaussian rows, d columns and noise s the error is s (1 + d / (n - d - 1))."""
    x, y = linear(20_000, 20, noise=2.0)
    (method,) = fit_methods(["linear"], x, y, ridge=1e-6)
    assert method.pool == 20_000
    points = method.at(np.array([60.0, 20_000.0, 200_000.0]))
    noise = 4 / 5
    # the sampling error of 20,000 squared residuals is 1%
    np.testing.assert_allclose(points.error, noise * (1 + 20 / (points.n - 21)), rtol=0.04)
    assert points.reliable[1:].all()


def test_kernels_on_many_rows_say_that_they_used_a_part_and_where_they_end():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x[:, 0] * x[:, 1] + rng.normal(size=4000)})
    (method,) = fit_methods(["rbf"], x, frame[["y"]].to_numpy(), largest_pool=150, gamma=0.5)
    points = method.at(np.array([1500.0, 1501.0, 4000.0]))
    assert method.pool == 150
    assert points.in_range.tolist() == [True, False, False]
    assert points.reasons[1] == "more than 10 times the 150 rows that the forecast is made from"


def test_the_ridge_is_the_largest_of_those_that_cannot_be_told_apart():
    ridges = np.arange(1.0, 8)
    assert largest_near_least(ridges, np.array([2, 1.5, 1.0, 1.005, 1.009, 1.02, 1.0])) == 5
    assert largest_near_least(ridges, np.array([2, 1.5, 1.0, 1.005, 1.009, 1.02, 1.0]), tolerance=0) == 3


def test_random_features_are_as_many_as_leave_one_out_asks_for():
    """A target that a few features learn, and the number that is given."""
    x, y = linear(120, 3, noise=0.2)
    (few,) = fit_methods(["random-features"], x, y)
    (kernel,) = fit_methods(["rbf"], x, y, gamma=few.gamma)
    now = np.array([120.0])
    assert few.at(now).error[0] < 1.05 * 1.01 * kernel.curve.best_ridge().error * 1.001
    (given,) = fit_methods(["random-features"], x, y, features=7)
    assert given.features == 7


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": np.arange(12.0), "y": np.arange(12.0) ** 2}),
        pd.DataFrame({"a": np.repeat([0.0, 1.0], 20), "y": np.repeat([0.0, 1.0], 20)}),
        pd.DataFrame({"a": np.arange(40.0), "c": 1.0, "y": np.r_[np.zeros(39), 1e6]}),
        pd.DataFrame(np.random.default_rng(0).normal(size=(15, 60))).rename(columns={0: "y"}),
        pd.DataFrame({"a": np.tile(np.arange(10.0), 4), "y": np.tile(np.sin(np.arange(10.0)), 4)}),
        pd.DataFrame({"a": np.random.default_rng(1).normal(size=60), "y": np.random.default_rng(2).normal(size=60)}),
    ],
    ids=["few rows", "two values", "an outlier", "wide", "repeated rows", "noise only"],
)
def test_odd_tables_have_an_answer_without_silent_nan(frame):
    found = forecast(frame, "y", sizes="1x,10x")
    for one in found.methods:
        points = one.points
        assert np.isfinite(points.error[points.in_range]).all()
        assert (points.error[points.in_range] >= 0).all()
        assert all(reason for reason, sure in zip(points.reasons, points.reliable, strict=True) if not sure)
    assert "nan" not in str(found).replace("unnamed", "").split("error", 1)[1]


def test_repeated_and_neighbouring_rows_are_told():
    x = np.linspace(0, 20, 200)
    walk = np.cumsum(np.random.default_rng(0).normal(size=200))
    notes = forecast(pd.DataFrame({"a": x, "y": walk}), "y", kernel="ridge").table.notes
    assert any(note.startswith("neighbouring rows are alike") for note in notes)
    shuffled = pd.DataFrame({"a": x, "y": walk}).sample(frac=1, random_state=0)
    assert forecast(shuffled, "y", kernel="ridge").table.notes == ()
    twice = pd.concat([shuffled, shuffled.head(50)])
    assert any("50 of 250 rows repeat" in note for note in forecast(twice, "y", kernel="ridge").table.notes)


def test_the_check_compares_with_training_on_rows_that_the_forecast_did_not_see():
    x, y = linear(400, 5, noise=0.5)
    checked = check_methods(["linear"], x, y, ridge=1.0, gamma=None, features=None, splits=2)
    assert {(c.factor, c.n_from, c.n_to) for c in checked} == {(2, 160, 320), (5, 64, 320), (10, 32, 320)}
    # by hand: the first split, from half of the rows
    order = np.random.default_rng(0).permutation(400)
    new, rows = order[:80], order[80:]
    mean = y[rows].mean()
    weights = np.linalg.solve(x[rows].T @ x[rows] + np.eye(5), x[rows].T @ (y[rows] - mean))
    assert checked[0].measured == pytest.approx(np.mean((y[new] - mean - x[new] @ weights) ** 2))
    assert all(c.covered for c in checked if c.factor == 2)


def case(forecast, measured, factor=2, **fields):
    usual = {"low": 0.9 * forecast, "high": forecast / 0.9, "reliable": True, "measured_deviation": 0.0}
    return Checked("ridge", factor, 0, 50, 100, forecast, measured=measured, **{**usual, **fields})


def test_the_verdict_hides_no_miss():
    assert "covered 1 of 3: do not trust" in verdict([case(1.0, 1.0), case(1.0, 2.0), case(1.0, 3.0)])
    assert "200% in all" in verdict([case(1.0, 1.0), case(1.0, 1.0), case(1.0, 3.0)])
    assert "over 5x there were none" in verdict([case(1.0, 1.0), case(np.nan, 1.0, 5)])
    assert "(1 of 2 out of range)" in verdict([case(1.0, 1.0), case(np.nan, 1.0)])
    assert case(1.0, 1.15, measured_deviation=0.1).covered
    assert not case(1.0, 1.15).covered


def test_the_check_needs_enough_rows_and_a_method_that_trains():
    x, y = linear(20, 2)
    with pytest.raises(InputError, match="check needs at least 25 rows"):
        check_methods(["linear"], x, y, ridge=1.0, gamma=None, features=None)
    with pytest.raises(InputError, match="check needs a method that can be trained"):
        check_methods(["one-step"], x, y, ridge=1.0, gamma=None, features=None)


@pytest.mark.slow
def test_one_step_is_there_on_request():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = np.tanh(2 * x[:, 0]) + 0.1 * rng.normal(size=200)
    found = forecast((x, y), kernel="ridge,one-step", sizes="1x")
    assert [one.name for one in found.methods] == ["ridge", "one-step"]
    assert found["one-step"].points.error[0] < found["ridge"].points.error[0]
    with pytest.raises(InputError, match="one-step' takes one target"):
        forecast((x, np.column_stack([y, -y])), kernel="one-step")
