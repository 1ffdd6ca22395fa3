"""A simulation that the explorer started: it runs in a process of its own and tells how far it is."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from unlazy.app.setting import Setting, grouped
from unlazy.lab import registry

MOST_JOBS = 2
_RUNNING: set[Job] = set()
_LOCK = threading.Lock()


class Event(NamedTuple):
    """What a job tells: `kind` is estimate, progress, warning, done, refused, failed or cancelled."""

    kind: str
    message: str = ""
    done: int = 0
    total: int = 0
    missing: int = 0
    seconds: float = 0.0
    bytes: int = 0


class Job:
    """One simulation of a setting's points; results go to the store under the keys that the command line uses."""

    def __init__(
        self,
        setting: Setting,
        store: str | None = None,
        limit: float = 60.0,
        memory: float | None = None,
        visit: str = "",
    ) -> None:
        self.visit = visit
        self._task = {
            "own": "" if setting.study.name in registry.names() else registry.reference(setting.study),
            "query": grouped(setting.query),
            "store": store,
            "limit": limit,
            "memory": memory,
        }
        self._process: subprocess.Popen | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Stop at once; finished chunks are stored."""
        self.cancelled = True
        if self._process is not None:
            self._process.terminate()

    def events(self) -> Iterator[Event]:
        """Run, and yield what happens; the last event says how it ended."""
        with _LOCK:
            if len(_RUNNING) >= MOST_JOBS:
                yield Event("refused", f"{MOST_JOBS} simulations are running already; wait for one or cancel it")
                return
            _RUNNING.add(self)
        try:
            yield from self._run()
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            with _LOCK:
                _RUNNING.discard(self)

    def _run(self) -> Iterator[Event]:
        # A session of its own: Ctrl-C in the terminal is for the server, which then ends this process.
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "unlazy.app.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        if self.cancelled:
            process.terminate()
        try:
            process.stdin.write(json.dumps(self._task) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        last = ""
        for line in process.stdout:
            event = Event(**_known(json.loads(line)))
            last = event.kind
            yield event
        code = process.wait()
        if self.cancelled and last != "done":
            yield Event("cancelled", "cancelled: what was finished is stored")
        elif last not in ("done", "refused", "failed"):
            yield Event("failed", f"it ended without an answer (exit code {code}); was there enough memory?")


def follow(job: Job, tell: Callable[[Event], Any], finish: Callable[[], Any]) -> None:
    """Run a job and tell what happens, as long as there is a page to be told."""
    try:
        for event in job.events():
            tell(event)
        finish()
    except Exception:
        # The page of a visit that ended has lost its names.
        if not job.cancelled:
            raise


def cancel_visit(visit: str) -> None:
    """Stop the jobs of a visit that ended: nobody waits for them, and others may need the place."""
    for job in list(_RUNNING):
        if job.visit == visit:
            job.cancel()


def cancel_all() -> None:
    """Stop every job of this process."""
    for job in list(_RUNNING):
        job.cancel()


def _known(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name in Event._fields}
