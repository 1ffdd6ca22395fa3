"""A simulation that the explorer started: it runs in a process of its own and tells how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from unlazy.app.choices import PRESET
from unlazy.app.setting import ExplorerSetting
from unlazy.lab.running.child import Child
from unlazy.lab.running.events import Event
from unlazy.lab.running.worker import SERVE, request

MOST_JOBS = 2
_RUNNING: set[Job] = set()
_LOCK = threading.Lock()


class Job:
    """One simulation of a setting's points; results go to the store under the keys that the command line uses."""

    def __init__(
        self,
        setting: ExplorerSetting,
        store: str | None = None,
        limit: float = 60.0,
        memory: float | None = None,
        visit: str = "",
    ) -> None:
        self.visit, self.limit = visit, limit
        self.done = self.total = 0
        """Instances that are simulated, and all that were missing."""
        self._request = request(
            setting.study,
            PRESET,
            set=dict(setting.values),
            over=setting.axes,
            seeds=setting.seeds,
            part=setting.part,
        )
        self._arguments: dict[str, Any] = {"store": store, "memory": memory}
        self._child: Child | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Stop at once; finished chunks are stored."""
        self.cancelled = True
        if self._child is not None:
            self._child.stop()

    def events(self) -> Iterator[Event]:
        """Run, and yield what happens; the last event says how it ended."""
        with _LOCK:
            if len(_RUNNING) >= MOST_JOBS:
                text = f"{MOST_JOBS} simulations are running already; wait for one or cancel it"
                yield Event("refused", message=text)
                return
            _RUNNING.add(self)
        try:
            self._child = Child(SERVE, quiet=True, **self._arguments)
            if self.cancelled:
                self._child.stop()
            yield from self._run(self._child)
        finally:
            if self._child is not None:
                self._child.kill()
                self._child.finish()
            with _LOCK:
                _RUNNING.discard(self)

    def _run(self, child: Child) -> Iterator[Event]:
        child.send({**self._request, "estimate": True})
        while (heard := child.hear()) is not None:
            event = Event(**heard)
            if event.kind == "begun":
                self.done, self.total = 0, event.count
            elif event.kind == "advanced":
                self.done += event.count
            elif event.kind in ("unfit", "oversized"):
                event = replace(event, kind="refused")
            elif event.kind == "failed":
                event = replace(event, message=event.message.partition("\n")[0])
            if event.kind not in ("ready", "simulated"):
                yield event
            if event.kind in ("ended", "refused", "failed"):
                return
            if event.kind == "estimated":
                if event.seconds > self.limit:
                    yield Event("refused", message=_too_long(event.seconds, self.limit))
                    return
                child.send(self._request)
        if self.cancelled:
            yield Event("cancelled", message="cancelled: what was finished is stored")
        else:
            text = f"it ended without an answer (exit code {child.code}); was there enough memory?"
            yield Event("failed", message=text)


def _too_long(seconds: float, limit: float) -> str:
    return (
        f"this would take about {duration(seconds)}, more than the limit of {duration(limit)}: choose smaller sizes, "
        "fewer points or seeds, a higher limit, or run the command below in a terminal"
    )


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 1:
        return "a second"
    for unit, size in (("hours", 5400.0), ("minutes", 90.0)):
        if seconds > size:
            return f"{seconds / (3600 if unit == 'hours' else 60):.0f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"


def first_look(setting: ExplorerSetting) -> ExplorerSetting:
    """What is simulated where a page would open without a picture: one seed of each point."""
    return replace(setting, seeds=1)


def follow(job: Job, tell: Callable[[Event, Job], Any], finish: Callable[[], Any]) -> None:
    """Run a job and tell what happens, as long as there is a page to be told."""
    try:
        for event in job.events():
            tell(event, job)
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
