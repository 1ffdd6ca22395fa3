import math

import numpy as np
import pytest

from unlazy.words import brief, first_of, in_one_line, listed, number, plain, shown


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x9b31mred", r"\x9b31mred"),
        ("kept\rgone", r"kept\rgone"),
        ("abc\u202egpj.exe", r"abc\u202egpj.exe"),
        ("\u2066a\u2069\u200f\u2028", r"\u2066a\u2069\u200f\u2028"),
        ("\udcff\x00\x7f\x85", r"\udcff\x00\x7f\x85"),
        ("two\nlines\tand é – 中", "two\nlines\tand é – 中"),
    ],
)
def test_text_of_others_commands_no_terminal(text, said):
    assert plain(text) == said
    assert plain(said) == said


def test_a_line_is_one_line_and_not_longer_than_people_read():
    assert in_one_line(" a\n\n  b\r\nc\x1b[2J\u2028d ") == r"a b c\x1b[2J d"
    long = in_one_line("begin " + "x" * 10_000 + " end")
    assert len(long) < 1000
    assert long.startswith("begin x")
    assert long.endswith("x end")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.ones((3, 400)), "a ndarray of shape (3, 400)"),
        ([0] * 100, "a list of 300 characters"),
        pytest.param(10**5000, "a int", id="long"),
        ("\x1b", r"'\x1b'"),
    ],
)
def test_a_value_is_said_in_a_short_line(value, said):
    assert brief(value) == said
