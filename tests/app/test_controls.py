"""Sliders stand only where their parameter may stand."""

import itertools

import pytest

from unlazy.app.choices import parts
from unlazy.app.controls import control, steps
from unlazy.lab import registry
from unlazy.lab.parameters import Parameter
from unlazy.lab.parse import parse_set


def number(default, **options):
    fields = {
        "kind": "value", "label": "a number", "symbol": "", "low": None, "high": None, "above": None, "choices": None,
        "scale": "linear", "paired": False, "name": "a",
    }  # fmt: skip
    return Parameter(default=default, **(fields | options))


@pytest.mark.parametrize("topic", registry.topics())
def test_every_control_of_every_study_can_take_its_value(topic):
    for study in registry.all_studies([topic]):
        points = [point for grid in parts(study).values() for point in grid.points()]
        seen = {entry for point in points for entry in point.items()}
        for name, value in seen:
            parameter = study.parameter(name)
            made = control(parameter, value)
            if made.kind == "slider":
                assert value in made.options
                assert len(made.options) > 1
                assert [parameter.coerce(v) for v in made.options] == sorted(set(made.options))
            elif made.kind == "choice":
                assert value in made.options
            elif made.kind == "text" and parameter.kind == "path":
                assert parse_set(study, [f"{name}={made.value}"]) == {name: value}
            else:
                assert made.value == value


def test_a_narrow_range_is_covered_from_end_to_end():
    found = steps(number(0.5, low=0, high=1), 0.3)
    assert (found[0], found[-1]) == (0.0, 1.0)
    assert {0.3, 0.5} <= set(found)


def test_a_wide_range_is_spaced_geometrically_with_zero_where_it_is_allowed():
    found = steps(number(0.01, low=0, high=100), 0.01)
    assert found[0] == 0.0
    assert found[1] < 0.001
    assert found[-1] > 0.1
    ratios = [b / a for a, b in itertools.pairwise(found[1:])]
    assert max(ratios) < 1.6
    assert steps(number(0.01, above=0, high=100), 0.01)[0] > 0


def test_integers_stay_integers_within_their_bounds():
    found = steps(number(4, low=1, high=8), 4)
    assert found == list(range(1, 9))
    assert all(type(v) is int for v in found)


def test_a_number_without_bounds_can_change_its_sign():
    found = steps(number(1.0), 1.0)
    assert found[0] < 0 < found[-1]


def test_values_of_presets_are_among_the_positions():
    assert {0.123, 7.0} <= set(steps(number(1.0, above=0, scale="log"), 1.0, known=(0.123, 7.0)))
