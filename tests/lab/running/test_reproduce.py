"""Many studies at once: the same numbers, and no study takes another one with it."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from unlazy import cli
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.running import cost, reproduce
from unlazy.lab.running.processes import default_jobs
from unlazy.reporting.terminal import tables
from unlazy.studies import LONGEST

FILE = Path(__file__).with_name("studies_that_break.py")
NAMES = ["Fine", "Compiling", "Killed", "Raising", "Large", "TooLarge"]


def breaking(name):
    return registry.find(f"{FILE}:{name}")


class Recorder(list):
    """The events that it heard."""

    def __call__(self, event):
        self.append(event)

    def of(self, *kinds):
        return [event for event in self if event.kind in kinds]


@pytest.fixture(scope="module")
def several(study, tmp_path_factory):
    """Studies that work and studies that do not, two at a time in a gibibyte of memory."""
    watch = Recorder()
    store = tmp_path_factory.mktemp("several") / "results.sqlite"
    studies = [study("Traced"), study("Hosted"), *map(breaking, NAMES)]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(store.parent))
        return watch, studies, store, reproduce.reproduce(studies, watch, store=store, jobs=2, memory=1.0)


def test_two_at_once_give_the_numbers_of_one_after_the_other(several, study, tmp_path):
    _, _, _, outcome = several
    studies = [study("Traced"), study("Hosted")]
    alone = reproduce.reproduce(studies, store=tmp_path / "alone.sqlite", jobs=1)
    for one, other in zip(outcome.runs[:2], alone.runs, strict=True):
        assert one.study is other.study
        assert one.computed == other.computed == 9
        for name in one.simulated.data_vars:
            np.testing.assert_allclose(one.simulated[name], other.simulated[name], rtol=1e-12)


def test_a_study_that_dies_or_raises_ends_alone(several):
    *_, outcome = several
    ran = ["test-traced", "test-hosted", "test-fine", "test-compiling", "test-large"]
    assert [run.study.name for run in outcome.runs] == ran
    assert set(outcome.broken) == {"test-killed", "test-raising", "test-too-large"}
    assert "SIGKILL" in outcome.broken["test-killed"]
    assert outcome.broken["test-raising"] == "ZeroDivisionError: nothing left to divide"
    assert "needs about 2 GiB, more than the budget of 1 GiB" in outcome.broken["test-too-large"]
    assert not outcome.as_documented


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG_CACHE_HOME names the cache on Linux")
def test_workers_keep_what_they_compile_also_that_of_hosted_studies(several):
    _, _, store, _ = several
    kept = {file.name.split("-")[0] for file in (store.parent / "unlazy" / "jax").iterdir()}
    assert {"jit_one", "jit_kept_for_others"} <= kept


def test_what_does_not_fit_into_a_share_of_the_memory_runs_alone_in_all_of_it(several):
    watch, _, _, outcome = several
    assert outcome.runs[-1].computed == 4
    postponed = {event.study: event.message for event in watch.of("oversized")}
    assert set(postponed) == {"test-large", "test-too-large"}
    assert "more than the budget of 0.5 GiB" in postponed["test-large"]


def test_a_watch_sees_every_instance_and_every_end(several):
    watch, studies, _, _ = several
    assert [event.count for event in watch.of("begun") if event.study == "test-traced"] == [9]
    assert sum(event.count for event in watch.of("advanced") if event.study == "test-traced") == 9
    assert sorted(event.study for event in watch.of("ended", "failed")) == sorted(s.name for s in studies)


def test_the_second_time_nothing_that_is_finished_runs_again(several):
    _, _, store, outcome = several
    watch = Recorder()
    again = reproduce.reproduce([run.study for run in outcome.runs], watch, store=store, jobs=2)
    assert not watch.of("estimated", "begun", "advanced")
    assert [run.computed for run in again.runs] == [0, 0, 0, 0, 0]


def test_the_json_has_every_study_and_counts_what_is_not_documented(several):
    _, studies, _, outcome = several
    found = json.loads(json.dumps(outcome.as_json()))
    assert [s["study"] for s in found["studies"]] == [s.name for s in studies]
    assert [s["topic"] for s in found["studies"]][-1] == "loud"
    # Fine, Compiling and Large: one claim holds, one fails as documented, one fails though it should hold.
    assert found["counts"] == {
        "holds": 3, "fails (known)": 3, "fragile": 0,
        "untested": 0, "inconclusive": 0, "differs": 3, "did not run": 3,
    }  # fmt: skip
    assert found["studies"][2]["claims"][1]["as_documented"] is False


SLOW = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from unlazy.__main__ import main
from unlazy.lab import registry
studies = [registry.find(sys.argv[1])]
registry.all_studies = lambda topics: studies
sys.argv[1:] = ["reproduce", *sys.argv[2:]]
main()
"""


@pytest.fixture
def endless(python, store, stored, tmp_path):
    """A reproduction of an endless study in the middle of its work, and its workers."""
    process = python(SLOW, f"{FILE}:Endless", "--store", store, "--out", tmp_path / "report", "--jobs", "2")
    while process.poll() is None and len(stored(store)) < 2:
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers
    yield process, workers
    process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_parent_ends_the_workers_and_keeps_what_is_finished(endless, store, stored, number):
    process, workers = endless
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    _, left = psutil.wait_procs(workers, timeout=10)
    assert left == []
    assert 2 <= len(stored(store)) < 20
    if number != signal.SIGKILL:
        assert process.returncode == 3
        assert error.splitlines()[-1].startswith("interrupted: what was finished is stored")


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, 9])
def test_a_wrong_number_of_jobs_is_refused(store, jobs, monkeypatch):
    monkeypatch.setattr(reproduce, "cores", lambda: 2)
    with pytest.raises(InputError, match=f"jobs must be an integer from 1 to 8, 4 per core here, got {jobs}"):
        reproduce.reproduce([], store=store, jobs=jobs)
    assert not store.exists()


