"""Processes that share a store share the work, and none is blocked by another that has died."""

import signal
import sqlite3
import time
from dataclasses import dataclass

import numpy as np
import pytest

import unlazy
from unlazy.lab import Output, Study, value
from unlazy.lab.running import leases
from unlazy.lab.running.leases import Answer, Leases
from unlazy.lab.running.store import Row, Store

OURS, BUSY, STORED = Answer.OURS, Answer.BUSY, Answer.STORED
INSTANCES = [(b"point", seed) for seed in range(4)]
ROWS = 45


def change(file, sql, *arguments):
    db = sqlite3.connect(file)
    with db:
        db.execute(sql, arguments)
    db.close()


@pytest.fixture
def two(store):
    """Two owners of leases on one store."""
    with Store(store) as one, Store(store) as other, Leases(one) as first, Leases(other) as second:
        yield first, second


def test_what_one_takes_another_leaves_to_it_and_finds_stored(two, store):
    first, second = two
    assert first.take(INSTANCES[:2]) == [OURS, OURS]
    assert second.take(INSTANCES[1:]) == [BUSY, OURS, OURS]
    assert first.take(INSTANCES) == [BUSY] * 4
    with Store(store) as opened:
        opened.write("s", "f", {b"point": "{}"}, [Row(b"point", 0, 1.0, {"x": np.zeros(1)}, "{}")])
    first.release(INSTANCES[:1])
    assert second.take(INSTANCES) == [STORED, BUSY, BUSY, BUSY]


def test_leases_end_with_the_run(two, store):
    first, _ = two
    with Store(store) as opened, Leases(opened) as third:
        third.take(INSTANCES)
        assert first.take(INSTANCES) == [BUSY] * 4
    assert first.take(INSTANCES) == [OURS] * 4


def test_a_lease_that_has_run_out_is_taken_over_and_its_owner_does_not_get_it_back(two, store):
    first, second = two
    first.take(INSTANCES)
    change(store, "UPDATE owners SET expires = ?", time.time() - 1)
    assert second.take(INSTANCES) == [OURS] * 4
    first.release(INSTANCES)
    assert first.take(INSTANCES) == [BUSY] * 4


