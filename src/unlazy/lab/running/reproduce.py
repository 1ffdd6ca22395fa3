"""All studies, one after the other or several at once, and what came of them."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from unlazy.checks import InputError
from unlazy.lab.claims import KINDS, count
from unlazy.lab.grid import Grid, preset_grids
from unlazy.lab.running.arithmetic import WrongNumbers, cores
from unlazy.lab.running.execute import memory_budget
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.plan import group_points
from unlazy.lab.running.processes import Finished, Task, Workers, default_jobs, task_of
from unlazy.lab.running.progress import heeding_interrupts
from unlazy.lab.running.result import Run
from unlazy.lab.running.run import command_line
from unlazy.lab.running.store import Store
from unlazy.lab.study import Study

_PROGRAM_SECONDS = 2.0
_STUDY_SECONDS = 3.0
"""What compiling a program takes, and all else in a study of unknown length."""
_JOBS_PER_CORE = 4
"""More processes than this only take each other's memory."""


class Watch(Protocol):
    """Who sees a reproduction while it goes on. `begin`, `advance` and `warn` may come from another thread.

    One whose output fails, as a pipe does that is read no further, is not asked again; the studies go on.
    """

    def expect(self, studies: Sequence[type[Study]], seconds: Mapping[str, float], jobs: int) -> None: ...

    def begin(self, study: str, total: int) -> None: ...

    def advance(self, study: str, count: int) -> None: ...

    def warn(self, message: str) -> None: ...

    def postponed(self, study: str, reason: str) -> None: ...

    def done(self, run: Run) -> None: ...

    def broken(self, study: type[Study], reason: str) -> None: ...


class Outcome(NamedTuple):
    """The runs in the order of the studies, why the others did not run, and how long all took."""

    studies: Sequence[type[Study]]
    runs: list[Run]
    broken: dict[str, str]
    seconds: float

    @property
    def as_documented(self) -> bool:
        return not self.broken and all(v.as_documented for run in self.runs for v in run.verdicts)

    def as_json(self) -> dict[str, Any]:
        """One object: every study with its claims, those that did not run with the reason, and the counts."""
        ran = {run.study.name: run for run in self.runs}
        studies = []
        for cls in self.studies:
            entry: dict[str, Any] = {"study": cls.name, "topic": cls.topic, "error": self.broken.get(cls.name)}
            if cls.name in ran:
                run = ran[cls.name]
                claims = [{**v.as_json(), "as_documented": v.as_documented, "kind": v.kind} for v in run.verdicts]
                entry.update(seconds=run.seconds, computed=run.computed, diverged=run.divergence, claims=claims)
            studies.append(entry)
        counts = count(v for run in self.runs for v in run.verdicts)
        return {
            "studies": studies,
            "counts": {**{name: counts[name] for name in KINDS}, "did not run": len(self.broken)},
            "seconds": self.seconds,
        }


def check_jobs(jobs: int | None, cluster: str | None = None) -> None:
    """Refuse a number of processes that makes no sense here."""
    if jobs is None:
        return
    most = _JOBS_PER_CORE * cores()
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= most:
        raise InputError(f"jobs must be an integer from 1 to {most}, {_JOBS_PER_CORE} per core here, got {jobs!r}")
    if cluster is not None and jobs != 1:
        raise InputError(f"jobs is for this machine and cannot be {jobs} with cluster {cluster}; the cluster computes")


def reproduce(
    studies: Sequence[type[Study]],
    watch: Watch,
    *,
    preset: str = "quick",
    store: Any = None,
    cluster: str | None = None,
    memory: float | None = None,
    jobs: int | None = None,
    longest: Mapping[str, float] | None = None,
    each: Callable[[Run], None] | None = None,
) -> Outcome:
    """Run studies and judge their claims; what one of them raises ends that one only.

    `longest` has the seconds of studies of which the store does not tell how long they take: the longest start first.
    `each` gets every run as soon as it is judged, while others are still simulated.

    `jobs` processes simulate at the same time, by default as many as there are cores and memory for; the numbers do not
    depend on it. A script that calls this must do so under `if __name__ == "__main__":`, because the processes import
    it again. With a cluster its workers compute, study after study.
    """
    start = time.perf_counter()
    if sys.modules["__mp_main__"].__name__ == "__mp_main__" and multiprocessing.parent_process() is None:
        # A worker is importing a script that lacks the guard; its parent says so.
        sys.exit(1)
    check_jobs(jobs, cluster)
    watch = cast(Watch, _Enduring(watch))
    # All fingerprints are taken now, while the code that is loaded is the code on disk.
    for cls in studies:
        with contextlib.suppress(InputError):
            fingerprint(cls)
    runs: dict[str, Run] = {}
    broken: dict[str, str] = {}
    with Laboratory(store, cluster, memory, _OneByOne(watch)) as laboratory:
        budget = memory_budget() if laboratory.budget is None else laboratory.budget
        if jobs is None:
            jobs = 1 if cluster is not None else default_jobs(cores(), budget)

        def judge(cls: type[Study], work: Finished | None = None) -> None:
            reason = None if work is None else work.error
            # One broken study must not take the others with it.
            try:
                if reason is None:
                    run = laboratory.run(cls, preset_grids(cls, preset), command_line(cls, preset, None, None, None))
                    if work is not None:
                        run = dataclasses.replace(run, computed=work.computed, seconds=run.seconds + work.seconds)
                    if each is not None:
                        each(run)
            except WrongNumbers:
                # What computes wrong numbers does so in all studies.
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
            if reason is None:
                runs[cls.name] = run
                watch.done(run)
            else:
                broken[cls.name] = reason
                watch.broken(cls, reason)

        lacking, seconds = _lacking(laboratory, studies, preset, longest or {})
        watch.expect(studies, seconds, jobs)
        if jobs == 1:
            for cls in studies:
                judge(cls)
        else:
            _several(laboratory, studies, lacking, seconds, jobs, budget, watch, judge)
    ordered = [runs[cls.name] for cls in studies if cls.name in runs]
    return Outcome(studies, ordered, broken, time.perf_counter() - start)


