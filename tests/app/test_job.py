"""Simulations that the explorer starts: stored as the command line stores them, refused and cancelled in words."""

import threading
import time

import pytest

from unlazy.app.job import Job, cancel_visit, duration, follow
from unlazy.app.setting import make_setting
from unlazy.app.visits import Visits
from unlazy.app.words import progress
from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.parse import parse_over, parse_set
from unlazy.lab.running.events import Event
from unlazy.lab.running.laboratory import Laboratory


@pytest.fixture
def setting():
    return make_setting(registry.find("ridge-equivalent"), "sizes", "n", [], ["n=20,40"], 2)


def test_results_are_where_the_command_line_looks(setting, tmp_path):
    store = str(tmp_path / "store.sqlite")
    job = Job(setting, store)
    estimated, begun, *advanced, ended = job.events()
    assert (estimated.kind, estimated.count) == ("estimated", 4)
    assert (begun.kind, ended.kind) == ("begun", "ended")
    assert {event.kind for event in advanced} == {"advanced"}
    assert (job.done, job.total) == (4, 4)
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
    assert job._child.code is not None


def test_a_job_ends_with_the_visit_it_belongs_to(setting, tmp_path):
    """A page that is left or loaded again has no button for the job that it started."""
    job = Job(setting, str(tmp_path / "store.sqlite"), visit="gone")
    other = Job(setting, visit="here")
    visits = Visits(cancel_visit, grace=0.05)
    assert visits.enter("gone")
    told, finished = [], []
    thread = threading.Thread(
        target=follow, args=(job, lambda event, _: told.append(event), lambda: finished.append(True))
    )
    thread.start()
    while job._child is None:
        time.sleep(0.01)
    visits.leave("gone")
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert told[-1].kind == "cancelled"
    assert finished
    assert job._child.code is not None
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
    *_, last = Job(setting, str(tmp_path / "store.sqlite"), limit=0.0).events()
    assert last.kind == "refused"
    assert "more than the limit" in last.message


def test_what_needs_too_much_memory_is_refused_with_the_size(tmp_path):
    big = make_setting(registry.find("kernel-spectrum"), "bulk", "n", [], ["n=20000"], 1)
    *_, last = Job(big, str(tmp_path / "store.sqlite"), memory=0.1).events()
    assert last.kind == "refused"
    assert "GiB, more than the budget" in last.message


def test_a_store_that_cannot_be_used_is_refused_in_its_own_words(setting, tmp_path):
    file = tmp_path / "store.sqlite"
    file.write_text("not a database, but as long as the header of one would have to be " * 20)
    (only,) = Job(setting, str(file)).events()
    assert only.kind == "refused"
    assert "store" in only.message


def test_progress_is_told_without_markup_of_studies(setting):
    job = Job(setting)
    job.done, job.total = 3, 8
    assert "&lt;b&gt;" in progress(Event("failed", message="<b>"))
    assert "3 of 8 instances" in progress(Event("advanced", count=1), job)
    assert "about 2 minutes" in progress(Event("estimated", count=8, seconds=120.0, bytes=3 * 2**30))
    assert "3 GiB" in progress(Event("estimated", count=8, seconds=120.0, bytes=3 * 2**30))


def test_durations_are_words():
    assert [duration(s) for s in (0.2, 30, 120, 7200)] == ["a second", "30 seconds", "2 minutes", "2 hours"]
