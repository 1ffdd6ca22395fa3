"""Running chunks on Dask workers: the same chunks, the same keys, the same numbers."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from typing import Any

from unlazy.errors import InputError
from unlazy.lab.execute import Computed, memory_budget, run_chunk
from unlazy.lab.plan import Chunk

CONNECT_SECONDS = 8
_ALLOWED_FAILURES = 1000
"""A chunk may lose this many workers: on preemptible machines a dying worker says nothing about the chunk."""


class DaskExecutor:
    """Runs chunks on a Dask cluster: `local:N` starts N worker processes here, anything else is a scheduler's address.

    Dead workers cost only the chunks they were computing. A bounded number of chunks is under way at any time.
    """

    def __init__(self, address: str, budget: int | None = None) -> None:
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError:
            raise InputError("cluster needs the extra 'cluster': pip install 'unlazy[cluster]'") from None
        self._budget = budget
        self._cluster = None
        if address.startswith("local:"):
            count = address.removeprefix("local:")
            if not count.isdecimal() or int(count) < 1:
                raise InputError(f"cluster must be local:N with N >= 1 or tcp://HOST:PORT, got {address!r}")
            self._budget = budget or memory_budget(0.25 / int(count))
            self._cluster = LocalCluster(
                n_workers=int(count), threads_per_worker=1, processes=True, dashboard_address=None
            )
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s"}):
                self._client = Client(self._cluster or address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"cluster {address} cannot be reached: {reason}") from None
        self._client.run_on_scheduler(_raise_allowed_failures)
        self._check_workers(address)

    def _check_workers(self, address: str) -> None:
        """Refuse workers without this package: they could not read their chunks, and the run would wait for ever."""
        try:
            found = self._client.run(version, "unlazy")
        except Exception as error:
            raise InputError(f"the workers of cluster {address} cannot use unlazy: {error}") from None
        other = sorted(set(found.values()) - {version("unlazy")})
        if other:
            raise InputError(
                f"the workers of cluster {address} have unlazy {other[0]}, this process has {version('unlazy')}"
            )

    def map(self, chunks: Iterable[tuple[Any, Chunk]]) -> Iterator[tuple[Any, Computed]]:
        """Yield (tag, result) as chunks finish, in any order."""
        from distributed import as_completed

        queue = iter(chunks)
        tags: dict[Any, Any] = {}
        running = as_completed()

        def submit() -> bool:
            for tag, chunk in queue:
                future = self._client.submit(_work, _packed(chunk), self._budget, pure=False, retries=0)
                tags[future.key] = tag
                running.add(future)
                return True
            return False

        workers = max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))
        for _ in range(3 * workers):
            if not submit():
                break
        for future in running:
            tag = tags.pop(future.key)
            computed = future.result()
            future.release()
            submit()
            yield tag, computed

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _raise_allowed_failures(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = _ALLOWED_FAILURES


def _packed(chunk: Chunk) -> bytes:
    """A chunk for the wire; a study from a user's own file travels with it to workers that do not have the file."""
    import cloudpickle

    module = chunk.study.__module__
    if module.split(".")[0] != "unlazy" and module in sys.modules:
        cloudpickle.register_pickle_by_value(sys.modules[module])
    return cloudpickle.dumps(chunk)


def _work(packed: bytes, budget: int | None) -> Computed:
    return run_chunk(pickle.loads(packed), budget or _worker_budget(), threads=1)


@cache
def _worker_budget() -> int:
    """Measured once per worker: a budget that moved would compile programs anew."""
    return memory_budget()
