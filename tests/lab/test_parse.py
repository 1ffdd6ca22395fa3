"""Values from text."""

import pytest

from unlazy.checks import InputError
from unlazy.lab.parse import parse_over, parse_set
from unlazy.lab.registry import find

RIDGE, LAZY = find("ridge-equivalent"), find("lazy-vs-feature")


def test_values_are_read_by_the_type_of_their_parameter():
    assert parse_set(RIDGE, ["n=1e3", "noise_variance=.25"]) == {"n": 1000, "noise_variance": 0.25}
    assert parse_set(LAZY, ["activation=relu"]) == {"activation": "relu"}
    assert parse_set(RIDGE, ["ridge=0.1"]) == {"ridge": (0.1,)}
    assert parse_set(RIDGE, ["noise-variance=1"]) == {"noise_variance": 1.0}


def test_lists_and_ranges_mix():
    assert parse_over(RIDGE, ["ridge=0,0.1:1:2,5"]) == {"ridge": [0.0, 0.1, 1.0, 5.0]}


def test_ranges_follow_the_scale_of_the_parameter_unless_told_otherwise():
    assert parse_over(LAZY, ["width=64:1024:5"]) == {"width": [64, 128, 256, 512, 1024]}
    assert parse_over(LAZY, ["width=64:128:3:lin"]) == {"width": [64, 96, 128]}
    assert parse_over(RIDGE, ["noise_variance=0:1:3"]) == {"noise_variance": [0.0, 0.5, 1.0]}
    assert parse_over(RIDGE, ["noise_variance=0.01:1:3:log"]) == {"noise_variance": [0.01, 0.1, 1.0]}


def test_integer_ranges_are_rounded_without_repeats_and_may_fall():
    assert parse_over(LAZY, ["width=2:4:9"]) == {"width": [2, 3, 4]}
    assert parse_over(LAZY, ["width=8:2:3:lin"]) == {"width": [8, 5, 2]}


@pytest.mark.parametrize(
    ("read", "entry", "message"),
    [
        (parse_set, "n", "must be name=value, got 'n'"),
        (parse_set, "n=", "must be name=value"),
        (parse_set, "=3", "no parameter ''"),
        (parse_set, "m=3", "no parameter 'm'"),
        (parse_set, "n=__import__('os')", "n must be an integer"),
        (parse_set, "n=10,20", "n must be an integer"),
        (parse_over, "n=1:5", "start:stop:steps"),
        (parse_over, "n=1:5:0", "start:stop:steps"),
        (parse_over, "n=1:5:x", "start:stop:steps"),
        (parse_over, "n=1,,2", "empty entry"),
        (parse_over, "ridge=0:1:5", "ends > 0"),
        (parse_over, "ridge=-1:1:5:lin", "ridge must be a number >= 0"),
        (parse_over, "ridge=nan", "ridge must be a number"),
        (parse_over, "noise_variance=1:2:99999999999999999999", "steps >= 1 and <= 10000000, got"),
        (parse_over, f"noise_variance=1:2:{'9' * 5000}", "steps >= 1 and <= 10000000, got a str of 500"),
        (parse_over, "ridge=0.1:1:99999999", "steps >= 1 and <= 10000000, got"),
        (parse_over, "ridge=0.1:1:6000000,1.1:2:6000000", "ridge must have at most 10000000 values, got 12000000"),
        (parse_set, "n=" + "9" * 5000, "n must be an integer >= 1"),
    ],
)
def test_wrong_text_gets_one_clear_line(read, entry, message):
    with pytest.raises(InputError, match=message) as caught:
        read(RIDGE, [entry])
    assert "\n" not in str(caught.value)


def test_a_parameter_given_twice_is_refused():
    with pytest.raises(InputError, match="'n' twice"):
        parse_set(RIDGE, ["n=1", "n=2"])


def test_the_points_of_several_ranges_are_counted_together_before_they_are_made():
    """Each of the axes alone would be made."""
    with pytest.raises(InputError, match="a grid must have at most 10000000 points, got 100000000000000") as caught:
        parse_over(RIDGE, ["noise_variance=0:1:10000000", "prior_exponent=0:1:10000000"])
    assert "\n" not in str(caught.value)
    # No more integers than there are between the ends.
    assert len(parse_over(RIDGE, ["n=1:4:9000000", "noise_variance=0:1:100"])["n"]) == 4
