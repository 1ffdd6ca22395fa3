"""Tables with text, dates and gaps as columns of numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.data.table_encoder import TableEncoder


@parametrize_with_checks([TableEncoder(), TableEncoder("robust")])
def test_encoder_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def test_columns_of_every_kind():
    frame = pd.DataFrame(
        {
            "age": [10.0, 20.0, np.nan, 30.0, np.inf, 20.0],
            "city": ["Rome", "Rome", "Rome", "Oslo", None, None],
            "member": [True, False, True, True, False, False],
            "since": pd.to_datetime(["2020-01-01", "2021-01-01", "2022-07-02", "2023-01-01", None, "2024-01-01"]),
            "empty": [np.nan] * 6,
            "one": ["x"] * 6,
            "id": list("abcdef"),
            "rare": ["p", "p", "q", "q", "r", "r"],
        }
    )
    encoder = TableEncoder(least_count=3)
    found = encoder.set_output(transform="pandas").fit_transform(frame)
    assert encoder.left_out_ == {
        "empty": "it has no values",
        "one": "it is constant",
        "id": "it has another text in most rows",
        "rare": "its levels are rare",
    }
    np.testing.assert_allclose(found["age"], (np.array([10, 20, 20, 30, 20, 20]) - 20) / np.std([10, 20, 30, 20]))
    assert found["age is missing"].tolist() == [0, 0, 1, 0, 1, 0]
    assert found["city = Rome"].tolist() == [1, 1, 1, 0, 0, 0]
    assert "city = Oslo" not in found
    assert np.unique(found["member"]).size == 2
    days = np.array([0, 366, 366 + 365 + 182, 366 + 730, np.nan, 366 + 730 + 365])
    expected = (days - np.nanmean(days)) / np.nanstd(days)
    np.testing.assert_allclose(found["since"], np.nan_to_num(expected), atol=1e-12)
    winter, summer = found["cosine of the time of the year of since"].iloc[[0, 2]]
    assert winter == pytest.approx(1, abs=0.01)
    assert summer == pytest.approx(-1, abs=0.01)
    # by column: which of the table's a column comes from
    assert [frame.columns[place] for place in encoder.sources_][:3] == ["age", "age", "city"]


def test_levels_that_fit_has_not_seen_are_none_of_those_it_has():
    frame = pd.DataFrame({"a": ["u", "v", "w"] * 5, "b": np.arange(15.0)})
    encoder = TableEncoder().fit(frame)
    new = encoder.transform(pd.DataFrame({"b": [1.0, np.nan], "a": ["new", None]}))
    np.testing.assert_array_equal(new[:, :3], 0)
    # a gap where there was none is the centre
    assert new[1, 3] == 0


def test_robust_numbers_are_bounded():
    values = np.r_[np.random.default_rng(0).standard_normal(99), 1e9]
    found = TableEncoder("robust").fit_transform(values[:, None])[:, 0]
    assert found.max() <= 3
    np.testing.assert_array_equal(np.argsort(found), np.argsort(values))


def test_text_that_is_dates_and_objects_that_are_numbers_are_known_as_such():
    days = pd.Series(pd.date_range("2020-01-01", periods=30, freq="40D"))
    numbers = [1, 2.5, True] * 10
    plain = pd.DataFrame({"day": days, "number": np.array(numbers, dtype=float)})
    words = pd.DataFrame({"day": days.dt.strftime("%Y-%m-%d"), "number": pd.Series(numbers, dtype=object)})
    objects = words.assign(day=pd.Series([day.date() for day in days], dtype=object))
    expected = TableEncoder().fit_transform(plain)
    for frame in (words, objects):
        encoder = TableEncoder().fit(frame)
        np.testing.assert_allclose(encoder.transform(frame), expected)
        assert "dates are taken as days: day" in encoder.notes()
    times = days.dt.strftime("%Y-%m-%dT00:00:00Z")
    np.testing.assert_allclose(encoder.transform(words.assign(day=times)), expected)
    spans = TableEncoder().fit_transform(pd.DataFrame({"span": days - days[0]}))
    np.testing.assert_allclose(spans[:, 0], expected[:, 0])


def test_of_many_levels_the_most_common_have_columns():
    rng = np.random.default_rng(0)
    words = np.concatenate(
        [np.repeat([f"common {i}" for i in range(90)], 9), np.repeat([f"rarer {i}" for i in range(60)], 4)]
    )
    encoder = TableEncoder().fit(pd.DataFrame({"word": rng.permutation(words)}))
    names = encoder.get_feature_names_out()
    assert len(names) == 100
    assert sum("common" in name for name in names) == 90


def test_columns_without_names_go_by_their_places():
    frame = pd.DataFrame([[1.0, "a"], [2.0, "b"], [3.0, "a"]] * 3)
    encoder = TableEncoder().fit(frame)
    other = frame.rename(columns={0: 10, 1: 11})
    np.testing.assert_array_equal(encoder.transform(other), encoder.transform(frame))


def test_notes_tell_what_was_done():
    frame = pd.DataFrame({"gap": [1.0, np.inf, 3.0, 4.0], "none": [None] * 4, "word": ["a", "a", "b", "b"]})
    assert TableEncoder(least_count=2).fit(frame).notes() == [
        "infinite values count as gaps: gap",
        "columns that have no values are left out: none",
        "gaps are filled with the mean and marked: gap",
        "one column per value: word",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TableEncoder("big").fit([[1.0], [2.0]]), "scaling must be"),
        (lambda: TableEncoder(least_count=0).fit([[1.0], [2.0]]), "least_count must be"),
        (lambda: TableEncoder().fit(pd.DataFrame({"a": [1, 1]})), "X must have a column with different values"),
        (lambda: TableEncoder().fit(pd.DataFrame({"a": [1e200, 1]})), "column 'a' must be between"),
        (
            lambda: TableEncoder().fit(pd.DataFrame({"a": [1, 2]})).transform(pd.DataFrame({"b": [1]})),
            "got none called 'a'",
        ),
        (
            lambda: TableEncoder().fit(pd.DataFrame({"a": [[1], [2]]})),
            "column 'a' must hold numbers or text, got a list in a cell",
        ),
        (
            lambda: TableEncoder().fit(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])),
            "column names of X must differ, got 'a' more than once",
        ),
        (
            lambda: (
                TableEncoder()
                .fit(pd.DataFrame({"a": pd.date_range("2020-01-01", periods=3)}))
                .transform(pd.DataFrame({"a": ["x"]}))
            ),
            "column 'a' must hold dates as in fit",
        ),
        (
            lambda: TableEncoder().fit(pd.DataFrame({"a": [1, 2]})).transform(pd.DataFrame({"a": ["x"]})),
            "column 'a' must hold numbers as in fit",
        ),
    ],
)
def test_bad_input_is_one_line(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
