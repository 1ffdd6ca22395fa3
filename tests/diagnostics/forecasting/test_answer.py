"""`unlazy forecast`: a table in; methods compared, a sentence, tables, a figure and a check out."""

import json

import numpy as np
import pandas as pd
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics.forecasting.answer import forecast


def table(rows, seed=0):
    """A target with a linear and a curved part, and noise of a known share of its variance."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    signal = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["kind"] = np.where(x[:, 2] > 0, "left", "right")
    frame["y"] = 100 * (signal + 0.3 * rng.normal(size=rows))
    return frame


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "table.csv"
    table(160).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def found(file):
    return forecast(file, "y", kernel="ridge,kernel-ridge,random-features", width=200)


def trained(method, frame, n, seeds=30):
    """The mean error of a method after training on n rows of a large table, in units of the target's variance."""
    x = frame[list("abcd")].to_numpy()
    x = np.column_stack([(x - x.mean(0)) / x.std(0), frame["kind"] == "right"])
    y = ((frame["y"] - frame["y"].mean()) / frame["y"].std()).to_numpy()[:, None]
    errors = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(x))
        rows, new = order[:n], order[n : n + 400]
        errors.append(method.trained_error(x[rows], y[rows], x[new], y[new], seed).mean())
    return np.mean(errors)


def test_the_forecast_is_that_of_training_on_random_parts(file):
    """Below the number of rows at hand, where parts of the table itself can be trained on."""
    from sklearn.kernel_ridge import KernelRidge

    one = forecast(file, "y", kernel="rbf", n=[40, 80])["kernel ridge"]
    whole = forecast(file, "y", kernel="rbf", n="1x").table
    x, y = whole.inputs, whole.targets[:, 0]
    y = (y - y.mean()) / y.std()
    for n, error in zip((40, 80), one.points.test_error, strict=True):
        errors = []
        for seed in range(60):
            order = np.random.default_rng(seed).permutation(len(x))
            model = KernelRidge(alpha=one.method.penalty, kernel="rbf", gamma=one.method.gamma)
            model.fit(x[order[:n]], y[order[:n]])
            errors.append(np.mean((model.predict(x[order[n:]]) - y[order[n:]]) ** 2))
        assert error == pytest.approx(np.mean(errors), rel=0.06)
        assert 1.2 * error != pytest.approx(np.mean(errors), rel=0.06)


def test_all_three_methods_are_forecast_within_their_intervals_at_five_times_the_rows(found):
    truth = table(2400, seed=1)
    for one in found.methods:
        i = int(np.flatnonzero(found.n == 800)[0])
        measured = trained(one.method, truth, 800, seeds=6)
        assert one.points.low[i] * 0.97 < measured < one.points.high[i] * 1.03, one.name


def test_kernel_ridge_wins_over_ridge_on_a_curved_target_and_the_sentence_says_so(found):
    assert [one.name for one in found.methods] == ["ridge", "kernel ridge", "random features"]
    assert found["kernel ridge"].points.test_error[0] < 0.8 * found["ridge"].points.test_error[0]
    assert "in place of ridge" in found.sentence()
    assert "noise" in found.sentence()
    # noise of variance .09 beside a signal of variance 1/2 (1 - exp(-8)) + 1/4
    assert 0.5 < found.noise_variance / (0.09 / (0.09 + 0.5 * (1 - np.exp(-8)) + 0.25)) < 2


def test_errors_are_shares_of_the_variance_and_roots_are_in_the_units_of_the_target(file, found):
    page = found.as_json()
    spread = pd.read_csv(file)["y"].std(ddof=0)
    for one in page["methods"]:
        np.testing.assert_allclose(one["r_squared"], 1 - one["test_error"])
        np.testing.assert_allclose(one["root_test_error"], spread * np.sqrt(one["test_error"]), rtol=1e-9)


def test_units_do_not_matter(file):
    frame = pd.read_csv(file).head(60)
    scaled = frame.assign(y=7 - 1e-3 * frame["y"], a=1e6 * frame["a"])
    options = {"kernel": "ridge,rbf", "n": "1x,2x"}
    for one, other in zip(
        forecast(frame, "y", **options).methods, forecast(scaled, "y", **options).methods, strict=True
    ):
        np.testing.assert_allclose(one.points.test_error, other.points.test_error, rtol=1e-6)


def test_a_file_a_frame_and_a_pair_of_arrays_agree(file):
    frame = pd.read_csv(file).drop(columns="kind")
    numbers = frame.drop(columns="y")
    from_frame = forecast(frame, "y", kernel="ridge").methods[0].points.test_error
    from_pair = forecast((numbers.to_numpy(), frame["y"].to_numpy()), kernel="ridge").methods[0].points.test_error
    np.testing.assert_allclose(from_frame, from_pair)
    path = file.with_name("numbers.csv")
    frame.to_csv(path, index=False)
    np.testing.assert_allclose(from_frame, forecast(path, "y", kernel="ridge").methods[0].points.test_error, rtol=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(20, 19), (20, 20), (30, 60), (25, 200)])
