"""The theory's lines have more values around peaks, and are the theory everywhere."""

from dataclasses import dataclass

import numpy as np
import pytest

from unlazy.lab import Output, Study, path, value
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.dataset import predict_points
from unlazy.lab.running.lines import around_peaks, lines


@dataclass(frozen=True)
class Poles(Study):
    """Poles at a = b and at t = 1/3, and outputs that have only one of both axes."""

    question = "Where is it infinite?"
    sources = ()
    a: float = value(1.0, "a number", low=0, high=4)
    b: float = value(1.0, "another", low=0)
    t: tuple = path((0.0, 0.5, 1.0), "place")
    outputs = {"y": Output("y"), "z": Output("z", dims=("t",)), "flat": Output("a rounded top")}
    lines = {"main": "a"}
    presets = {
        "quick": {
            "main": {"a": [0.0, 2.0, 4.0], "b": [1.37, np.pi]},
            "alone": {"seeds": 1},
            "zipped": {("a", "b"): [(0.0, 1.0), (2.0, 1.5), (4.0, 0.5)]},
        }
    }

    def simulate(self, rng):
        return {"y": 1.0, "z": np.ones(len(self.t))}

    def predict(self):
        with np.errstate(divide="ignore"):
            return {
                "y": 1 / np.abs(self.a - self.b),
                "z": self.a + 1 / np.abs(np.array(self.t) - 1 / 3),
                "flat": 1 - (self.a - 2) ** 2,
            }


GRIDS = preset_grids(Poles, "quick")


def test_values_close_in_on_every_peak_of_an_axis():
    found = lines(GRIDS["main"], "a")
    a, step = found.a.values, 4 / 59
    assert (np.diff(a) > 0).all()
    for b in found.b.values:
        np.testing.assert_array_equal(found.y.sel(b=b), 1 / abs(a - b))
        # Each of three rounds divides the step by four.
        assert abs(a - b).min() <= step / 4**3
    # Only there: a rounded top is no peak.
    assert (abs(a - 2) < 1.01 * step).sum() <= 4
    np.testing.assert_array_equal(found.z.isel(b=0).values, a[:, None] + 1 / abs(found.t.values - 1 / 3))


def test_values_close_in_on_a_peak_of_a_path():
    found = lines(GRIDS["main"], "t")
    t = found.t.values
    assert abs(t - 1 / 3).min() <= 1 / 59 / 4**3
    np.testing.assert_array_equal(found.z.isel(b=1).sel(a=2.0), 2 + 1 / abs(t - 1 / 3))
    # An output without the path is as it was.
    np.testing.assert_array_equal(found.y, 1 / abs(found.a - found.b))


def test_one_point_has_lines_along_a_path_and_outputs_without_it():
    found = lines(GRIDS["alone"], "t")
    assert found.y.dims == ()
    assert found.sizes["t"] > 62


def test_parameters_that_vary_together_have_nothing_between_them():
    found = lines(GRIDS["zipped"], "a")
    assert list(found.a.values) == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("rounds", [0, 1])
def test_what_is_refused_is_left_as_it_is(rounds):
    dense = GRIDS["main"].denser("a")
    points = predict_points(dense)
    asked = []

    def ask(grid):
        asked.append(grid)
        return predict_points(grid) if len(asked) <= rounds else None

    grid, found = around_peaks(dense, "a", points, ["y"], ask)
    assert len(asked) == rounds + 1
    assert len(found["y"]) == grid.size == dense.size + 2 * len(asked[0].axes[0].rows) * rounds
