"""`unlazy forecast --columns`: which columns would not be missed."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer, StandardScaler

from unlazy.checks import InputError
from unlazy.diagnostics.forecasting import columns
from unlazy.diagnostics.forecasting.answer import forecast


def houses(n=300, seed=0):
    """A price that depends on size, which area repeats, on the city, and in a curved way on age; colour is nothing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"size": rng.normal(60, 15, n), "age": rng.uniform(0, 80, n)})
    frame["city"] = rng.choice(["Rome", "Oslo", "Bonn"], n)
    frame["colour"] = rng.choice(list("abc"), n)
    frame["area"] = 1.1 * frame["size"] + rng.normal(0, 0.3, n)
    frame["price"] = (
        3 * frame["size"] + 40 * (frame["city"] == "Rome") + 30 * np.sin(frame["age"] / 12) + rng.normal(0, 20, n)
    )
    return frame


@pytest.mark.parametrize("out", [[], [1], [0, 3]])
def test_errors_of_ridge_without_columns_are_those_of_fits_without_each_row(out):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(25, 5)) + 2, rng.normal(size=(25, 1))
    left_out = np.isin(np.arange(5), out)
    found = columns._ridge(x, y, 3.0)(left_out)
    expected = y[:, 0] - cross_val_predict(Ridge(alpha=3.0), x[:, ~left_out], y[:, 0], cv=LeaveOneOut())
    np.testing.assert_allclose(found, expected**2, rtol=1e-8)


def test_errors_of_kernel_ridge_without_columns_are_those_of_fits_without_each_row():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 1))
    out = np.array([False, True, False])
    found = columns._kernel(x, y, 0.5, 0.3)(out)
    kernel = np.exp(-0.3 * ((x[:, None, ~out] - x[None, :, ~out]) ** 2).sum(axis=2))
    expected = np.empty(40)
    for i in range(40):
        kept = np.arange(40) != i
        model = make_pipeline(KernelCenterer(), KernelRidge(alpha=0.5, kernel="precomputed"))
        mean = y[kept].mean()
        model.fit(kernel[np.ix_(kept, kept)], y[kept] - mean)
        expected[i] = (y[i, 0] - mean - model.predict(kernel[i, kept][None]).item()) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_what_matters_is_missed_and_of_two_columns_that_say_the_same_one_stays():
    found = forecast(houses(), "price", kernel="ridge,kernel-ridge", n="1x", columns=True)
    verdicts = {one.columns[0]: one.verdict for one in found.without.alone}
    assert verdicts == {
        "city": "missed",
        "age": "missed",
        "size": "not missed",
        "area": "not missed",
        "colour": "not missed",
    }
    together = set(found.without.together.columns)
    assert "colour" in together
    assert len(together & {"size", "area"}) == 1
    assert found.without.together.high < columns.SMALL_RISE * found.without.error
    page = str(found).replace("\n", " ")
    assert "Not missed, each alone" in page
    assert "Not missed even together" in page


def test_intervals_hold_the_rise_on_new_rows():
    """Ridge with and without a column, trained on many tables and asked about many new rows."""
    rises, held = [], 0
    new = houses(4000, seed=99)
    for seed in range(10):
        frame = houses(200, seed)
        found = forecast(frame, "price", kernel="ridge", n="1x", columns=True)
        penalty, variance = found.methods[0].method.penalty, frame["price"].var(ddof=0)

        def error(kept, frame=frame, penalty=penalty):
            both = pd.get_dummies(pd.concat([frame, new])[kept], drop_first=False).astype(float)
            model = make_pipeline(StandardScaler(), Ridge(alpha=penalty))
            model.fit(both[: len(frame)], frame["price"])
            return np.mean((model.predict(both[len(frame) :]) - new["price"]) ** 2)

        inputs = ["size", "age", "city", "colour", "area"]
        rise = (error([name for name in inputs if name != "city"]) - error(inputs)) / variance
        (one,) = [one for one in found.without.alone if one.columns == ("city",)]
        held += one.low <= rise <= one.high
        rises.append((one.rise, rise))
    told, true = np.mean(rises, axis=0)
    assert told == pytest.approx(true, rel=0.15)
    # 95% intervals: fewer than 8 of 10 with a probability of 1%
    assert held >= 8


def test_the_command_prints_the_table_and_json(unlazy, tmp_path):
    path = tmp_path / "houses.csv"
    houses(120).to_csv(path, index=False)
    words = ["forecast", str(path), "--target", "price", "--kernel", "ridge", "--columns"]
    _, printed, _ = unlazy(*words)
    assert "95% interval" in printed
    assert "missed" in printed
    answer = json.loads(unlazy(*words, "--json")[1])["without"]
    assert answer["method"] == "ridge"
    assert {one["columns"][0] for one in answer["alone"]} == {"size", "age", "city", "colour", "area"}


def test_other_methods_cannot_tell():
    with pytest.raises(InputError, match="columns needs ridge or kernel-ridge"):
        forecast(houses(60), "price", kernel="laplacian", n="1x", columns=True)
