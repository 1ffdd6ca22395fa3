"""Several studies at once: worker processes that simulate into one store, each on cores of its own.

They are started anew and not forked, because JAX does not survive a fork. A worker that dies takes one study with it;
workers whose parent dies end themselves.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import Axis, Grid
from unlazy.lab.running.arithmetic import WrongNumbers
from unlazy.lab.running.execute import TooLarge, share_compilations
from unlazy.lab.study import Study

_LEAST_MEMORY = 2**29
"""The least budget of a worker: of the quick presets most programs need a fifth of it, the largest 464 MiB."""
_END_SECONDS = 10
"""How long a worker that was told to end may take before it is killed."""


class Task(NamedTuple):
    """A study to simulate, in a form that travels to another process: its claims and figure need not."""

    name: str
    reference: str
    parts: tuple[tuple[str, Mapping[str, Any], tuple[Axis, ...], int], ...]


class Finished(NamedTuple):
    """What came of a task; `error` says why it did not run, `refused` whether that was for its size."""

    name: str
    computed: int = 0
    seconds: float = 0.0
    error: str | None = None
    refused: bool = False


class Listener(Protocol):
    """Who is told how far the studies are; it is called from another thread."""

    def begin(self, study: str, total: int) -> None: ...

    def advance(self, study: str, count: int) -> None: ...

    def warn(self, message: str) -> None: ...


def task_of(study: type[Study], grids: Mapping[str, Grid]) -> Task:
    """The task that computes what a store lacks of the grids."""
    parts = tuple((g.part, g.fixed, g.axes, g.seeds) for g in grids.values())
    return Task(study.name, registry.reference(study), parts)


def default_jobs(cores: int, budget: int) -> int:
    """One worker per core, as many as have half a gibibyte of the memory budget each."""
    return max(1, min(cores, budget // _LEAST_MEMORY))


class Workers:
    """Up to `count` processes that share the cores and the memory budget evenly."""

    def __init__(self, count: int, store: Path, budget: int, listener: Listener) -> None:
        self._arguments = (str(store), budget // count)
        self._listener = listener
        self._free = deque(_shares(count))
        self._running: dict[Connection, _Worker] = {}
        self._stopping = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._stopping = True
            left = list(self._running.values())
            for worker in left:
                worker.process.terminate()
        for worker in left:
            worker.process.join(_END_SECONDS)
            worker.end()
        if self._thread is not None:
            self._thread.join()

    def run(self, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Begin at once, and yield what came of the tasks as they finish."""
        finished: SimpleQueue[Finished | BaseException | None] = SimpleQueue()
        # A thread of its own: no worker waits for the next study while the caller judges the last one.
        self._thread = threading.Thread(target=self._serve, args=(deque(tasks), finished), daemon=True)
        self._thread.start()
        return _until_none(finished)

    def _serve(self, tasks: deque[Task], finished: SimpleQueue) -> None:
        try:
            while not self._stopping:
                while tasks and self._free:
                    self._start()
                    self._give(next(w for w in self._running.values() if w.task is None), tasks)
                if not self._running:
                    break
                for ready in wait(list(self._running)):
                    worker = self._running[ready]  # type: ignore[index]
                    done = self._hear(worker)
                    if done is not None:
                        finished.put(done)
                        worker.task = None
                        self._give(worker, tasks)
        except BaseException as error:
            finished.put(error)
        finished.put(None)

    def _start(self) -> None:
        cores = self._free.popleft()
        # Under the lock: a process that starts while all are stopped would be forgotten.
        with self._lock:
            if self._stopping:
                return
            here, there = multiprocessing.get_context("spawn").Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=_work, args=(there, *self._arguments, cores), daemon=True
            )
            process.start()
            there.close()
            self._running[here] = _Worker(here, process, cores)

    def _give(self, worker: _Worker, tasks: deque[Task]) -> None:
        """Send a worker its next task, or home."""
        if worker.connection not in self._running:
            return
        worker.task = tasks.popleft() if tasks else None
        # One that has died meanwhile shows when it is heard.
        with contextlib.suppress(OSError):
            worker.connection.send(worker.task)
        if worker.task is None:
            self._retire(worker)

    def _hear(self, worker: _Worker) -> Finished | None:
        assert worker.task is not None
        try:
            kind, *content = worker.connection.recv()
        except (EOFError, OSError):
            name = worker.task.name
            self._retire(worker)
            code = worker.process.exitcode
            if not worker.ready and code is not None and code > 0:
                raise InputError(
                    f"worker processes ended with exit code {code} before they began: a script that starts them must "
                    'do so under `if __name__ == "__main__":`, or with jobs=1'
                ) from None
            return Finished(name, error=_death(worker.process.exitcode))
        if kind == "ready":
            worker.ready = True
        elif kind == "unfit":
            raise WrongNumbers(*content)
        elif kind == "begin":
            self._listener.begin(worker.task.name, *content)
        elif kind == "advance":
            self._listener.advance(worker.task.name, *content)
        elif kind == "warn":
            self._listener.warn(*content)
        else:
            return Finished(worker.task.name, *content)
        return None

    def _retire(self, worker: _Worker) -> None:
        worker.process.join(_END_SECONDS)
        worker.end()
        with self._lock:
            self._running.pop(worker.connection, None)
        worker.connection.close()
        self._free.append(worker.cores)


