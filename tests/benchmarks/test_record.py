"""What the benchmarks record, without running one: no times are measured here."""

import ast
import json
import math
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import record
from benchmarks.measure import BEST, RATIO, Row, against, against_all

FOLDER = Path(record.__file__).parent


def entry(*rows):
    return {
        "date": "2026-01-01 00:00 UTC",
        "machine": {"cpu": "a CPU", "cores": 2, "system": "Linux", "python": "3.11", "versions": {"numpy": "2"}},
        "load": [0.1, 0.2],
        "about": "What it is.",
        "seconds": 3.0,
        "rows": [row._asdict() for row in rows],
        "notes": [],
    }


def test_every_benchmark_is_listed():
    """A benchmark is a file with a function of its own name."""
    found = {
        file.stem
        for file in FOLDER.glob("[a-z]*.py")
        if any(
            isinstance(node, ast.FunctionDef) and node.name == file.stem for node in ast.parse(file.read_text()).body
        )
    }
    assert found == set(record.NAMES)


def test_a_ratio_above_one_is_in_favour_of_unlazy():
    errors = {"ours": [1.0, 2.0], "a": [3.0, 1.0], "b": [2.0, math.nan]}
    seconds = {"ours": [1.0, 1.0], "a": [5.0, 7.0], "b": [9.0, 9.0]}
    rows = {(row.kind, row.peer): row.values for row in against_all("two sets", "ours", errors, seconds)}
    # b is the best other of the first set, a of the second, where b has failed
    assert rows["error", BEST] == [2.0, 0.5]
    assert rows["time", BEST] == [9.0, 7.0]
    assert rows["error", "a"] == [3.0, 0.5]
    assert rows["error", "b"] == [2.0]


def test_targets_are_judged_by_the_median():
    assert Row("a", [1.0, 9.0, 2.0], "s", at_most=2).verdict == "met"
    assert Row("a", [1.0, 9.0, 3.0], "s", at_most=2).verdict == "MISSED"
    assert against("peer", "a", [0.5, 2.0, 0.9], at_least=1).verdict == "MISSED"
    assert Row("a", [1.0], "s").verdict == ""


def test_saving_one_benchmark_leaves_the_others_and_their_order(tmp_path):
    file = tmp_path / "results.json"
    last, first = record.NAMES[-1], record.NAMES[0]
    record.save(last, entry(Row("a", [1.0], "s")), file)
    record.save(first, entry(Row("b", [2.0], "s")), file)
    record.save(first, entry(Row("c", [3.0], "s")), file)
    found = record.load(file)
    assert list(found) == [first, last]
    assert record.rows(found[first]) == [Row("c", [3.0], "s")]
    assert record.rows(found[last]) == [Row("a", [1.0], "s")]
    assert list(tmp_path.iterdir()) == [file]


def test_a_benchmark_that_breaks_is_marked_and_says_why(capsys):
    """`page` is a file of the folder without a benchmark in it."""
    found = record.measure("page")
    assert found["rows"] == []
    assert found["failed"].startswith("AttributeError")
    assert "Traceback" in capsys.readouterr().err


def test_unknown_names_are_refused_with_those_that_exist(capsys):
    assert command.main(["ridge", "rigde"]) == 2
    error = capsys.readouterr().err
    assert "'rigde'" in error
    assert "ridge" in error


def test_the_list_says_what_was_never_run(tmp_path, capsys):
    file = tmp_path / "results.json"
    record.save("ridge", entry(), file)
    assert command.main(["--list", "--record", str(file), "ridge", "store"]) == 0
    ridge, store = capsys.readouterr().out.splitlines()
    assert "3 s" in ridge
    assert "never run" in store


def test_a_run_updates_its_part_alone_and_shows_progress(tmp_path, capsys, monkeypatch):
    file = tmp_path / "results.json"
    record.save("store", entry(Row("old", [1.0], "s")), file)
    monkeypatch.setattr(record, "measure", lambda name: entry(Row("new", [2.0], "s", at_most=1)))
    assert command.main(["ridge", "--record", str(file)]) == 0
    shown = capsys.readouterr()
    assert "[1/1] ridge" in shown.err
    assert "0 of 1 targets met" in shown.out
    assert list(record.load(file)) == ["store", "ridge"]


@pytest.mark.skipif(not record.FILE.exists(), reason="nothing is recorded yet: make bench")
def test_the_recorded_rows_are_ratios_to_a_named_peer_or_none():
    results = json.loads(record.FILE.read_text())
    assert set(results) <= set(record.NAMES)
    for one in results.values():
        for row in record.rows(one):
            assert row.values
            assert (row.unit == RATIO) == bool(row.peer) == bool(row.kind)
            assert row.unit != RATIO or min(row.values) > 0
