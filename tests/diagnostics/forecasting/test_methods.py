"""The parts of `unlazy forecast`: many rows, odd tables, the check."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics.curves import Curve, Interval
from unlazy.diagnostics.forecasting.answer import forecast
from unlazy.diagnostics.forecasting.check import Checked, check_methods, verdict
from unlazy.diagnostics.forecasting.factor import FactorCurve
from unlazy.diagnostics.forecasting.methods import fit_methods, largest_near_least, of_part
from unlazy.diagnostics.forecasting.words import growth
from unlazy.diagnostics.learning_curve.curve import LearningCurve


def linear(rows, columns, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    y = x @ rng.normal(size=columns) / np.sqrt(columns) + noise * rng.normal(size=rows)
    return x, ((y - y.mean()) / y.std())[:, None]


def test_a_covariance_says_what_the_kernel_matrix_says():
    x, y = linear(300, 8)
    factor = FactorCurve(x, y)
    curve = LearningCurve("linear", penalty=4.0, method="hybrid").fit(x, y)
    n = np.array([100.0, 300.0, 900.0])
    np.testing.assert_allclose(factor.predict(n, 4.0).test_error, curve.predict(n=n).test_error, rtol=1e-7)
    penalties, errors = factor.penalty_path()
    design = np.column_stack([x, np.ones(300)])
    for i in (10, 40):
        gain = design @ np.linalg.solve(design.T @ design + np.diag([*[penalties[i]] * 8, 0.0]), design.T)
        left_out = (y - gain @ y)[:, 0] / (1 - np.diag(gain))
        assert errors[i] == pytest.approx(np.mean(left_out**2), rel=1e-8)


def test_ridge_on_many_rows_uses_all_of_them_and_meets_the_law_of_least_squares():
    """With n Gaussian rows, d columns and noise s the error is s (1 + d / (n - d - 1))."""
    x, y = linear(20_000, 20, noise=2.0)
    (method,) = fit_methods(["linear"], x, y, penalty=1e-6)
    assert method.pool == 20_000
    points = method.at(np.array([60.0, 20_000.0, 200_000.0]))
    noise = 4 / 5
    # the sampling error of 20,000 squared residuals is 1%
    np.testing.assert_allclose(points.test_error, noise * (1 + 20 / (points.n - 21)), rtol=0.04)
    assert points.reliable[1:].all()


def test_kernels_on_many_rows_say_that_they_used_a_part_and_where_they_end():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x[:, 0] * x[:, 1] + rng.normal(size=4000)})
    (method,) = fit_methods(["rbf"], x, frame[["y"]].to_numpy(), largest_pool=150, gamma=0.5)
    points = method.at(np.array([100.0, 4000.0, 40_000.0, 41_000.0]))
    assert method.pool == 150
    assert method.measured.n == 600
    assert points.in_range.tolist() == [True, True, True, False]
    assert points.reasons[0] == ""
    assert points.reasons[1] == "from training on 600 rows: between no further gain and a gain as before"
    # twice the rows: no gain at the upper end of the interval, the largest at the lower one
    both = method.at(np.array([4000.0, 8000.0]))
    assert both.high[1] == both.high[0]
    assert 1 - both.low[1] / both.low[0] == pytest.approx(method.gain_of_twice)
    assert points.reasons[3] == "more than 10 times the 4000 rows of the table"
    page = str(forecast(frame, "y", kernel="rbf", n="1x")).replace("\n ", "")
    assert "from 1200 rows taken at random" in page


DRAWN = {
    "sines": lambda x: np.sin(2 * x[:, 0]) + np.sin(2 * x[:, 1]),
    "product": lambda x: x[:, 0] * x[:, 1],
    "line": lambda x: x[:, 0] + x[:, 2],
    "steps": lambda x: (x[:, 0] > 0) + 1.0 * (x[:, 1] > 0.5),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_far_beyond_the_pool_intervals_hold_the_error_of_training(kind):
    """From a pool of 60 rows, and training on 120 and 240, the error with 1600 rows."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(3600, 5))
    y = DRAWN[kind](x)
    y = (y - y.mean()) / y.std() + 0.5 * rng.normal(size=3600)
    y = ((y - y.mean()) / y.std())[:, None]
    (method,) = fit_methods(["rbf"], x[:1600], y[:1600], largest_pool=60)
    points = method.at(np.array([1600.0]))
    errors = method.trained_error(x[:1600], y[:1600], x[1600:], y[1600:])
    spread = 4 * errors.std() / np.sqrt(len(errors))
    assert points.low[0] - spread < errors.mean() < points.high[0] + spread
    # it is not so wide that it holds anything
    assert points.high[0] < 6 * points.low[0]


