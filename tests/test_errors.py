"""Messages for wrong input."""

import numpy as np
import pytest

from unlazy.errors import InputError, check_array, check_choice, suggest


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ("abc", {}, "x must be numeric, got 'abc'"),
        ([[1.0]], {"ndim": 1}, r"x must have 1 dimension\(s\), got shape \(1, 1\)"),
        ([], {}, "x must not be empty"),
        ([1, np.nan], {}, "x must be finite, got nan"),
        ([1, np.inf], {"low": 0}, "x must be finite and >= 0, got inf"),
        ([1, -2], {"low": 0}, "x must be >= 0, got -2"),
        ([0.0], {"above": 0}, "x must be > 0, got 0"),
        ([3.0], {"low": 0, "high": 2}, "x must be >= 0 and <= 2, got 3"),
    ],
)
def test_arrays_are_refused_with_name_value_and_bounds(value, options, message):
    with pytest.raises(InputError, match=message):
        check_array("x", value, **options)


def test_good_arrays_come_back_as_floats():
    assert check_array("x", [1, 2], low=1, high=2).dtype == np.float64


def test_choices_name_what_is_allowed_and_what_was_meant():
    assert check_choice("loss", "mse", ("mse", "hinge")) == "mse"
    with pytest.raises(InputError, match=r"loss must be one of mse, hinge; got 'hinje' \(did you mean hinge\?\)"):
        check_choice("loss", "hinje", ("mse", "hinge"))


def test_nothing_is_suggested_where_nothing_is_near():
    assert suggest("zzz", ["ridge", "width"]) == ""
