"""`unlazy forecast`: a file in, a sentence and a table out."""

import json

import numpy as np
import pandas as pd
import pytest

from unlazy.diagnostics.forecast import forecast
from unlazy.errors import InputError


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 4))
    signal = np.sin(x[:, 0]) + 0.5 * x[:, 1]
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["kind"] = np.where(x[:, 2] > 0, "left", "right")
    frame["y"] = 100 * (signal + 0.3 * rng.normal(size=160))
    frame["z"] = -frame["y"] / 7 + rng.normal(size=160)
    path = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_the_forecast_is_that_of_training_on_random_parts(file):
    """Twice 40 rows out of 160: the forecast from a part against fits on the whole table."""
    from sklearn.kernel_ridge import KernelRidge

    # without the column that all but repeats the target
    alone = file.with_name("alone.csv")
    pd.read_csv(file).drop(columns="z").to_csv(alone, index=False)
    found = forecast(alone, "y", sizes=[40, 80])
    x, y = found.table.inputs, found.table.targets[:, 0]
    y = (y - y.mean()) / y.std()
    for n, error in zip((40, 80), found.prediction.error, strict=True):
        errors = []
        for seed in range(60):
            order = np.random.default_rng(seed).permutation(len(x))
            model = KernelRidge(alpha=found.curve.ridge, kernel="rbf").fit(x[order[:n]], y[order[:n]])
            errors.append(np.mean((model.predict(x[order[n:]]) - y[order[n:]]) ** 2))
        assert error == pytest.approx(np.mean(errors), rel=0.05)
        assert 1.2 * error != pytest.approx(np.mean(errors), rel=0.05)


def test_errors_are_shares_of_the_variance_whatever_the_units(file):
    found = forecast(file, "y", sizes="1x")
    np.testing.assert_allclose(found.prediction.r2, 1 - found.prediction.error, rtol=1e-9)


def test_several_targets_are_averaged(file):
    one, other, both = (forecast(file, t, ridge=0.5, sizes="1x").prediction.error[0] for t in ("y", "z", ["y", "z"]))
    assert forecast(file, ["y", "z"], ridge=0.5, sizes="1x").targets == ("y", "z")
    # each of the two is an input of the other's forecast
    assert min(one, other) < both


def test_the_page_has_a_sentence_a_table_and_notes(file):
    page = str(forecast(file, "y", sizes="0.5x,1x,2x"))
    assert "with twice the rows the error should fall from" in page
    assert "note: one column per value: kind" in page
    assert [line.split()[0] for line in page.splitlines()[-3:]] == ["80", "160", "320"]


def test_json_has_what_the_page_has(file):
    from unlazy.lab.dataset import as_json

    found = json.loads(json.dumps(as_json(forecast(file, "y", sizes="1x,1e9").as_json()), allow_nan=False))
    assert found["rows"] == 160
    assert found["in_range"] == [True, False]
    assert found["error"][1] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": "2y"}, "sizes must be numbers of rows or multiples like 2x, got '2y'"),
        ({"sizes": "-5"}, "sizes must be finite and > 0, got -5|sizes must be > 0, got -5"),
        ({"kernel": "rbff"}, r"kernel must be one of .*did you mean rbf"),
        ({"ridge": -1.0}, "ridge must be >= 0"),
    ],
)
def test_mistakes_are_named(file, options, message):
    with pytest.raises(InputError, match=message):
        forecast(file, "y", **options)
