"""Reports take tables as they are: with text, dates and gaps they say what they say of the encoded columns."""

import numpy as np
import pandas as pd
import pytest

from unlazy.data.encoding import encode_table
from unlazy.data.table_encoder import TableEncoder
from unlazy.diagnostics import (
    LearningCurve,
    forecast_overfit,
    index_report,
    kernel_structure_test,
    loo_path,
    ridge_report,
)

RNG = np.random.default_rng(0)
N = 80
FRAME = pd.DataFrame({f"x{i}": RNG.standard_normal(N) for i in range(40)})
FRAME["colour"] = RNG.choice(["red", "green", "blue"], N)
FRAME["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), "D")
FRAME.loc[4, "x1"] = np.nan
Y = FRAME["x0"].to_numpy() + RNG.standard_normal(N)
LABELS = np.where(np.median(Y) < Y, "high", "low")

REPORTS = {
    "ridge_report": lambda X: ridge_report(X, Y).loo_error,
    "ridge_report with more rows": lambda X: ridge_report(X, Y, unlabelled=X[:20]).loo_error,
    "LearningCurve": lambda X: LearningCurve("rbf", penalty=1.0).fit(X, Y).predict(n=40).test_error,
    "loo_path": lambda X: loo_path(X, LABELS, [0.1, 1.0]).loo_log_loss,
    "forecast_overfit": lambda X: forecast_overfit(X, LABELS).test_error,
    "kernel_structure_test": lambda X: str(kernel_structure_test(X, null_draws=9)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("report", REPORTS)
def test_reports_see_the_columns_of_the_encoder(report):
    encoded = TableEncoder().fit(FRAME).transform(FRAME)
    np.testing.assert_array_equal(REPORTS[report](FRAME), REPORTS[report](encoded))


def test_index_report_sees_the_columns_of_the_encoder():
    few = FRAME[["x0", "x1", "x2", "colour"]]
    found, expected = (index_report(X, Y, permutations=39) for X in (few, TableEncoder().fit_transform(few)))
    assert str(found) == str(expected)


def test_arrays_and_tables_of_numbers_are_left_as_they_are():
    array = RNG.standard_normal((5, 2))
    found, encoder = encode_table(array)
    assert found is array
    assert encoder is None
    numbers = pd.DataFrame({"a": [1, 2, 3], "b": [True, False, True], "c": pd.array([1, 2, 3], dtype="Int64")})
    assert encode_table(numbers)[0] is numbers
    for column in ([1.0, np.nan, 2.0], [1.0, np.inf, 2.0], ["u", "v", "u"], pd.date_range("2024-01-01", periods=3)):
        assert encode_table(numbers.assign(b=column))[1] is not None