def test_nothing_is_promised_of_pure_noise_however_many_columns_there_are(rows, columns):
    rng = np.random.default_rng([rows, columns])
    frame = pd.DataFrame(rng.normal(size=(rows, columns))).assign(y=rng.normal(size=rows))
    found = forecast(frame, "y", kernel="ridge,rbf", n="1x,2x")
    for one in found.methods:
        # the mean leaves 1 + 1/rows; the penalty of least leave-one-out error may look better by chance
        assert (one.points.test_error > 0.6).all(), one.name
    assert "determine" not in str(found)
    assert "do not tell whether any method does better than the target's mean" in str(found).replace("\n", " ")


def test_several_targets_are_averaged(file):
    frame = pd.read_csv(file)
    frame["z"] = frame["c"] + np.random.default_rng(1).normal(size=len(frame))
    one, other = (
        forecast(frame.drop(columns=left), kept, kernel="ridge", penalty=5.0).methods[0].points.test_error
        for left, kept in (("z", "y"), ("y", "z"))
    )
    both = forecast(frame, ["y", "z"], kernel="ridge", penalty=5.0)
    np.testing.assert_allclose(both.methods[0].points.test_error, (one + other) / 2, rtol=0.02)
    assert both.as_json()["methods"][0]["root_test_error"] is None


def test_the_page_has_a_sentence_a_table_for_each_method_and_notes(found):
    page = str(found)
    assert "note: one column per value: kind" in page
    assert page.count("  1600  10x") == 3
    for title in ("ridge: linear kernel", "kernel ridge: rbf kernel", "random features: rbf kernel, gamma"):
        assert f"\n{title}" in page
    assert max(map(len, page.splitlines())) <= 140


def test_json_has_what_the_page_has_and_no_nan(file):
    from unlazy.lab.running.dataset import as_json

    answer = forecast(file, "y", kernel="rbf", n="1x,1e9")
    page = json.loads(json.dumps(as_json(answer.as_json()), allow_nan=False))
    assert page["rows"] == 160
    assert page["methods"][0]["in_range"] == [True, False]
    assert page["methods"][0]["test_error"][1] is None
    assert page["methods"][0]["reasons"][1] == "more than 10 times the 160 rows of the table"


def test_the_reach_is_where_reliability_ends(file):
    one = forecast(file, "y", kernel="rbf", penalty=0.02).methods[0]
    assert 0 < one.reach < 10
    ends = one.method.at(160 * np.array([one.reach, 1.12 * one.reach]))
    assert ends.reliable.tolist() == [True, False]
    assert f"reliable up to {one.reach:.2g}x" in str(forecast(file, "y", kernel="rbf", penalty=0.02))


def test_the_figure_shows_every_method(found):
    labels = {text.get_text() for text in found.figure().axes[0].get_legend().get_texts()}
    assert {"ridge", "kernel ridge", "random features"} <= labels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": "2y"}, "n must be numbers of rows or multiples like 2x, got '2y'"),
        ({"n": "-5"}, "n must be finite and > 0.*got -5|n must be > 0.*got -5"),
        ({"kernel": "rbff"}, r"kernel must be one of .*did you mean rbf"),
        ({"kernel": ["rbf", "no"]}, r"kernel must be one of .*got 'no'"),
        ({"penalty": -1.0}, "penalty must be >= 0"),
        ({"gamma": 0.0}, "gamma must be > 0|gamma must be finite and > 0"),
        ({"width": 0}, "width must be an integer >= 1"),
        ({"check": -2}, "check must be an integer >= 1"),
    ],
)
def test_mistakes_are_named(file, options, message):
    with pytest.raises(InputError, match=message):
        forecast(file, "y", **{"kernel": "ridge", **options})


def test_wrong_data_is_named(file):
    with pytest.raises(InputError, match="table must be a file, a DataFrame or a pair"):
        forecast(3, "y")
    with pytest.raises(InputError, match="X and y must have as many rows"):
        forecast((np.ones((30, 2)), np.ones(20)))
    with pytest.raises(InputError, match=r"X must have 1 or 2 dimensions, got shape \(30, 2, 1\)"):
        forecast((np.ones((30, 2, 1)), np.ones(30)))
    with pytest.raises(InputError, match="target must name"):
        forecast(file)
    with pytest.raises(InputError, match="must hold numbers, or two classes"):
        forecast(pd.read_csv(file).assign(kind=list("abcd") * 40), "kind")


def test_two_texts_are_forecast_as_0_and_1(file):
    frame = pd.read_csv(file)
    found = forecast(frame, "kind", kernel="ridge", n="1x,2x")
    same = forecast(frame.assign(kind=(frame["kind"] == "right").astype(int)), "kind", kernel="ridge", n="1x,2x")
    np.testing.assert_array_equal(found.methods[0].points.test_error, same.methods[0].points.test_error)
    assert "note: target 'kind' is 0 for 'left' and 1 for 'right'" in str(found)
    assert found.as_json()["classes"] == {"kind": ["left", "right"]}