class Unread(Recorder):
    """Its output is a pipe that is closed after the first study."""

    def __call__(self, event):
        super().__call__(event)
        if len(self) > 1:
            raise BrokenPipeError


def test_studies_go_on_when_nobody_reads_what_is_shown(several, study):
    _, _, store, _ = several
    watch = Unread()
    studies = [study("Traced"), study("Hosted"), breaking("Fine"), breaking("Large")]
    outcome = reproduce.reproduce(studies, watch, store=store, jobs=1)
    assert [(event.kind, event.study) for event in watch] == [("ended", "test-traced"), ("ended", "test-hosted")]
    assert [run.study for run in outcome.runs] == studies
    assert outcome.broken == {}


@pytest.fixture
def command(monkeypatch, capsys, tmp_path, study):
    """`unlazy reproduce` of one study in this process and an empty folder; returns exit code and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "all_studies", lambda topics: [study("Hosted")])

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["unlazy", "reproduce", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    "words",
    [["--jobs", "0"], ["--jobs", "0", "--dry-run"], ["--jobs", "99999"], ["--memory", "-1"], ["--cluster", "x:1:2"]],
)
def test_what_is_refused_leaves_nothing_behind(command, tmp_path, store, words):
    code, error = command("--store", str(store), *words)
    assert code == 2
    assert words[0].lstrip("-") in error
    assert not (tmp_path / "report").exists()


def test_a_dry_run_makes_no_store(command, store):
    assert command("--store", str(store), "--dry-run")[0] == 0
    assert not store.exists()


def test_a_closed_pipe_leaves_the_report_and_the_exit_code_of_the_verdicts(several, command, monkeypatch, tmp_path):
    _, _, store, _ = several
    monkeypatch.setattr(registry, "all_studies", lambda topics: [breaking("Fine")])
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        # One of its claims fails though it should hold.
        assert command("--store", str(store), "--jobs", "1") == (1, "")
    assert "test-fine" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")


def test_a_terminal_that_knows_only_ascii_shows_the_page(command, monkeypatch, store):
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    assert command("--store", str(store), "--dry-run") == (0, "")
    # What is not known is a dash elsewhere.
    assert b"test-hosted" in plain.buffer.getvalue()
    assert b" ? " in plain.buffer.getvalue()


UNGUARDED = """
import sys
from unlazy.lab import registry
from unlazy.lab.running import cost, reproduce
studies = [registry.find(f"{sys.argv[1]}:{name}") for name in ("Fine", "Raising")]
print(sorted(reproduce.reproduce(studies, store=sys.argv[2], jobs=2).broken))
"""


def test_a_script_needs_no_guard_for_its_processes(store, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    words = [sys.executable, script, FILE, store]
    assert subprocess.run(words, capture_output=True, text=True, timeout=60).stdout == "['test-raising']\n"


def test_what_lies_in_the_folder_of_a_script_is_not_taken_for_a_library(store, tmp_path):
    (tmp_path / "json.py").write_text("raise ImportError('the wrong one')")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(UNGUARDED)
    words = [sys.executable, script, FILE, store]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "['test-raising']\n"


def test_jobs_and_a_cluster_are_refused_together(store):
    with pytest.raises(InputError, match="jobs is for this machine"):
        reproduce.reproduce([], store=store, jobs=2, cluster="local:2")


def test_there_are_no_more_workers_than_cores_or_memory():
    assert default_jobs(1, 2**40) == 1
    assert default_jobs(8, 2**40) == 8
    assert default_jobs(8, 3 * 2**29) == 3
    # A quarter of 6 GiB that are free on a machine with 7.
    assert default_jobs(2, 3 * 2**29) == 2
    assert default_jobs(8, 2**20) == 1


def test_an_earlier_run_tells_how_long_a_study_takes(study):
    from unlazy.lab.grid import preset_grids

    hosted = study("Hosted")
    grids = preset_grids(hosted, "quick")
    assert cost.expected_seconds(hosted, grids, 9, 4.0) == 36
    assert cost.expected_seconds(hosted, grids, 3) == pytest.approx(cost.expected_seconds(hosted, grids, 9) / 3)
    assert cost.expected_seconds(hosted, grids, sum(g.size * g.seeds for g in grids.values()), whole=50.0) == 50


def test_the_studies_known_to_be_long_exist():
    assert set(LONGEST) <= set(registry.names())


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_verdicts_are_printed_by_topic_with_what_differs_and_what_did_not_run(
    several, capsys, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", str(columns))
    tables.verdicts(several[-1])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    words = [line.split() for line in lines]
    assert words.index(["quiet"]) < words.index(["test-fine"]) < words.index(["test-compiling"])
    assert ["all", "5", "3", "3", "3"] in words
    assert "  test-fine below: fails" in lines
    assert "  test-raising: ZeroDivisionError: nothing left to divide" in lines
    assert any("99% interval" in line for line in lines) == (columns == 120)
    assert sum("fails (known)" in line for line in lines) == (3 if columns == 60 else 4)