def test_of_a_small_table_the_range_goes_on_where_the_penalty_ends_it():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(100, 3))
    y = np.sin(2 * x[:, :1]) + 0.3 * rng.normal(size=(100, 1))
    (method,) = fit_methods(["rbf"], x, y / y.std(), penalty=1e-4)
    points = method.at(np.array([100.0, 200.0, 1000.0, 1001.0]))
    assert points.in_range.tolist() == [True, True, True, False]
    assert (np.diff(points.test_error[:3]) <= 1e-12).all()
    assert (points.low[:3] <= points.test_error[:3]).all()
    assert (points.test_error[:3] <= points.high[:3]).all()


def test_the_penalty_is_the_largest_of_those_that_cannot_be_told_apart():
    penalties = np.arange(1.0, 8)
    assert largest_near_least(penalties, np.array([2, 1.5, 1.0, 1.005, 1.009, 1.02, 1.0])) == 5
    assert largest_near_least(penalties, np.array([2, 1.5, 1.0, 1.005, 1.009, 1.02, 1.0]), tolerance=0) == 3


def test_random_features_are_as_many_as_leave_one_out_asks_for():
    """A target that a few features learn, and the number that is given."""
    x, y = linear(120, 3, noise=0.2)
    (few,) = fit_methods(["random-features"], x, y)
    (kernel,) = fit_methods(["rbf"], x, y, gamma=few.gamma)
    now = np.array([120.0])
    assert few.at(now).test_error[0] < 1.05 * 1.01 * kernel.curve.best_penalty().test_error * 1.001
    (given,) = fit_methods(["random-features"], x, y, width=7)
    assert given.width == 7


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
    found = forecast(frame, "y", n="1x,10x")
    for one in found.methods:
        points = one.points
        assert np.isfinite(points.test_error[points.in_range]).all()
        assert (points.test_error[points.in_range] >= 0).all()
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
    checked = check_methods(fit_methods(["linear"], x, y, penalty=1.0), x, y, splits=2)
    assert {(c.factor, c.n_from, c.n_to) for c in checked} == {(2, 160, 320), (5, 64, 320), (10, 32, 320)}
    # by hand: the first split, from half of the rows
    order = np.random.default_rng(0).permutation(400)
    new, rows = order[:80], order[80:]
    x, mean = x - x[rows].mean(axis=0), y[rows].mean()
    weights = np.linalg.solve(x[rows].T @ x[rows] + np.eye(5), x[rows].T @ (y[rows] - mean))
    assert checked[0].measured == pytest.approx(np.mean((y[new] - mean - x[new] @ weights) ** 2))
    assert all(c.covered for c in checked if c.factor == 2)


def case(forecast, measured, factor=2, **fields):
    usual = {"low": 0.9 * forecast, "high": forecast / 0.9, "reliable": True, "measured_deviation": 0.0}
    return Checked("ridge", factor, 0, 50, 100, forecast, measured=measured, **{**usual, **fields})


def test_the_verdict_hides_no_miss():
    assert "covered 1 of 3: do not trust" in verdict([case(1.0, 1.0), case(1.0, 2.0), case(1.0, 3.0)])
    assert "a factor of 3 in all" in verdict([case(1.0, 1.0), case(1.0, 1.0), case(1.0, 3.0)])
    assert "over 5x there were none" in verdict([case(1.0, 1.0), case(np.nan, 1.0, 5)])
    assert "(1 of 2 out of range)" in verdict([case(1.0, 1.0), case(np.nan, 1.0)])
    assert case(1.0, 1.15, measured_deviation=0.1).covered
    assert not case(1.0, 1.15).covered


def test_the_verdict_says_on_which_side_most_forecasts_were():
    low, high = case(1.0, 1.2), case(1.2, 1.0)
    assert "Most were too low (3 of 4): expect larger errors" in verdict([low, low, low, high])
    assert "Most were too high (3 of 4): expect smaller errors" in verdict([low, high, high, high])
    assert "Most" not in verdict([low, high])


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([0.55, 0.506, 0.488, 0.491], "falls to 0.488 to 0.506 from 2x the rows on"),
        ([0.5, 0.498, 0.496, 0.495], "stays at about 0.496 up to 10x the rows"),
        ([0.4, 0.3, 0.2, 0.1], "falls to 0.300 with 2x, 0.200 with 5x and 0.100 with 10x the rows"),
        ([0.4, 0.3, 0.2, 0.202], "falls to 0.300 with 2x and 0.200 to 0.202 from 5x the rows on"),
        ([0.165, 0.161, 0.206, 0.3], "a rise is a reason to doubt it"),
    ],
)
def test_what_does_not_fall_is_not_said_to_fall(errors, said):
    sure = np.ones(4, dtype=bool)
    error = np.array(errors)
    points = Curve(np.array([1.0, 2, 5, 10]), error, Interval(0.9 * error, 1.1 * error), sure, sure)
    words = growth("ridge", points)
    assert said in words
    assert ("falls" in words) == ("falls" in said)


