"""From grids to keys and groups, in bulk, next to one point at a time."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import pytest

from unlazy.lab import Output, Study, path, registry, static, value
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.laboratory import MissingInstances
from unlazy.lab.running.plan import canonical_points, group_points, point_keys


@dataclass(frozen=True)
class Odd(Study):
    name = "odd"
    question = "?"
    sources = ()
    n: int = static(10, "samples")
    kind: str = static("50% é\\", "a name with signs that patterns and JSON use")
    noise: float = value(0.5, "noise")
    shift: float = value(0.0, "shift")
    ridge: tuple = path((0.1, 1.0), "ridge")
    outputs = {"y": Output("y", dims=("ridge",))}
    presets = {
        "quick": {("n", "noise"): [(1, 0.5), (2, 0.5), (1, 0.25)], "shift": [0.0, 1e-9], "kind": ["%s", '"']},
        "one": {"seeds": 2},
    }

    def simulate(self, rng):
        return {}


def every_grid():
    yield from (grid for preset in Odd.presets for grid in preset_grids(Odd, preset).values())
    yield from (grid for study in registry.all_studies() for grid in preset_grids(study, "full").values())


def text_of(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def test_texts_and_keys_of_a_grid_are_those_of_its_points():
    for grid in every_grid():
        points = list(grid.points())
        assert list(canonical_points(grid)) == [text_of(point) for point in points]
        texts = [text_of([grid.study.name, "code", point]) for point in points]
        assert list(point_keys(grid, "code")) == [hashlib.sha256(text.encode()).digest()[:16] for text in texts]
        some = np.arange(grid.size)[::-2]
        assert list(canonical_points(grid, some)) == [text_of(points[index]) for index in some]


def test_a_key_knows_the_content_of_the_files_that_are_read(tmp_path):
    class Reads(Odd):
        name = "reads"

        def files(self):
            return (tmp_path / "data",) if self.n == 2 else ()

    grid = next(iter(preset_grids(Reads, "quick").values()))
    keys = []
    for content in (b"one", b"other", b"one"):
        (tmp_path / "data").write_bytes(content)
        keys.append(list(point_keys(grid, "code")))
    reads = [point["n"] == 2 for point in grid.points()]
    assert [a != b for a, b in zip(keys[0], keys[1], strict=True)] == reads
    assert keys[0] == keys[2]
    assert list(point_keys(grid, "code", np.arange(grid.size)[::-1])) == keys[2][::-1]


def test_groups_are_the_points_that_agree_in_all_but_their_values_in_the_order_of_the_first():
    for grid in every_grid():
        kinds = grid.study.parameters()
        wanted = {}
        for index, point in enumerate(grid.points()):
            shared = {n: v for n, v in point.items() if kinds[n].kind != "value"}
            wanted.setdefault(text_of(shared), (shared, []))[1].append(index)
        found = [(group.shared, group.points.tolist()) for group in group_points(grid, "code")]
        assert found == list(wanted.values())


def test_what_is_missing_is_counted_and_listed_in_the_order_of_the_points():
    lacking = np.array([[True, False], [False, False], [True, True]])
    missing = MissingInstances(np.array([2, 0]), lacking)
    lacking[:] = False
    assert len(missing) == 3
    assert list(missing) == [(2, 0), (2, 1), (0, 0)]


@pytest.mark.parametrize("stored", [0, 3])
def test_to_look_what_a_run_costs_asks_the_store_once_for_each_stored_point_and_not_for_the_others(
    study, store, monkeypatch, stored
):
    from unlazy.lab.running.laboratory import Laboratory
    from unlazy.lab.running.store import Store

    hosted = study("Hosted")
    asked = []
    with Laboratory(store) as laboratory:
        if stored:
            laboratory.simulate(hosted, preset_grids(hosted, "quick"))
        read = Store.read
        monkeypatch.setattr(Store, "read", lambda self, *words: asked.append(words) or read(self, *words))
        grids = preset_grids(hosted, "quick")
        _, work = laboratory.load(hosted, grids)
    assert len(asked) == (grids["main"].size if stored else 0)
    assert sum(len(w.missing) for w in work) == (0 if stored else grids["main"].instances)
