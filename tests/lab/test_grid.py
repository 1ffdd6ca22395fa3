"""Grids: presets, fixed parameters, axes."""

from dataclasses import dataclass

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.lab import Output, Study, path, registry, static, value
from unlazy.lab.grid import default_grid, preset_grids


@dataclass(frozen=True)
class Example(Study):
    name = "example"
    question = "?"
    sources = ()
    n: int = static(10, "samples", low=1, high=1000, scale="log")
    d: int = static(20, "dimension", low=1)
    noise: float = value(0.5, "noise", low=0)
    kind: str = static("a", "kind", choices=("a", "b"))
    on: bool = static(True, "switch")
    ridge: tuple = path((0.1, 1.0), "ridge", low=0, scale="log")
    outputs = {"y": Output("y", dims=("ridge",))}
    presets = {
        "quick": {("n", "d"): [(10, 100), (20, 400)], "noise": [0.0, 1.0], "ridge": [0.1, 0.2], "seeds": 3},
        "parts": {"first": {"n": [1, 2]}, "second": {"noise": [0.1]}},
    }

    def simulate(self, rng):
        return {}


def test_points_are_the_product_of_the_axes_with_zipped_parameters_together():
    grid = preset_grids(Example, "quick")["main"]
    assert grid.shape == (2, 2)
    assert grid.seeds == 3
    points = list(grid.points())
    assert [(p["n"], p["d"], p["noise"]) for p in points] == [(10, 100, 0), (10, 100, 1), (20, 400, 0), (20, 400, 1)]
    assert all(p["ridge"] == (0.1, 0.2) and p["kind"] == "a" for p in points)


def test_a_preset_with_parts_has_a_grid_for_each():
    grids = preset_grids(Example, "parts", seeds=7)
    assert list(grids) == ["first", "second"]
    assert [g.seeds for g in grids.values()] == [7, 7]


def test_a_fixed_axis_of_the_preset_stays_a_dimension_of_length_one():
    grid = preset_grids(Example, "quick", set={"noise": 0.25})["main"]
    assert [axis.dim for axis in grid.axes] == ["n", "noise"]
    assert grid.axes[1].rows == ((0.25,),)
    assert not grid.added


def test_fixing_one_of_the_zipped_parameters_keeps_the_others_and_merges_equal_rows():
    grid = preset_grids(Example, "quick", set={"d": 50})["main"]
    assert grid.axes[0].rows == ((10, 50), (20, 50))
    both = preset_grids(Example, "quick", set={"d": 50, "n": 5})["main"]
    assert both.axes[0].rows == ((5, 50),)


def test_an_axis_for_a_zipped_parameter_takes_it_out_of_the_zip():
    grid = preset_grids(Example, "quick", over={"d": [1, 2, 3]})["main"]
    assert {axis.names: len(axis.rows) for axis in grid.axes} == {("n",): 2, ("noise",): 2, ("d",): 3}
    assert not grid.added


def test_axes_that_the_preset_does_not_have_are_marked_as_added():
    assert preset_grids(Example, "quick", over={"kind": ["a", "b"]})["main"].added == ("kind",)


def test_over_a_path_fills_the_path_and_adds_no_axis():
    grid = default_grid(Example, over={"ridge": [0.5, 0.25]})
    assert grid.axes == ()
    assert grid.fixed["ridge"] == (0.5, 0.25)


def test_values_get_one_canonical_form():
    point = next(default_grid(Example, set={"noise": 0.1 + 0.2, "n": 5.0, "on": "false"}).points())
    assert point["noise"] == 0.3
    assert point["n"] == 5
    assert isinstance(point["n"], int)
    assert point["on"] is False
    assert str(next(default_grid(Example, set={"noise": -0.0}).points())["noise"]) == "0.0"


