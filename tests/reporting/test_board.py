"""What a terminal shows while studies run."""

import dataclasses
import io

import pytest
from rich.console import Console

from unlazy.lab import registry
from unlazy.lab.claims import Claim, Verdict, at_least
from unlazy.lab.running.events import Event
from unlazy.lab.running.result import Run
from unlazy.reporting.terminal import board


def verdict(word, known=None):
    return Verdict(Claim("c", "It is.", at_least(0), abs, source="s", known_negative=known), word)


def ended(study, *verdicts):
    return Event("ended", study.name, run=Run(study, {}, {}, verdicts, 1, 2.0, 2.0, ""))


@pytest.fixture(scope="module")
def studies():
    names = [
        "ridge-equivalent",
        "spike",
        "momentum",
        "mean-field-exact",
        "linear-attention",
        "kernel-spectrum",
        "almeida-thouless-line",
    ]
    return [registry.find(name) for name in names]


def drawn(watch, width, height):
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    watch.console = console
    console.print(watch._render())
    return console.file.getvalue().rstrip("\n").split("\n")


@pytest.fixture
def watch(studies):
    watch = board.Board(studies, Console(file=io.StringIO(), force_terminal=True))
    for study in studies:
        watch(Event("estimated", study.name, 8, 10.0))
    watch(Event("begun", "spike", 40))
    watch(Event("advanced", "spike", 10))
    for name in ("momentum", "almeida-thouless-line", "mean-field-exact"):
        watch(Event("begun", name, 8))
    watch(ended(studies[0], verdict("holds"), verdict("fails", "why"), verdict("untested")))
    watch(ended(studies[4], verdict("inconclusive"), verdict("fails"), verdict("holds", "why")))
    watch(Event("failed", studies[5].name, message="MemoryError: all gone"))
    return watch


@pytest.mark.parametrize(("width", "height"), [(120, 50), (80, 24), (60, 18), (40, 12)])
def test_the_board_fits_its_terminal_and_leaves_room_for_finished_lines(watch, width, height):
    lines = drawn(watch, width, height)
    assert len(lines) <= height - 3
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    assert any("3/7" in line for line in lines)
    assert any("spike" in line and "10/40" in line for line in lines)
    assert "elapsed" in lines[-1]


def test_the_board_counts_verdicts_by_topic(watch):
    rows = {line.split()[0]: line.split()[1:] for line in drawn(watch, 120, 50) if line}
    assert rows["regression"] == ["1/1", "1", "1", "1"]
    assert rows["in_context"] == ["1/1", "1", "2"]
    assert rows["kernels"] == ["1/1", "1"]
    assert rows["all"] == ["3/7", "1", "1", "1", "1", "2", "1"]


def test_finished_and_broken_studies_scroll_above_the_board(studies):
    out = io.StringIO()
    watch = board.Board(studies, Console(file=out, width=80, color_system=None))
    watch(ended(studies[0], verdict("holds")))
    watch(Event("failed", studies[1].name, message="MemoryError: all gone"))
    assert out.getvalue().splitlines() == [
        "[1/7] ridge-equivalent: 1 holds (2.0 s)",
        "[2/7] spike did not run: MemoryError: all gone",
    ]


def test_the_time_left_follows_what_is_finished(watch, monkeypatch):
    # Of seven studies of equal length three are done, and four run for half of their time.
    watch._start = 0.0
    watch._running = dict.fromkeys(watch._running, (25.0, 0, 1))
    monkeypatch.setattr(board.time, "monotonic", lambda: 30.0)
    assert watch._seconds_left(30.0) == pytest.approx(30.0 * 20 / 50)


def test_the_instances_of_a_running_study_count_for_the_time_left(watch, monkeypatch):
    watch._start = 0.0
    # Of 70 seconds 30 are done; two studies have half of their instances, one has waited longer than it should take.
    watch._running = {"spike": (20.0, 20, 40), "momentum": (0.0, 4, 8), "almeida-thouless-line": (0.0, 0, 8)}
    monkeypatch.setattr(board.time, "monotonic", lambda: 30.0)
    achieved = 30 + 5 + 5 + 9
    assert watch._seconds_left(30.0) == pytest.approx(30.0)
    watch._running["momentum"] = (20.0, 4, 8)
    assert watch._seconds_left(30.0) == pytest.approx(30.0 * (70 - achieved) / achieved)


def test_a_study_that_is_postponed_has_no_bar(watch):
    watch(Event("oversized", "spike", message="it needs more"))
    assert not any("spike" in line for line in drawn(watch, 80, 24))


def test_a_claim_that_raised_and_a_known_negative_that_holds_differ():
    raised = dataclasses.replace(verdict("untested"), broken=True)
    found = [verdict("holds"), verdict("fails", "why"), verdict("untested", "why"), verdict("inconclusive", "why")]
    assert [v.kind for v in found] == ["holds", "fails (known)", "untested", "inconclusive"]
    surprises = [verdict("fails"), verdict("holds", "why"), raised]
    assert [v.kind for v in surprises] == ["differs"] * 3
    assert [v.word for v in surprises] == ["fails", "holds (should fail)", "raised"]


def test_without_a_terminal_there_are_lines(monkeypatch, capsys, studies):
    watch = board.watching(studies, False)
    assert type(watch) is board.ProgressLines
    watch(ended(studies[0], verdict("holds")))
    assert capsys.readouterr().out == "[1/7] ridge-equivalent: 1 holds (2.0 s)\n"
    assert type(board.watching(studies, True)) is board.Silent