def _until_none(finished: SimpleQueue) -> Iterator[Finished]:
    while (one := finished.get()) is not None:
        if isinstance(one, BaseException):
            raise one
        yield one


class _Worker:
    def __init__(self, connection: Connection, process: Any, cores: tuple[int, ...]) -> None:
        self.connection, self.process, self.cores = connection, process, cores
        self.task: Task | None = None
        self.ready = False

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _shares(count: int) -> list[tuple[int, ...]]:
    """The cores of each worker; empty where the platform cannot bind a process to cores."""
    if not hasattr(os, "sched_getaffinity"):
        return [()] * count
    cores = sorted(os.sched_getaffinity(0))
    return [tuple(cores[i::count]) or (cores[i % len(cores)],) for i in range(count)]


def _death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else str(-code)
    hint = ", as the system does where memory is short" if -code == 9 else ""
    return f"its process was ended by signal {name}{hint}"


def _work(connection: Connection, store: str, budget: int, cores: tuple[int, ...]) -> None:
    """The life of a worker."""
    # Ctrl-C reaches every process of a terminal; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if cores:
        # XLA counts these when it is loaded and starts as many threads.
        os.sched_setaffinity(0, cores)
    share_compilations()
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    from unlazy.lab.running.laboratory import Laboratory

    threadpool_limits(max(1, len(cores)), user_api="blas")
    tell = _Remote(connection)
    tell.send("ready")
    warnings.showwarning = lambda message, *_: tell.warn(str(message))
    with Laboratory(store, memory=budget / 2**30, progress=tell) as laboratory:
        while (task := connection.recv()) is not None:
            start = time.perf_counter()
            try:
                study = registry.find(task.reference)
                grids = {p[0]: Grid(study, *p) for p in task.parts}
                _, computed = laboratory.simulate(study, grids)
                tell.send("done", computed, time.perf_counter() - start)
            except WrongNumbers as error:
                tell.send("unfit", str(error))
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                spent = time.perf_counter() - start
                tell.send("done", 0, spent, reason, isinstance(error, TooLarge))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Remote:
    """The progress of a laboratory, sent to the parent; several threads may warn at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, *message: Any) -> None:
        with self._lock:
            self._connection.send(message)

    def begin(self, title: str, total: int) -> None:
        self.send("begin", total)

    def advance(self, count: int) -> None:
        self.send("advance", count)

    def end(self) -> None:
        pass

    def warn(self, message: str) -> None:
        self.send("warn", message)