def test_the_check_keeps_the_learner_that_the_table_got():
    """Its features and its penalty, by hand; on so few rows another gamma would be taken for a part."""
    from sklearn.kernel_approximation import RBFSampler

    x, y = linear(200, 3, noise=0.3)
    (method,) = fit_methods(["random-features"], x, y, gamma=0.2, width=30, penalty=0.7)
    part = of_part(method, x[:40], y[:40])
    assert (part.gamma, part.width, part.penalty, part.pool) == (0.2, 30, 0.7, 40)
    checked = check_methods([method], x, y, splits=1)
    assert len({c.measured for c in checked}) == 1
    order = np.random.default_rng(0).permutation(200)
    new, rows = order[:40], order[40:]
    drawn = RBFSampler(gamma=0.2, n_components=30, random_state=0).fit_transform(x)
    drawn -= drawn[rows].mean(axis=0)
    mean = y[rows].mean()
    gram = drawn[rows].T @ drawn[rows] + 0.7 * np.eye(30)
    weights = np.linalg.solve(gram, drawn[rows].T @ (y[rows] - mean))
    assert checked[0].measured == pytest.approx(np.mean((y[new] - mean - drawn[new] @ weights) ** 2))


def test_many_features_on_more_rows_than_a_kernel_takes_use_all_rows_and_do_not_rise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(360, 12))
    y = np.tanh(x[:, :1] * x[:, 1:2]) + x[:, 2:3]
    y = (y - y.mean()) / y.std()
    (method,) = fit_methods(["random-features"], x, y, gamma=1 / 12, width=200, largest_pool=240)
    assert method.pool == 360
    errors = method.at(360 * np.array([1.0, 2.0, 5.0])).test_error
    assert (np.diff(errors) < 0).all()
    # at the rows at hand it is leave-one-out, by brute force of refitting without a row
    from sklearn.kernel_approximation import RBFSampler

    drawn = RBFSampler(gamma=1 / 12, n_components=200, random_state=0).fit_transform(x)
    left_out = []
    for i in range(360):
        kept = np.arange(360) != i
        rows, mean = drawn - drawn[kept].mean(axis=0), y[kept].mean()
        weights = np.linalg.solve(rows[kept].T @ rows[kept] + method.penalty * np.eye(200), rows[kept].T @ y[kept])
        left_out.append(((y[i] - mean - rows[i] @ weights) ** 2).item())
    assert errors[0] == pytest.approx(np.mean(left_out), rel=1e-6)


def test_a_column_that_determines_the_target_is_told():
    x, y = linear(60, 3)
    frame = pd.DataFrame(x, columns=list("abc")).assign(y=y[:, 0])
    assert not any("determine" in note for note in forecast(frame, "y", kernel="ridge").table.notes)
    found = forecast(frame.assign(leak=5 - 3 * frame["y"]), "y", kernel="ridge")
    (note,) = [note for note in found.table.notes if "determines" in note]
    assert note.startswith("column 'leak' determines the target 'y'")
    assert "error below 1e-08" in found.sentence()
    sums = frame.assign(y=frame["a"] + frame["b"] + frame["c"])
    assert any("the inputs determine the target" in note for note in forecast(sums, "y", kernel="ridge").table.notes)


def test_the_check_needs_enough_rows_and_a_method_that_trains():
    x, y = linear(20, 2)
    with pytest.raises(InputError, match="check needs at least 25 rows"):
        check_methods(fit_methods(["linear"], x, y), x, y)
    one_step = dataclasses.replace(fit_methods(["linear"], x, y)[0], name="one-step")
    with pytest.raises(InputError, match="check needs a method that can be trained"):
        check_methods([one_step], x, y)


@pytest.mark.slow
def test_one_step_is_there_on_request():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = np.tanh(2 * x[:, 0]) + 0.1 * rng.normal(size=200)
    found = forecast((x, y), kernel="ridge,one-step", n="1x")
    assert [one.name for one in found.methods] == ["ridge", "one-step"]
    assert found["one-step"].points.test_error[0] < found["ridge"].points.test_error[0]
    with pytest.raises(InputError, match="one-step' takes one target"):
        forecast((x, np.column_stack([y, -y])), kernel="one-step")
