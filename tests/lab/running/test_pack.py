"""Shipped results: what was packed is what was stored, and what is damaged or of other code is not used."""

import re
import runpy
import sys
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import unlazy
from unlazy.lab import OWN, Output, Study, at_most, claim, static
from unlazy.lab.grid import preset_grids
from unlazy.lab.running import pack, packing
from unlazy.lab.running.dataset import Collector
from unlazy.lab.running.store import Store


@dataclass(frozen=True)
class Sharp(Study):
    """Rounded to single precision, a third is larger than a third."""

    name = "test-sharp"
    question = "Is a third at most a third?"
    sources = ()
    parts: int = static(3, "parts", low=1)
    outputs = {"share": Output("share of one part")}
    presets = {"quick": {"seeds": 2}}

    @claim(OWN, "", at_most(1 / 3))
    def third(main):
        """A share is {criterion}."""
        return main.simulated.share

    def simulate(self, rng):
        return {"share": 1 / self.parts}


@pytest.fixture
def hosted(study, store, tmp_path):
    """A study, a store with its quick results, and a file with the same."""
    found = study("Hosted")
    unlazy.run(found, store=store)
    file = tmp_path / "quick.pack"
    (outcome,) = packing.write(file, [found], store)
    assert outcome.how == "rounded"
    return found, store, file


def collected(study, file, **options):
    collector = Collector(preset_grids(study, "quick", **options)["main"])
    return collector, pack.fill(collector, file)


def test_what_is_packed_is_what_was_stored_to_single_precision(hosted):
    study, store, file = hosted
    collector, filled = collected(study, file)
    assert filled == collector.grid.instances
    exact = unlazy.run(study, store=store)
    assert exact.computed == 0
    for name, array in collector.dataset().data_vars.items():
        was = exact.simulated[name]
        assert array.dtype == was.dtype
        np.testing.assert_allclose(array, was, rtol=2.0**-24, atol=0)
        # nan, inf, -0, whole numbers and switches are what they were
        np.testing.assert_array_equal(array == 0, was == 0)
    assert collector.seconds == pytest.approx(exact.cost)


def test_the_same_results_are_the_same_file(hosted, tmp_path):
    study, store, file = hosted
    packing.write(tmp_path / "again.pack", [study], store)
    assert (tmp_path / "again.pack").read_bytes() == file.read_bytes()


def test_some_points_and_seeds_are_found_by_their_parameters(hosted):
    study, _, file = hosted
    collector, filled = collected(study, file, over={"scale": [7.0, 1.0]}, seeds=5)
    assert filled == 3
    np.testing.assert_array_equal(collector.missing, [[True] * 5, [False] * 3 + [True] * 2])
    partly = collector.dataset(partly=True)
    assert int(partly.draw.count()) == 3
    assert collected(study, file, set={"d": 4})[1] == 0
    assert collected(study, file, stream="other")[1] == 0


def test_what_is_there_already_stays(hosted):
    study, _, file = hosted
    collector = Collector(preset_grids(study, "quick")["main"])
    own = {name: np.full_like(array[0, 0], 1) for name, array in collected(study, file)[0].arrays.items()}
    collector.put(1, 0, own)
    assert pack.fill(collector, file) == collector.grid.instances - 1
    assert collector.arrays["draw"][1, 0] == 1


def test_numbers_stay_exact_where_rounding_would_change_a_verdict(store, tmp_path):
    unlazy.run(Sharp, store=store)
    file = tmp_path / "quick.pack"
    assert [p.how for p in packing.write(file, [Sharp], store)] == ["exact"]
    assert (collected(Sharp, file)[0].arrays["share"] == 1 / 3).all()


def test_results_of_other_code_are_not_found(hosted, monkeypatch):
    study, _, file = hosted
    monkeypatch.setattr(pack, "fingerprint", lambda study: "0" * 24)
    assert collected(study, file)[1] == 0


def test_what_the_store_lacks_is_kept_as_long_as_it_is_true(hosted, tmp_path, monkeypatch):
    study, _, file = hosted
    empty = tmp_path / "empty.sqlite"
    Store(empty).close()
    before = file.read_bytes()
    assert [p.how for p in packing.write(file, [study], empty)] == ["kept"]
    assert file.read_bytes() == before
    # another study leaves it alone
    (other,) = packing.write(file, [Sharp], empty)
    assert "2 of 2 instances are not in the store" in other.how
    assert file.read_bytes() == before
    for part in (pack, packing):
        monkeypatch.setattr(part, "fingerprint", lambda study: "0" * 24)
    (gone,) = packing.write(file, [study], empty)
    assert "not in the store" in gone.how
    assert collected(study, file)[1] == 0


def damaged(file, how):
    data = bytearray(file.read_bytes())
    if how == "text":
        data = b"no archive at all"
    elif how == "cut":
        data = data[: len(data) // 2]
    elif how == "changed":
        data[len(data) // 3] ^= 0xFF
    else:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("test-hosted", {"header": b"\xff" * 30, "object": _objects()}[how])
        return
    file.write_bytes(data)


def _objects():
    text = b'{"main": {"keys": "", "seconds": 0, "outputs": {"draw": ["|O", [0, 1]]}}}'
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize("how", ["text", "cut", "changed", "header", "object"])
def test_a_damaged_file_is_as_good_as_none_and_says_so_in_one_line(hosted, how):
    study, _, file = hosted
    damaged(file, how)
    with pytest.warns(UserWarning, match=r"shipped results quick\.pack are damaged and not used \(.+\)") as told:
        assert collected(study, file)[1] == 0
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert collected(study, file)[1] == 0


def test_no_file_is_no_reason_to_say_anything(study, tmp_path):
    assert collected(study("Hosted"), tmp_path / "none.pack")[1] == 0


def test_the_tool_says_what_it_wrote_and_what_is_missing(tmp_path, store, monkeypatch, capsys):
    Store(store).close()
    tool = Path(__file__).parents[3] / "tools/pack.py"
    words = ["pack.py", "degrees-of-freedom-criterion", "--store", str(store), "--out", str(tmp_path / "quick.pack")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(tool), run_name="__main__")
    assert end.value.code == 1
    printed = capsys.readouterr().out
    assert "0 of 1 studies (0 rounded, 0 exact, 0 kept); 0.00 MB" in printed
    assert re.search(r"not in it: degrees-of-freedom-criterion: (\d+) of \1 instances are not in the store", printed)
