import math

import numpy as np
import pytest

from unlazy.words import first_of, listed, number, shown


@pytest.mark.parametrize(
    ("value", "options", "said"),
    [
        (0.123456, {}, "0.1235"),
        (1234567.0, {}, "1.235e+06"),
        (1234567, {}, "1234567"),
        (np.float64(0.5), {"decimals": 3}, "0.500"),
        (2.5, {"digits": 6}, "2.5"),
        (math.nan, {}, "–"),
        (math.nan, {"missing": "undefined"}, "undefined"),
        ("tanh", {}, "tanh"),
    ],
)
def test_numbers_have_the_digits_that_people_read(value, options, said):
    assert number(value, **options) == said


def test_lists_end_in_and_or_in_an_ellipsis():
    assert [listed(list("abc")[:count]) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
    assert first_of([1, 2, 3], 3) == "1, 2, 3"
    assert first_of([1, 2, 3], 2) == "1, 2, ..."
    assert shown([0.1, 1e-9, 3]) == "0.1, 1e-09, 3"
    assert shown(range(9)) == "0, 1, …, 8"
