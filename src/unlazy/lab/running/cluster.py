"""Running chunks on Dask workers: the same chunks, the same keys, the same numbers."""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from unlazy.checks import InputError
from unlazy.lab.running.events import Event, Listener
from unlazy.lab.running.execute import Computed, memory_budget, run_chunk
from unlazy.lab.running.fingerprint import dependencies, fingerprint
from unlazy.lab.running.plan import Chunk
from unlazy.lab.study import Study
from unlazy.words import brief

CONNECT_SECONDS = 8
_ALLOWED_FAILURES = 100
"""A chunk may lose this many workers: on preemptible machines a dying worker says nothing about the chunk."""
_IGNORES_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""For workers here: Ctrl-C reaches every process of a terminal, and the one that started them decides."""
_LOGGERS = ("distributed", "distributed.client")
"""Dask's words on workers that die and connections that close: of what matters the run speaks itself."""


class DaskExecutor:
    """Runs chunks on a Dask cluster: `local:N` starts N worker processes here, anything else is a scheduler's address.

    Dead workers cost only the chunks they were computing. A bounded number of chunks is under way at any time.
    """

    def __init__(self, address: str, budget: int | None, tell: Listener) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise InputError("cluster needs the extra 'cluster': pip install 'unlazy[cluster]'") from None
        self._address, self._budget = address, budget
        self._cluster: Any = None
        self._client: Any = None
        local = re.fullmatch(r"local:([1-9]\d{0,2})", address) if isinstance(address, str) else None
        if not local and not (isinstance(address, str) and "://" in address):
            raise InputError(f"cluster must be local:N with N from 1 to 999 or tcp://HOST:PORT, got {brief(address)}")
        self._levels = {name: logging.getLogger(name).level for name in _LOGGERS}
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._connect(int(local[1]) if local else 0)
            self._check_workers(tell)
        except BaseException:
            self.close()
            raise

    def _connect(self, local: int) -> None:
        import dask
        from distributed import Client, LocalCluster

        if local:
            self._budget = memory_budget(0.25 / local) if self._budget is None else self._budget
            self._cluster = LocalCluster(
                n_workers=local,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                preload=[_IGNORES_INTERRUPTS],
            )
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s"}):
                self._client = Client(self._cluster or self._address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"cluster {self._address} cannot be reached: {reason}") from None
        self._client.run_on_scheduler(_raise_allowed_failures)

    def _check_workers(self, tell: Listener) -> None:
        """Refuse workers without this package: they could not read their chunks, and the run would wait for ever."""
        try:
            found = self._client.run(version, "unlazy")
        except Exception as error:
            raise InputError(f"the workers of cluster {self._address} cannot use unlazy: {error}") from None
        if not found:
            message = f"cluster {self._address} has no workers yet: the run waits until there is one"
            tell(Event("warned", message=message))
        other = sorted(set(found.values()) - {version("unlazy")})
        if other:
            raise InputError(
                f"the workers of cluster {self._address} have unlazy {other[0]}, this process has {version('unlazy')}"
            )

    def map(self, chunks: Iterable[tuple[Any, Chunk]]) -> Iterator[tuple[Any, Computed]]:
        """Yield (tag, result) as chunks finish, in any order."""
        try:
            yield from self._map(chunks)
        except Exception as error:
            from distributed import CancelledError, KilledWorker

            if isinstance(error, KilledWorker):
                lost = f"{_ALLOWED_FAILURES + 1} workers of cluster {self._address} died of one chunk"
                raise InputError(
                    f"{lost}, as they do where memory is short; choose smaller sizes or --memory"
                ) from None
            if self._client.status == "running" and not isinstance(error, CancelledError):
                raise
            raise InputError(f"cluster {self._address} is lost: its scheduler does not answer any more") from None

    def _map(self, chunks: Iterable[tuple[Any, Chunk]]) -> Iterator[tuple[Any, Computed]]:
        from distributed import as_completed

        queue = iter(chunks)
        tags: dict[Any, Any] = {}
        running = as_completed()

        def submit() -> bool:
            for tag, chunk in queue:
                work = _packed(chunk), _folder(chunk.study), self._budget
                future = self._client.submit(_work, *work, pure=False, retries=0)
                tags[future.key] = tag
                running.add(future)
                return True
            return False

        def fill() -> None:
            # Workers come and go: those of a batch system may arrive long after the first chunk.
            workers = max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))
            while len(tags) < 3 * workers and submit():
                pass

        fill()
        for future in running:
            tag = tags.pop(future.key)
            computed = future.result()
            future.release()
            fill()
            yield tag, computed

    def close(self) -> None:
        for started in (self._client, self._cluster):
            if started is not None:
                started.close()
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)


def _raise_allowed_failures(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = _ALLOWED_FAILURES


def _packed(chunk: Chunk) -> bytes:
    """A chunk for the wire; a study from a user's own file travels in it, with the modules that it has imported."""
    import cloudpickle

    if not _in_package(chunk.study):
        for name in (chunk.study.__module__, *dependencies(chunk.study)):
            if name.split(".")[0] != "unlazy" and name in sys.modules:
                cloudpickle.register_pickle_by_value(sys.modules[name])
    return cloudpickle.dumps(chunk)


def _in_package(study: type[Study]) -> bool:
    return study.__module__.split(".")[0] == "unlazy"


def _folder(study: type[Study]) -> str | None:
    """Where a user's study imports from while it runs; workers see it there if they share the file system."""
    return None if _in_package(study) else str(Path(inspect.getfile(study)).resolve().parent)


def _work(packed: bytes, folder: str | None, budget: int | None) -> Computed:
    _limit_threads()
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    chunk = pickle.loads(packed)
    if _in_package(chunk.study) and fingerprint(chunk.study) != chunk.fingerprint:
        raise InputError(
            f"cluster has a worker with another version of {chunk.study.name}; install the same unlazy there and "
            "restart the workers"
        )
    return run_chunk(chunk, _worker_budget() if budget is None else budget)


@cache
def _limit_threads() -> None:
    """As many threads of XLA as the worker has, and one of BLAS for each, however the worker was started."""
    import scipy.linalg  # noqa: F401
    from distributed import get_worker
    from threadpoolctl import threadpool_limits

    # XLA starts its threads with its first program; none of its flags limits them.
    os.environ.setdefault("NPROC", str(get_worker().state.nthreads))
    threadpool_limits(1, user_api="blas")


@cache
def _worker_budget() -> int:
    """A quarter of the free memory or half of what Dask lets the worker have, shared by its threads.

    Measured once per worker: a budget that moved would compile programs anew.
    """
    from distributed import get_worker

    worker = get_worker()
    allowed = worker.memory_manager.memory_limit
    return min(memory_budget(), allowed // 2 if allowed else sys.maxsize) // worker.state.nthreads
