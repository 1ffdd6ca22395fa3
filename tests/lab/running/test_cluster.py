"""On a Dask cluster: the same numbers, also when workers die, and clear words when there is no cluster."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

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


def test_a_chunk_that_every_worker_dies_of_ends_the_run_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_ALLOWED_FAILURES", 0)
    (tmp_path / "deadly.py").write_text(
        "import os\n"
        "from dataclasses import dataclass\n"
        "from unlazy.lab import Output, Study\n"
        "@dataclass(frozen=True)\n"
        "class Deadly(Study):\n"
        "    name, topic, question, sources = 'deadly', 'tests', '?', ()\n"
        "    outputs = {'result': Output('result')}\n"
        "    presets = {'quick': {'seeds': 1}}\n"
        "    def simulate(self, rng):\n"
        "        os._exit(1)\n"
    )
    with pytest.raises(InputError, match=r"1 workers of cluster local:1 died of one chunk.*--memory"):
        unlazy.run(str(tmp_path / "deadly.py"), store=tmp_path / "s.sqlite", cluster="local:1")


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


def own_threads():
    """The threads of XLA in this process, and what each BLAS may use."""
    from threadpoolctl import threadpool_info

    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return names.count("tf_XLAEigen"), {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted where Linux lists them")


@linux
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread anyway")
def test_workers_have_as_many_threads_as_dask_gave_them(study, store, two_workers):
    from distributed import Client

    unlazy.run(study("Traced"), store=store, cluster=two_workers)
    with Client(two_workers) as client:
        assert set(client.run(lambda: own_threads()[0]).values()) <= {0, 1}
        assert 1 in client.run(lambda: own_threads()[0]).values()


UNLAZY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from unlazy.cli import main
main()
"""


@pytest.fixture
def started():
    """Start a program in a session of its own, as a terminal does; it ends with the test."""
    processes = []

    def start(*words, log=None):
        out = subprocess.PIPE if log is None else log.open("w")
        environment = {n: v for n, v in os.environ.items() if not n.endswith("_NUM_THREADS")}
        process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            stdout=out,
            stderr=subprocess.STDOUT if log else subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(pattern, log, seconds=60):
    end = time.monotonic() + seconds
    while not (found := re.search(pattern, log.read_text())):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
    return found


@linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SlowTraced", "SlowHosted"])
def test_a_cluster_of_processes_that_loses_a_worker_gives_the_same_numbers_without_a_word(
    study, store, stored, started, reference_of, tmp_path, kind
):
    from distributed import Client

    quiet = ["--dashboard-address", "127.0.0.1:0"]
    logs = [tmp_path / f"{name}.log" for name in ("scheduler", "one", "other")]
    scheduler = started("-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", *quiet, log=logs[0])
    address = wait_for(r"Scheduler at:\s+(tcp://\S+)", logs[0])[1]
    options = ["--nthreads", "1", "--local-directory", tmp_path, *quiet]
    one = started("-m", "dask", "worker", address, "--no-nanny", *options, log=logs[1])
    started("-m", "dask", "worker", address, *options, log=logs[2])
    for log in logs[1:]:
        wait_for("Starting established connection", log)

    command = ["run", reference_of(kind), "--seeds", "10", "--store", store, "--cluster", address]
    run = started("-c", UNLAZY, *command)
    while run.poll() is None and len(stored(store)) < 20:
        time.sleep(0.02)
    with Client(address) as client:
        found = list(client.run(own_threads).values())
    assert {count for count, _ in found} == {1 if kind == "SlowTraced" else 0}
    assert all(blas == {1} for _, blas in found)
    one.kill()
    out, error = run.communicate(timeout=120)
    assert (run.returncode, error) == (0, ""), out
    there = unlazy.run(study(kind), seeds=10, store=store)
    here = unlazy.run(study(kind), seeds=10, store=tmp_path / "here.sqlite")
    assert (there.computed, here.computed) == (0, 90)
    np.testing.assert_array_equal(there.simulated.result, here.simulated.result)

    again = started("-c", UNLAZY, *command[:2], "--seeds", "40", *command[4:])
    while again.poll() is None and len(stored(store)) < 120:
        time.sleep(0.02)
    scheduler.kill()
    _, error = again.communicate(timeout=60)
    assert (again.returncode, error) == (
        2,
        f"error: cluster {address} is lost: its scheduler does not answer any more\n",
    )


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_ends_local_workers_in_one_line(store, stored, started, reference_of):
    command = ["run", reference_of("SlowHosted"), "--seeds", "100", "--store", store, "--cluster", "local:2"]
    run = started("-c", UNLAZY, *command)
    while run.poll() is None and len(stored(store)) < 20:
        time.sleep(0.02)
    children = psutil.Process(run.pid).children(recursive=True)
    os.killpg(run.pid, signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 3
    assert error == "interrupted: what was finished is stored; the same command goes on from there\n"
    assert psutil.wait_procs(children, timeout=10)[1] == []


def test_a_cluster_without_workers_is_waited_for_and_said_so(study, store):
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, processes=True, dashboard_address="127.0.0.1:0") as empty:
        threading.Timer(1, empty.scale, [1]).start()
        with pytest.warns(UserWarning, match="has no workers yet"):
            assert unlazy.run(study("Hosted"), store=store, cluster=empty.scheduler_address).computed == 9


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
