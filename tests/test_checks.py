"""Messages for wrong input."""

import numpy as np
import pytest

from unlazy import theory
from unlazy.checks import (
    InputError,
    check_array,
    check_choice,
    check_flag,
    check_known,
    check_signs,
    check_whole,
    common_shape,
    suggest,
)


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
        ([1.0], {"above": 0, "below": 1}, "x must be > 0 and < 1, got 1"),
        ([3.0, 2.5], {"low": 0, "whole": True}, "x must be whole and >= 0, got 2.5"),
        (10**400, {}, "x must be numeric, got a int of 401 characters"),
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


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), np.array(3), np.array(3.0)])
def test_whole_numbers_come_back_as_int(value):
    found = check_whole("n", value, 1, 5)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [2.5, np.nan, np.inf, "3", True, np.bool_(True), None, [3], 3j])
def test_what_is_not_whole_is_refused(value):
    with pytest.raises(InputError, match="n must be an integer >= 1 and <= 5, got "):
        check_whole("n", value, 1, 5)


def test_whole_numbers_have_bounds_and_keep_all_digits():
    assert check_whole("n", 10**30 + 1, 0) == 10**30 + 1
    with pytest.raises(InputError, match="n must be an integer >= 2, got 1"):
        check_whole("n", 1, 2)
    with pytest.raises(InputError, match="n must be an integer >= 2 and <= 3, got 4"):
        check_whole("n", 4.0, 2, 3)


def test_estimators_take_no_float_for_a_whole_number():
    assert check_whole("cv", np.int64(3), 2, floats=False) == 3
    with pytest.raises(InputError, match=r"cv must be an integer >= 2 and <= 1000000, got 3\.0"):
        check_whole("cv", 3.0, 2, 10**6, floats=False)


def test_of_a_traced_number_only_the_shape_is_checked():
    import jax
    import jax.numpy as jnp

    def judged(value):
        return check_known("rate", value, ndim=0, above=0)

    assert jax.jit(judged)(-1.0) == -1.0
    assert judged(2.0) == 2.0
    with pytest.raises(InputError, match="rate must be > 0, got -1"):
        judged(-1.0)
    for vector in (lambda: judged(jnp.ones(2)), lambda: jax.jit(judged)(jnp.ones(2))):
        with pytest.raises(InputError, match=r"rate must have 0 dimension\(s\), got shape \(2,\)"):
            vector()


def test_signs_and_truth_values_are_nothing_else():
    assert check_signs("labels", [1, -1]).tolist() == [1.0, -1.0]
    with pytest.raises(InputError, match="labels must be 1 or -1, got 0"):
        check_signs("labels", [1, 0])
    assert check_flag("reuse", np.bool_(True)) is True
    with pytest.raises(InputError, match="reuse must be True or False, got 1"):
        check_flag("reuse", 1)


def test_sizes_that_do_not_fit_say_how_to_get_a_grid():
    line = (
        r"^n has 3 values and ridge 2: give arrays that broadcast, e\.g\. n\[:, None\] and ridge\[None, :\] for a grid$"
    )
    with pytest.raises(InputError, match=line):
        common_shape(noise=np.ones(1), n=np.ones(3), ridge=np.ones(2))
    with pytest.raises(InputError, match=r"^n has the shape \(3, 2\) and ridge \(4,\): give arrays that broadcast"):
        common_shape(n=np.ones((3, 2)), ridge=np.ones(4))
    n, ridge = np.ones(3), np.ones(2)
    assert common_shape(n=n[:, None], ridge=ridge[None, :]) == (3, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: theory.one_step_risk("erf", "erf", a, 1.0, b, 0.1),
        lambda a, b: theory.ridge_equivalent([1.0, 2.0], 1.0, a, b, 0.1),
        lambda a, b: theory.kernel_regression_equivalent([1.0], [1.0], a, b, 0.1),
        lambda a, b: theory.slope_bound(a, b, 1.0),
        lambda a, b: theory.escape_slope(a, b),
        lambda a, b: theory.log_sobolev_bound(a, b),
        lambda a, b: theory.guaranteed_decay_rate(a, b),
        lambda a, b: theory.uniform_in_time_bound(a, b, 0.1, 3),
        lambda a, b: theory.optimal_batch_size(a, b, 1.0, 0.1),
        lambda a, b: theory.batch_variance(a, b, 1.0),
        lambda a, b: theory.additive_spread("He3", a[:, None] / 5, b),
    ],
)
def test_theory_refuses_sizes_that_do_not_fit_in_the_same_line(call):
    with pytest.raises(InputError, match=r"has 3 values and \w+ 2: give arrays that broadcast"):
        call(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    "value", [np.array(["mse", "hinge"]), ["mse"], {"mse"}, b"mse", pytest.param(10**5000, id="long"), "m" * 10_000]
)
def test_what_is_no_name_is_no_choice_and_is_said_briefly(value):
    with pytest.raises(InputError, match="loss must be one of mse, hinge; got ") as caught:
        check_choice("loss", value, ("mse", "hinge"))
    assert len(str(caught.value)) < 200


def test_messages_are_one_line_whatever_they_quote():
    assert str(InputError("store \x1b]0;x\x07 is\n  damaged:\r\n no such table")) == (
        "store \\x1b]0;x\\x07 is damaged: no such table"
    )
    assert len(str(InputError(f"x must be small, got {np.arange(1000.0)!r}"))) < 1100
    with pytest.raises(InputError, match="n must be an integer >= 1 and <= 5, got a int"):
        check_whole("n", 10**5000, 1, 5)


def test_lists_of_different_lengths_are_no_array():
    with pytest.raises(InputError, match=r"x must be numeric, got \[\[1, 2\], \[3\]\]"):
        check_array("x", [[1, 2], [3]])