def test_a_lease_is_renewed_while_its_owner_lives(store, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    with Store(store) as one, Store(store) as other, Leases(one) as first, Leases(other) as second:
        first.take(INSTANCES)
        for _ in range(5):
            time.sleep(0.5)
            assert second.take(INSTANCES) == [BUSY] * 4


HOLD = """
import sys, time
from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.leases import Leases
from unlazy.lab.running.laboratory import Laboratory

with Laboratory(sys.argv[2]) as laboratory:
    study = registry.find(sys.argv[1])
    (work,) = laboratory.load(study, preset_grids(study, "quick"))[1]
    with Leases(laboratory.store) as leases:
        leases.take(work.instances(list(work.missing)[10:15]))
        print("taken", flush=True)
        time.sleep(600)
"""
# A shell that runs tests in the background has their children ignore Ctrl-C.
UNLAZY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from unlazy.cli import main
main()
"""


@pytest.fixture
def held(python, reference_of, store, stored):
    """A process that takes five instances and never computes them, and one that has computed all others."""
    holder = python(HOLD, reference_of("SlowHosted"), store)
    assert holder.stdout.readline() == "taken\n"
    runner = python(UNLAZY, "run", reference_of("SlowHosted"), "--store", store)
    while runner.poll() is None and len(stored(store)) < ROWS - 5:
        time.sleep(0.05)
    time.sleep(2)
    assert len(stored(store)) == ROWS - 5
    assert runner.poll() is None
    yield holder, runner
    for process in (holder, runner):
        process.kill()
        process.communicate()


def test_what_a_killed_process_had_taken_is_computed_by_the_one_that_waits(held, study, store, stored):
    holder, runner = held
    # Nobody has asked how it ended: to the system it is not quite gone.
    holder.kill()
    _, error = runner.communicate(timeout=leases.LEASE_SECONDS / 2)
    assert (runner.returncode, error) == (0, "")
    found = unlazy.run(study("SlowHosted"), store=store)
    whole = unlazy.run(study("SlowHosted"), store=store.with_name("alone.sqlite"))
    assert (found.computed, whole.computed, len(stored(store))) == (0, ROWS, ROWS)
    np.testing.assert_array_equal(found.simulated.result, whole.simulated.result)


def test_an_interrupted_wait_ends_in_one_line(held, store, stored):
    _, runner = held
    runner.send_signal(signal.SIGINT)
    _, error = runner.communicate(timeout=30)
    assert runner.returncode == 3
    assert error == "interrupted: what was finished is stored; the same command goes on from there\n"
    assert len(stored(store)) == ROWS - 5


RUN = """
import sys, time, numpy, unlazy
from pathlib import Path
from unlazy.lab import registry
study, mark = registry.find(sys.argv[1]), Path(sys.argv[3])
mark.touch()
while len(list(mark.parent.glob("*.npy"))) < 3:
    time.sleep(0.01)
run = unlazy.run(study, store=sys.argv[2])
numpy.save(mark, run.simulated.result)
print(run.computed)
"""


@pytest.mark.parametrize("kind", ["SlowTraced", "SlowHosted"])
def test_three_processes_on_one_store_compute_every_row_once(study, store, stored, python, reference_of, kind):
    files = [store.with_name(f"{i}.npy") for i in range(3)]
    processes = [python(RUN, reference_of(kind), store, file) for file in files]
    computed = []
    for process in processes:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        computed.append(int(out))
    assert sum(computed) == ROWS
    assert min(computed) > 0
    alone = unlazy.run(study(kind), store=store.with_name("alone.sqlite")).simulated.result
    for file in files:
        np.testing.assert_array_equal(np.load(file), alone)
    assert len(stored(store)) == ROWS


@dataclass(frozen=True)
class Overlapping(Study):
    name = "test-overlapping"
    question = "Is an instance of two parts computed twice?"
    topic = "tests"
    sources = ()
    outputs = {"x": Output("a number")}
    presets = {"quick": {"one": {"scale": [1.0, 2.0], "seeds": 2}, "other": {"scale": [2.0, 3.0], "seeds": 2}}}

    scale: float = value(1.0, "scale")

    def simulate(self, rng):
        time.sleep(0.05)
        return {"x": self.scale * rng.standard_normal()}


def test_instances_that_two_parts_share_are_computed_once(store):
    waits = []
    run = unlazy.run(Overlapping, store=store, progress=lambda event: waits.append(event.kind == "waiting"))
    assert run.computed == 6
    assert not any(waits)
    one, other = run.parts["one"].simulated.x, run.parts["other"].simulated.x
    np.testing.assert_array_equal(one.sel(scale=2.0), other.sel(scale=2.0))


def test_a_store_from_before_there_were_leases_goes_on(study, store):
    unlazy.run(study("Hosted"), seeds=2, store=store)
    for table in ("leases", "owners"):
        change(store, f"DROP TABLE {table}")
    assert unlazy.run(study("Hosted"), seeds=2, store=store).computed == 0
    assert unlazy.run(study("Hosted"), seeds=3, store=store).computed == 3


def test_nothing_stays_taken_after_runs_that_end_or_fail(study, store):
    def fails(event):
        if event.kind == "advanced":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        unlazy.run(study("Hosted"), store=store, progress=fails)
    unlazy.run(study("Hosted"), store=store)
    db = sqlite3.connect(store)
    assert db.execute("SELECT (SELECT count(*) FROM owners), (SELECT count(*) FROM leases)").fetchone() == (0, 0)
    db.close()


def test_a_row_that_another_process_has_just_computed_again_is_kept(store, stored):
    row = Row(b"point", 0, 1.0, {"x": np.zeros(1)}, "{}")
    with Store(store) as opened:
        before = time.time()
        opened.write("s", "f", {b"point": "{}"}, [row])
        opened.discard(b"point", [0], before)
        assert len(stored(store)) == 1
        opened.discard(b"point", [0], time.time() + 1)
        assert len(stored(store)) == 0


@pytest.mark.parametrize(("host", "answer"), [(leases._host(), OURS), ("another", BUSY)], ids=["here", "there"])
def test_a_process_is_known_to_have_ended_on_its_own_machine_only(two, store, python, host, answer):
    first, second = two
    ended = python("")
    ended.communicate()
    first.take(INSTANCES[:1])
    change(store, "UPDATE owners SET host = ?, pid = ?", host, ended.pid)
    assert second.take(INSTANCES[:1]) == [answer]
