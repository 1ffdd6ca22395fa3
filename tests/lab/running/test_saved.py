"""Instances that take long keep their state between segments."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab import Output, Study, static
from unlazy.lab.running.saved import Saved, saved_state
from unlazy.lab.study import check_definition

SEGMENTS = 6
ran = []
stop_at = []


@dataclass(frozen=True)
class Walk(Study):
    name = "test-walk"
    question = "Does a walk go on where it was?"
    sources = ()
    outputs = {"end": Output("end")}
    presets = {"quick": {"seeds": 2}}
    chunk_width = 1

    scale: int = static(1, "scale")

    def simulate(self, rng, saved):
        root = int(rng.integers(2**31))
        state = saved.load() or {"segment": 0, "place": 0.0}
        place = float(state["place"])
        for segment in range(int(state["segment"]), SEGMENTS):
            if (root, segment) in stop_at:
                raise RuntimeError("killed")
            ran.append((root, segment))
            place += self.scale * np.random.default_rng([root, segment]).standard_normal()
            saved.save({"segment": segment + 1, "place": place})
        return {"end": place}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ran.clear()
    stop_at.clear()


def states(tmp_path):
    return list((tmp_path / "cache").rglob("*.npz"))


def test_a_walk_that_was_killed_goes_on_and_ends_in_the_same_place(tmp_path):
    whole = unlazy.run(Walk, store=tmp_path / "whole.sqlite").parts["main"].simulated.end
    roots = sorted({root for root, _ in ran})
    ran.clear()
    stop_at.append((roots[0], 4))
    with pytest.raises(RuntimeError, match="killed"):
        unlazy.run(Walk, store=tmp_path / "killed.sqlite")
    assert len(states(tmp_path)) == 1
    stop_at.clear()
    again = unlazy.run(Walk, store=tmp_path / "killed.sqlite").parts["main"].simulated.end
    np.testing.assert_array_equal(again, whole)
    assert sorted(ran) == [(root, segment) for root in roots for segment in range(SEGMENTS)]
    assert not states(tmp_path)


def test_other_parameters_have_another_state(tmp_path):
    assert saved_state("a")._file != saved_state("b")._file


def test_an_unreadable_state_counts_as_none(tmp_path):
    saved = Saved(tmp_path / "states" / "one.npz")
    assert saved.load() is None
    saved.save({"x": np.arange(3.0)})
    np.testing.assert_array_equal(saved.load()["x"], np.arange(3.0))
    content = (tmp_path / "states" / "one.npz").read_bytes()
    (tmp_path / "states" / "one.npz").write_bytes(content[: len(content) // 2])
    assert saved.load() is None


def test_two_owners_of_a_state_find_a_whole_one_or_none(tmp_path):
    """A lease may run out while its owner is stopped: then two processes compute the same instance."""
    found = []

    def own(number):
        saved = Saved(tmp_path / "states" / "one.npz")
        for segment in range(200):
            saved.save({"first": np.full(500, number), "second": np.full(500, number)})
            found.append(saved.load())
            if segment % 10 == 9:
                saved.remove()

    owners = [threading.Thread(target=own, args=[number]) for number in range(2)]
    for owner in owners:
        owner.start()
    for owner in owners:
        owner.join()
    whole = [state for state in found if state is not None]
    assert len(found) == 400
    assert len(whole) > 200
    for state in whole:
        assert len({*state["first"], *state["second"]}) == 1
    assert not list((tmp_path / "states").iterdir())


def test_a_state_that_cannot_be_written_does_not_stop_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    Saved(tmp_path / "file" / "one.npz").save({"x": np.zeros(1)})


def test_only_hosted_studies_may_save():
    @dataclass(frozen=True)
    class Wrong(Walk):
        def simulate(self, key, saved):
            return {}

    with pytest.raises(InputError, match="only a hosted one may also take saved"):
        check_definition(Wrong)