def _lacking(
    laboratory: Laboratory, studies: Sequence[type[Study]], preset: str, longest: Mapping[str, float]
) -> tuple[dict[str, Task], dict[str, float]]:
    """The studies of which the store lacks something: what to do, and for how many seconds probably."""
    known = _known_rates(laboratory.store)
    lacking, seconds = {}, {}
    for cls in studies:
        try:
            grids = preset_grids(cls, preset)
            for grid in grids.values():
                grid.validate()
            missing = sum(len(w.missing) for w in laboratory.load(cls, grids)[1])
        except Exception:
            # The judge meets the same and says so.
            missing = 0
        if missing:
            lacking[cls.name] = task_of(cls, grids)
            seconds[cls.name] = expected_seconds(cls, grids, missing, known.get(cls.name), longest.get(cls.name))
    return lacking, seconds


def _several(
    laboratory: Laboratory,
    studies: Sequence[type[Study]],
    lacking: Mapping[str, Task],
    seconds: Mapping[str, float],
    jobs: int,
    budget: int,
    watch: Watch,
    judge: Any,
) -> None:
    """Have workers simulate what the store lacks, the longest studies first, and judge each as it is done."""
    by_name = {cls.name: cls for cls in studies}
    order = sorted(lacking, key=lambda name: -seconds[name])
    refused = []
    with (
        heeding_interrupts() as check_interrupts,
        Workers(min(jobs, len(order)) or 1, laboratory.store.path, budget, watch) as workers,
        # What does not fit into a share of the memory may fit into all of it.
        Workers(1, laboratory.store.path, budget, watch) as alone,
    ):
        working = workers.run(lacking[name] for name in order)
        for cls in studies:
            if cls.name not in lacking:
                judge(cls)
        for work in working:
            if work.refused:
                refused.append(work.name)
                watch.postponed(work.name, str(work.error))
            else:
                judge(by_name[work.name], work)
            check_interrupts()
        for work in alone.run(lacking[name] for name in refused):
            judge(by_name[work.name], work)


def _known_rates(store: Store) -> dict[str, float]:
    """The seconds per instance of every study in a store, by whichever code was slowest."""
    rates: dict[str, float] = {}
    for c in store.contents():
        rates[c.study] = max(rates.get(c.study, 0.0), c.seconds / c.instances)
    return rates


def expected_seconds(
    study: type[Study], grids: Mapping[str, Grid], missing: int, rate: float | None = None, whole: float | None = None
) -> float:
    """A guess of how long what is missing takes: from the seconds per instance or of the whole, else by size."""
    programs = 0 if study.is_hosted() else sum(len(group_points(g, "")) for g in grids.values())
    if rate is not None:
        return rate * missing + _PROGRAM_SECONDS * programs
    if whole is None:
        whole = _STUDY_SECONDS + _PROGRAM_SECONDS * programs
    return whole * missing / sum(g.size * g.seeds for g in grids.values())


class _Enduring:
    """A watch that is left alone when its output fails."""

    def __init__(self, watch: Watch) -> None:
        self._watch: Watch | None = watch

    def __getattr__(self, event: str) -> Callable[..., None]:
        def tell(*what: Any) -> None:
            watch = self._watch
            if watch is None:
                return
            try:
                getattr(watch, event)(*what)
            except OSError:
                self._watch = None

        return tell


class _OneByOne:
    """The progress of a laboratory that runs study after study, for a watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._study = ""

    def begin(self, title: str, total: int) -> None:
        self._study = title
        self._watch.begin(title, total)

    def advance(self, count: int) -> None:
        self._watch.advance(self._study, count)

    def end(self) -> None:
        pass

    def warn(self, message: str) -> None:
        self._watch.warn(message)
