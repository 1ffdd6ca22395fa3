"""Simulations that the explorer starts: stored as the command line stores them, refused and cancelled in words."""

import threading
import time

import pytest

from unlazy.app.job import Job, cancel_visit, follow
from unlazy.app.setting import grouped, make_setting
from unlazy.app.visits import Visits
from unlazy.app.words import progress
from unlazy.app.worker import duration, work
from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.parse import parse_over, parse_set
from unlazy.lab.running.laboratory import Laboratory


@pytest.fixture
def setting():
    return make_setting(registry.find("ridge-equivalent"), "sizes", "n", [], ["n=20,40"], 2)


def worked(setting, store, limit=60.0, memory=None):
    events = []
    task = {"own": "", "query": grouped(setting.query), "store": str(store), "limit": limit, "memory": memory}
    work(task, lambda **event: events.append(event))
    return events


def test_results_are_where_the_command_line_looks(setting, tmp_path):
    store = str(tmp_path / "store.sqlite")
    events = list(Job(setting, store).events())
    assert events[0].kind == "estimate"
    assert events[0].missing == 4
    assert [e.kind for e in events[1:]] == ["progress"] * (len(events) - 2) + ["done"]
    assert (events[-2].done, events[-2].total) == (4, 4)
    fixed = parse_set(setting.study, [f"{n}={v}" for n, v in setting.values.items() if n != "ridge"])
    over = parse_over(setting.study, ["n=20,40"])
    grids = preset_grids(setting.study, "quick", set={**fixed, "ridge": setting.values["ridge"]}, over=over, seeds=2)
    with Laboratory(store) as laboratory:
        assert laboratory.simulate(setting.study, {"sizes": grids["sizes"]})[1] == 0


def test_a_cancelled_job_ends_at_once(setting, tmp_path):
    job = Job(setting, str(tmp_path / "store.sqlite"))
    job.cancel()
    events = list(job.events())
    assert events[-1].kind == "cancelled"
    assert job._process.returncode is not None


def test_a_job_ends_with_the_visit_it_belongs_to(setting, tmp_path):
    """A page that is left or loaded again has no button for the job that it started."""
    job = Job(setting, str(tmp_path / "store.sqlite"), visit="gone")
    other = Job(setting, visit="here")
    visits = Visits(cancel_visit, grace=0.05)
    assert visits.enter("gone")
    told, finished = [], []
    thread = threading.Thread(target=follow, args=(job, told.append, lambda: finished.append(True)))
    thread.start()
    while job._process is None:
        time.sleep(0.01)
    visits.leave("gone")
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert told[-1].kind == "cancelled"
    assert finished
    assert job._process.returncode is not None
    assert not other.cancelled


def test_a_visit_survives_a_broken_connection():
    ended, over = [], threading.Event()

    def end(visit):
        ended.append(visit)
        over.set()

    visits = Visits(end, most=1, grace=0.2)
    assert visits.enter("a")
    visits.leave("a")
    assert visits.full()
    assert visits.enter("a")
    assert not over.wait(0.4)
    visits.leave("a")
    assert over.wait(5)
    assert ended == ["a"]
    assert not visits.full()


def test_what_takes_too_long_is_refused_with_the_time(setting, tmp_path):
    from unlazy.checks import InputError

    with pytest.raises(InputError, match="more than the limit"):
        worked(setting, tmp_path / "store.sqlite", limit=0.0)


def test_what_needs_too_much_memory_is_refused_with_the_size(tmp_path):
    from unlazy.checks import InputError

    big = make_setting(registry.find("kernel-spectrum"), "bulk", "n", [], ["n=20000"], 1)
    with pytest.raises(InputError, match="GiB, more than the budget"):
        worked(big, tmp_path / "store.sqlite", memory=0.1)


def test_progress_is_told_without_markup_of_studies():
    from unlazy.app.job import Event

    assert "&lt;b&gt;" in progress(Event("failed", "<b>"))
    assert "3 of 8 instances" in progress(Event("progress", done=3, total=8))
    assert "about 2 minutes" in progress(Event("estimate", missing=8, seconds=120.0, bytes=3 * 2**30))
    assert "3 GiB" in progress(Event("estimate", missing=8, seconds=120.0, bytes=3 * 2**30))


def test_durations_are_words():
    assert [duration(s) for s in (0.2, 30, 120, 7200)] == ["a second", "30 seconds", "2 minutes", "2 hours"]
