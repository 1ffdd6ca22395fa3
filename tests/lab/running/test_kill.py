"""A run may die at any moment: what was committed stays, and the same command goes on from there."""

import signal
import time
from contextlib import suppress

import numpy as np
import pytest

import unlazy

RUN = """
import sys, unlazy
unlazy.run(sys.argv[1], store=sys.argv[2])
"""
# A shell that runs tests in the background has their children ignore Ctrl-C.
UNLAZY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from unlazy.cli import main
main()
"""
KINDS = ["SlowTraced", "SlowHosted"]
ROWS = 45


def wait_for_rows(process, store, stored, count):
    """Wait until the store has `count` rows or the process has ended."""
    while process.poll() is None and len(stored(store)) < count:
        time.sleep(0.005)


def kill_again_and_again(start, store, stored, rng, kills):
    """Start a sweep and kill it at random moments until it completes; returns how often it was killed.

    Every attempt may finish a few rows first, so that the sweep ends; the first kills come earlier than any row.
    """
    killed, last = 0, {}
    while True:
        process = start()
        if killed < kills:
            if killed < 2:
                time.sleep(rng.uniform(0, 0.8))
            else:
                wait_for_rows(process, store, stored, len(last) + rng.integers(1, ROWS // kills))
                time.sleep(rng.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
        _, error = process.communicate(timeout=120)
        rows = stored(store)
        assert last.items() <= rows.items()
        last = rows
        if process.returncode == 0:
            return killed
        assert process.returncode == -signal.SIGKILL, error
        killed += 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_killed_again_and_again_loses_nothing_and_ends_as_if_it_had_not_been(
    study, store, stored, python, reference_of, kind
):
    rng = np.random.default_rng(0)
    killed = kill_again_and_again(lambda: python(RUN, reference_of(kind), store), store, stored, rng, kills=4)
    assert killed >= 4
    assert len(stored(store)) == ROWS
    finished = unlazy.run(study(kind), store=store)
    assert finished.computed == 0
    whole = unlazy.run(study(kind), store=store.with_name("uninterrupted.sqlite"))
    assert whole.computed == ROWS
    np.testing.assert_array_equal(finished.simulated.result, whole.simulated.result)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_killed_at_other_moments_loses_nothing(study, store, stored, python, reference_of, kind, seed):
    rng = np.random.default_rng([1, seed])
    kill_again_and_again(lambda: python(RUN, reference_of(kind), store), store, stored, rng, kills=15)
    whole = unlazy.run(study(kind), store=store.with_name("uninterrupted.sqlite"))
    finished = unlazy.run(study(kind), store=store)
    assert finished.computed == 0
    np.testing.assert_array_equal(finished.simulated.result, whole.simulated.result)


@pytest.mark.parametrize("kind", KINDS)
def test_interrupting_a_run_keeps_what_was_finished_and_exits_with_3(study, store, stored, python, reference_of, kind):
    command = ["run", reference_of(kind), "--store", str(store)]
    process = python(UNLAZY, *command)
    wait_for_rows(process, store, stored, 5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 3, error
    assert error.splitlines()[-1].startswith("interrupted: what was finished is stored")
    before = stored(store)
    assert 5 <= len(before) < ROWS
    again = python(UNLAZY, *command)
    _, error = again.communicate(timeout=120)
    assert again.returncode == 0, error
    assert before.items() <= stored(store).items()
    assert len(stored(store)) == ROWS
    whole = unlazy.run(study(kind), store=store.with_name("uninterrupted.sqlite"))
    np.testing.assert_array_equal(unlazy.run(study(kind), store=store).simulated.result, whole.simulated.result)


def swallowing(event):
    """Progress during which Ctrl-C is pressed and lost, as in a destructor of a library."""
    if event.kind == "advanced":
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_a_library_swallows_still_ends_the_run(study, store, stored):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            unlazy.run(study("SlowHosted"), store=store, progress=swallowing)
        assert len(stored(store)) == 1
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