def test_a_denser_grid_keeps_the_points_and_spaces_the_rest_by_the_scale():
    grid = preset_grids(Example, "parts", over={"n": [1, 10, 100]})["first"]
    dense = grid.denser("n", 31)
    values = dense.axes[0].column("n")
    assert {1, 10, 100} <= set(values)
    assert values == sorted(set(values))
    assert sum(v <= 10 for v in values) > len(values) / 4
    assert dense.fixed == grid.fixed
    assert len(default_grid(Example, over={"ridge": [0, 0.1, 1]}).denser("ridge", 20).fixed["ridge"]) == 21


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set": {"m": 1}}, "no parameter 'm'"),
        ({"set": {"noize": 1}}, "did you mean noise"),
        ({"set": {"n": 0}}, "n must be an integer >= 1 and <= 1000, got 0"),
        ({"set": {"n": 2.5}}, "n must be an integer"),
        ({"set": {"n": True}}, "n must be an integer"),
        ({"set": {"noise": float("nan")}}, "noise must be a number >= 0, got nan"),
        ({"set": {"noise": float("inf")}}, "noise must be a number >= 0, got inf"),
        ({"set": {"noise": "x"}}, "noise must be a number"),
        ({"set": {"noise": None}}, "noise must be a number"),
        ({"set": {"kind": "c"}}, "kind must be one of a, b"),
        ({"set": {"on": 2}}, "on must be true or false"),
        ({"over": {"n": []}}, "axis n is empty"),
        ({"over": {"n": [1, 1.0]}}, "axis n repeats a value"),
        ({"over": {"ridge": []}}, "ridge must have at least one value"),
        ({"over": {"ridge": [1, 1]}}, "ridge must not repeat a value"),
        ({"set": {"n": 1}, "over": {"n": [1]}}, "both as one value and as an axis"),
        ({"seeds": 0}, "seeds must be an integer >= 1"),
        ({"seeds": 1.5}, "seeds must be an integer >= 1"),
    ],
)
def test_wrong_grids_say_what_is_allowed(options, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        preset_grids(Example, "quick", **options)


def test_an_unknown_preset_names_the_known_ones():
    with pytest.raises(InputError, match="preset must be one of quick, parts"):
        preset_grids(Example, "slow")


def test_a_point_is_found_by_its_number():
    grid = preset_grids(Example, "quick", over={"kind": ["a", "b"]})["main"]
    assert [grid.point(index) for index in range(grid.size)] == list(grid.points())


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"noise": range(10**7 + 1)}, "noise must have at most 10000000 values, got 10000001"),
        ({"noise": range(10**20)}, r"noise must have at most 10000000 values, got range\(0, 1"),
        ({"ridge": range(10**20)}, "ridge must have at most 10000000 values"),
        ({"noise": range(10**4), "d": range(1, 10**4)}, "a grid must have at most 10000000 points, got 99990000"),
        ({"noise": {1, 2}}, "noise must be a value or a list of values, got {1, 2}"),
        ({"ridge": {1, 2}}, "ridge must be a value or a list of values, got {1, 2}"),
        ({"ridge": (v for v in (1, 2))}, "ridge must be a value or a list of values, got <generator"),
        ({"noise": b"12"}, "noise must be a value or a list of values, got b'12'"),
        ({"noise": [[1], [2]]}, r"noise must be a number >= 0, got \[1\]"),
        ({"noise": np.array([[1.0], [2.0]])}, r"noise must be a number >= 0, got array\(\[1.\]\)"),
        ({"noise": [1, [2, 3]]}, r"noise must be a number >= 0, got \[2, 3\]"),
        ({"noise": None}, "noise must be a value or a list of values, got None"),
        ({"d": [10**400]}, "d must be an integer >= 1, got"),
        ({"d": [10**5000]}, "d must be an integer >= 1, got a int"),
        ({"d": [2**53 + 1]}, "d must be below 2\\^53 in size, got 9007199254740993"),
        ({"kind": [["a"]]}, r"kind must be one of a, b; got \['a'\]"),
        ({3: [1]}, "example has no parameter 3"),
    ],
)
def test_a_grid_is_counted_before_it_is_made_and_no_axis_is_guessed(over, message):
    with pytest.raises(InputError, match=message) as caught:
        preset_grids(Example, "parts", over=over)
    assert "\n" not in str(caught.value)


def test_the_seeds_of_all_points_are_counted_too():
    with pytest.raises(InputError, match="at most 100000000 instances, got 500 points with 1000000 seeds"):
        preset_grids(Example, "parts", over={"n": range(1, 501)}, seeds=10**6)


def test_a_list_is_no_single_value():
    with pytest.raises(InputError, match=r"d must be an integer >= 1, got \[1, 2\]"):
        default_grid(Example, set={"d": [1, 2]})


@pytest.mark.parametrize("values", [np.arange(3), range(3), (0, 1, 2), [np.float32(0), np.int64(1), 2.0]])
def test_lists_ranges_and_arrays_are_axes(values):
    assert default_grid(Example, over={"noise": values}).axes[0].column("noise") == [0.0, 1.0, 2.0]


def test_one_part_of_a_preset_is_the_same_grid_alone():
    study = registry.find("ridge-equivalent")
    every = preset_grids(study, "quick")
    assert len(every) > 1
    for name, grid in every.items():
        assert preset_grids(study, "quick", part=name) == {name: grid}
    with pytest.raises(InputError, match=r"part must be one of sizes, ridges; got 'size' .did you mean sizes"):
        preset_grids(study, "quick", part="size")
