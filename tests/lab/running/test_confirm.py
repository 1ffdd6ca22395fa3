"""Streams, the same studies on fresh seeds, records of what came of them, and a budget of time."""

import json
import math

import numpy as np
import pytest

from unlazy import run
from unlazy.checks import InputError
from unlazy.lab.grid import MAIN, preset_grids
from unlazy.lab.parse import parse_duration
from unlazy.lab.running import evidence
from unlazy.lab.running.confirm import confirm, fresh_stream
from unlazy.lab.running.plan import entropy, point_keys
from unlazy.lab.running.reproduce import reproduce
from unlazy.reporting.terminal import tables


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("streams") / "results.sqlite"


def test_a_stream_draws_other_numbers_which_are_kept_beside_the_main_ones(study, store):
    main, fresh, again = (run(study("Claiming"), store=store, stream=stream) for stream in (MAIN, "other", "other"))
    assert (main.computed, fresh.computed, again.computed) == (9, 9, 0)
    assert not np.any(main.simulated.risk == fresh.simulated.risk)
    np.testing.assert_array_equal(fresh.simulated.risk, again.simulated.risk)
    assert fresh.command.endswith("--stream other")
    assert "--stream" not in main.command


def test_the_main_stream_has_the_keys_of_before_there_were_streams(study):
    cls = study("Traced")
    grids = [preset_grids(cls, "quick", stream=stream)["main"] for stream in (MAIN, "other")]
    assert grids[0] == preset_grids(cls, "quick")["main"]
    point = grids[0].point(0)
    assert entropy(cls, point, 0) == entropy(cls, point, 0, MAIN) != entropy(cls, point, 0, "other")
    assert not set(point_keys(grids[0], "code")) & set(point_keys(grids[1], "code"))


@pytest.mark.parametrize("stream", ["", "a b", "../x", "-x", 3, "x" * 65, "a\nb"])
def test_a_stream_has_a_name_that_a_command_line_can_repeat(study, store, stream):
    with pytest.raises(InputError, match="stream must be a name"):
        run(study("Claiming"), store=store, stream=stream)


def test_confirm_compares_the_documented_verdicts_with_fresh_ones(study, store, capsys):
    found = confirm([study("Claiming")], store=store, jobs=1)
    assert found.stream not in (MAIN, fresh_stream())
    pairs = found.pairs
    assert [pair.main.claim.id for pair in pairs] == [claim.id for claim in study("Claiming").claims]
    assert [pair.documented for pair in pairs] == ["holds", "fails"]
    assert pairs[0].main.measured != pairs[0].fresh.measured
    assert found.confirmed == (not any(pair.fresh.verdict != pair.documented for pair in pairs))
    assert 0 <= found.expected < len(pairs)
    told = found.as_json()
    assert told["differing"] == sum(claim["differs"] for claim in told["claims"])
    tables.confirmation(found)
    assert f"stream {found.stream}: {told['differing']} of {len(pairs)} verdicts" in capsys.readouterr().out
    with pytest.raises(InputError, match="another one than main"):
        confirm([study("Claiming")], store=store, stream=MAIN)


def test_a_record_is_shown_until_code_sizes_or_criterion_change(study, store, tmp_path, monkeypatch):
    cls, file = study("Claiming"), tmp_path / "fresh.json"
    monkeypatch.setattr(evidence, "folder", lambda: tmp_path)
    claim = cls.claims[0]
    assert evidence.told(cls, claim) == ()
    keep = evidence.recorder(file, evidence.FRESH, "one")
    result = run(cls, store=store, stream="other")
    keep(result)
    evidence.recorder(file, evidence.FRESH, "two")(result)
    records = evidence.records(cls, claim, evidence.FRESH)
    assert [record.stream for record in records] == ["one", "two"]
    assert not any(record.stale for record in records)
    assert records[0].verdict == result.verdicts[0].verdict
    twice = f"Run again with new random numbers: {records[0].verdict} twice"
    assert evidence.told(cls, claim)[0] == f"{twice}."
    assert result.claims_json()[0]["fresh"][0]["stream"] == "one"
    stored = json.loads(file.read_text())
    stored[cls.name]["one"]["code"] = "other code"
    file.write_text(json.dumps(stored))
    assert [record.stale for record in evidence.records(cls, claim, evidence.FRESH)] == [True, False]
    told = evidence.told(cls, claim)[0]
    assert told == f"{twice}, 1 of them before the code, the sizes or the criterion last changed."
    keep(result)
    evidence.recorder(file, evidence.FRESH, "three")(result)
    assert set(json.loads(file.read_text())[cls.name]) == {"one", "two", "three"}
    with pytest.raises(InputError, match="record must be a file"):
        evidence.recorder(file, evidence.FULL, MAIN)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_budget_ends_the_work_and_the_same_call_goes_on(study, tmp_path, jobs):
    store = tmp_path / "results.sqlite"
    options = {"store": store, "jobs": jobs}
    reproduce([study("Claiming")], **options)
    studies = [study("SlowHosted"), study("Claiming")]
    first = reproduce(studies, budget=1e-3, **options)
    assert list(first.unfinished) == [study("SlowHosted").name]
    assert [one.study for one in first.runs] == [study("Claiming")]
    assert not first.broken
    rest = reproduce(studies, **options)
    assert not rest.unfinished
    assert len(rest.runs) == 2
    with pytest.raises(InputError, match="budget must be a number of seconds > 0"):
        reproduce(studies, budget=0, **options)


def test_a_budget_is_for_both_streams_together(study, tmp_path):
    found = confirm([study("SlowHosted")], store=tmp_path / "results.sqlite", jobs=1, budget=0.05)
    assert found.unfinished == [study("SlowHosted").name]
    assert found.main.seconds + found.fresh.seconds < 2
    assert not found.pairs


def test_times_are_read_as_people_write_them():
    assert [parse_duration(text) for text in ("90s", "30m", "2h", "1h30m", "0.5h")] == [90, 1800, 7200, 5400, 1800]
    for text in ("", "2", "h", "-1h", "1d", "0s", "1h1h"):
        with pytest.raises(InputError, match="a time must be such as 90s"):
            parse_duration(text)
    assert math.isfinite(parse_duration("9h"))
