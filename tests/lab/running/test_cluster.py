"""On a Dask cluster: the same numbers, also when workers die, and clear words when there is no cluster."""

import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
import xarray as xr

import unlazy
from unlazy.checks import InputError
from unlazy.lab.grid import preset_grids
from unlazy.lab.running import cluster
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.store import Store

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def two_workers():
    """The address of a scheduler with two worker processes, which come back when they are killed."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as started:
        yield started.scheduler_address


def workers(address):
    from distributed import Client

    with Client(address) as client:
        return list(client.run(os.getpid).values())


@pytest.mark.parametrize("kind", ["Traced", "Hosted", "TracedSingle"])
def test_a_users_own_study_travels_and_gives_the_same_numbers(study, store, two_workers, kind):
    here = unlazy.run(study(kind), store=store)
    there = unlazy.run(study(kind), store=store.with_name("cluster.sqlite"), cluster=two_workers)
    assert here.computed == there.computed
    xr.testing.assert_identical(here.simulated, there.simulated)


@pytest.mark.parametrize("kind", ["SlowTraced", "SlowHosted"])
def test_a_killed_worker_costs_no_result(study, store, stored, two_workers, kind):
    victims = workers(two_workers)
    assert len(victims) == 2

    def kill():
        while len(stored(store)) < 5:
            time.sleep(0.005)
        os.kill(victims[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    there = unlazy.run(study(kind), store=store, cluster=two_workers)
    killer.join()
    here = unlazy.run(study(kind), store=store.with_name("here.sqlite"))
    assert victims[0] not in workers(two_workers)
    np.testing.assert_array_equal(here.simulated.result, there.simulated.result)
    assert len(stored(store)) == there.computed == here.computed


def test_modules_beside_a_users_study_travel_with_it(tmp_path, two_workers):
    (tmp_path / "above_test_cluster.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "inside_test_cluster.py").write_text("def triple(x):\n    return 3 * x\n")
    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass\n"
        "import above_test_cluster\n"
        "from unlazy.lab import Output, Study, value\n"
        "@dataclass(frozen=True)\n"
        "class Own(Study):\n"
        "    name, topic, question, sources = 'own', 'tests', '?', ()\n"
        "    outputs = {'result': Output('result')}\n"
        "    presets = {'quick': {'scale': [1.0, 2.0], 'seeds': 2}}\n"
        "    scale: float = value(1.0, 'scale')\n"
        "    def simulate(self, rng):\n"
        "        import inside_test_cluster\n"
        "        return {'result': above_test_cluster.double(inside_test_cluster.triple(self.scale))}\n"
    )
    run = unlazy.run(f"{tmp_path / 'own.py'}:Own", store=tmp_path / "s.sqlite", cluster=two_workers)
    np.testing.assert_array_equal(run.simulated.result, [[6.0, 6.0], [12.0, 12.0]])


def test_an_exception_on_a_worker_comes_back_and_what_was_finished_stays(tmp_path, two_workers):
    (tmp_path / "failing.py").write_text(
        "from dataclasses import dataclass\n"
        "from unlazy.lab import Output, Study, static\n"
        "@dataclass(frozen=True)\n"
        "class Failing(Study):\n"
        "    name, topic, question, sources = 'failing', 'tests', '?', ()\n"
        "    outputs = {'result': Output('result')}\n"
        "    presets = {'quick': {'d': [1, 2, 3, 4], 'seeds': 1}}\n"
        "    d: int = static(1, 'dimension')\n"
        "    def simulate(self, rng):\n"
        "        if self.d == 4:\n"
        "            import time\n"
        "            time.sleep(0.5)\n"
        "            raise ZeroDivisionError('at d = 4')\n"
        "        return {'result': self.d}\n"
    )
    file = tmp_path / "s.sqlite"
    with pytest.raises(ZeroDivisionError, match="at d = 4"):
        unlazy.run(str(tmp_path / "failing.py"), store=file, cluster=two_workers)
    with Store(file) as opened:
        assert [c.instances for c in opened.contents()] == [3]


def test_a_worker_with_other_code_is_refused(store, two_workers, monkeypatch):
    """The submitting process believes that the code differs, as it does after an update on one side only."""
    from unlazy.lab.running import laboratory

    monkeypatch.setattr(laboratory, "fingerprint", lambda study: "of an edited study")
    with pytest.raises(InputError, match="another version of ridge-equivalent"):
        unlazy.run("ridge-equivalent", set={"d": 5, "n": 3}, seeds=1, store=store, cluster=two_workers)


def test_local_workers_are_started_and_ended(study, store):
    grids = preset_grids(study("Hosted"), "quick", seeds=2)
    with Laboratory(store, "local:1") as laboratory:
        (started,) = laboratory.executor._client.run(os.getpid).values()
        assert laboratory.run(study("Hosted"), grids).computed == 6
    assert not psutil.pid_exists(started)


@pytest.mark.parametrize("address", ["local:0", "local:", "local:-1", "local:two", "nonsense", ""])
def test_a_local_cluster_without_workers_is_refused(study, store, address):
    with pytest.raises(InputError, match=f"local:N with N from 1 to 999.*{address}"):
        unlazy.run(study("Hosted"), store=store, cluster=address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://no-such-host.invalid:8786", "tcp://"])
def test_a_cluster_that_cannot_be_reached_is_named(study, store, monkeypatch, address):
    assert cluster.CONNECT_SECONDS < 10
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match=f"cluster {address}"):
        unlazy.run(study("Hosted"), store=store, cluster=address)
