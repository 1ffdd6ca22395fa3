"""Several studies at once: child processes that simulate into one store, each on cores of its own.

One that dies takes one study with it.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from unlazy.checks import InputError
from unlazy.lab.running.arithmetic import WrongNumbers
from unlazy.lab.running.child import END_SECONDS, Child
from unlazy.lab.running.events import Event, Listener, OutOfTime
from unlazy.lab.running.worker import SERVE

_LEAST_MEMORY = 2**29
"""The least budget of a worker: of the quick presets most programs need a fifth of it, the largest 464 MiB."""
_PASSED_ON = ("begun", "advanced", "waiting", "simulated", "warned")


def default_jobs(cores: int, budget: int) -> int:
    """One worker per core, as many as have half a gibibyte of the memory budget each."""
    return max(1, min(cores, budget // _LEAST_MEMORY))


class Workers:
    """Up to `count` processes that share the cores and the memory budget evenly."""

    def __init__(self, count: int, store: Path, budget: int, tell: Listener) -> None:
        self._arguments: dict[str, Any] = {"store": str(store), "memory": budget / count / 2**30}
        self._tell = tell
        self._shares = _shares(count)
        self._children: set[Child] = set()
        self._threads: list[threading.Thread] = []
        self._stopping = False
        self._lock = threading.Lock()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._stopping = True
            for child in self._children:
                child.stop()
        deadline = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for child in list(self._children):
            child.kill()
        for thread in self._threads:
            thread.join(END_SECONDS)

    def run(self, requests: Mapping[str, Mapping[str, Any]], deadline: float = math.inf) -> Iterator[Event]:
        """Begin at once what is asked for by study, and yield how each ended as it does, until the deadline."""
        todo, ended = deque(requests.items()), SimpleQueue[Any]()
        # A thread for each: no worker waits for the next study while the caller judges the last one.
        self._threads = [
            threading.Thread(target=self._work, args=(cores, todo, ended), daemon=True)
            for cores in self._shares[: len(todo)]
        ]
        for thread in self._threads:
            thread.start()
        return _until_all(ended, len(self._threads), deadline)

    def _work(self, cores: tuple[int, ...], todo: deque, ended: SimpleQueue) -> None:
        """The life of one worker after the other, as long as there is something to do."""
        child = None
        try:
            while todo and not self._stopping:
                if child is None or child.code is not None:
                    self._finish(child)
                    child = self._start(cores)
                try:
                    study, asked = todo.popleft()
                except IndexError:
                    break
                ended.put(self._ask(child, study, asked))
        except BaseException as error:
            ended.put(error)
        finally:
            self._finish(child)
            ended.put(None)

    def _start(self, cores: tuple[int, ...]) -> Child:
        # Under the lock: a process that starts while all are stopped would be forgotten.
        with self._lock:
            child = Child(SERVE, cores=cores, threads=max(1, len(cores)), **self._arguments)
            self._children.add(child)
            if self._stopping:
                child.stop()
            return child

    def _finish(self, child: Child | None) -> None:
        if child is not None:
            child.finish()
            with self._lock:
                self._children.discard(child)

    def _ask(self, child: Child, study: str, asked: Mapping[str, Any]) -> Event:
        child.send(asked)
        while (heard := child.hear()) is not None:
            event = Event(**{**heard, "study": study})
            if event.kind == "unfit":
                raise WrongNumbers(event.message)
            if event.kind in _PASSED_ON:
                self._tell(event)
            elif event.kind == "ready":
                child.ready = True
            else:
                return event
        if not child.ready and not self._stopping and (child.code or 0) > 0:
            raise InputError(f"worker processes end before they begin: {child.death}")
        return Event("failed", study, message=child.death)


def _until_all(ended: SimpleQueue, threads: int, deadline: float) -> Iterator[Event]:
    while threads:
        try:
            one = ended.get(timeout=None if math.isinf(deadline) else max(0.0, deadline - time.monotonic()))
        except Empty:
            raise OutOfTime from None
        if isinstance(one, BaseException):
            raise one
        if one is None:
            threads -= 1
        else:
            yield one


def _shares(count: int) -> list[tuple[int, ...]]:
    """The cores of each worker; empty where the platform cannot bind a process to cores."""
    if not hasattr(os, "sched_getaffinity"):
        return [()] * count
    cores = sorted(os.sched_getaffinity(0))
    return [tuple(cores[i::count]) or (cores[i % len(cores)],) for i in range(count)]
