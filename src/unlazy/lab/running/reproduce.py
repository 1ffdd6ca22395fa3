"""All studies, one after the other or several at once, and what came of them."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from unlazy.checks import InputError
from unlazy.lab.claims import KINDS, count
from unlazy.lab.grid import MAIN, check_stream, preset_grids
from unlazy.lab.running.arithmetic import WrongNumbers, cores
from unlazy.lab.running.cost import expected_seconds, known_rates
from unlazy.lab.running.events import Event, Listener, OutOfTime, heeding_interrupts, only_warn
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.processes import Workers, default_jobs
from unlazy.lab.running.result import Run
from unlazy.lab.running.run import command_line
from unlazy.lab.running.worker import request
from unlazy.lab.study import Study
from unlazy.words import brief

_JOBS_PER_CORE = 4
"""More processes than this only take each other's memory."""


class Outcome(NamedTuple):
    """The runs in the order of the studies, why others did not run, how long all took, and what is unfinished."""

    studies: Sequence[type[Study]]
    runs: list[Run]
    broken: dict[str, str]
    seconds: float
    unfinished: Sequence[str] = ()

    @property
    def as_documented(self) -> bool:
        return not self.broken and all(run.as_documented for run in self.runs)

    def as_json(self) -> dict[str, Any]:
        """One object: every study with its claims, those that did not run with the reason, and the counts."""
        ran = {run.study.name: run for run in self.runs}
        studies = []
        for cls in self.studies:
            entry: dict[str, Any] = {"study": cls.name, "topic": cls.topic, "error": self.broken.get(cls.name)}
            if cls.name in ran:
                run = ran[cls.name]
                kinds = [{"as_documented": v.as_documented, "kind": v.kind} for v in run.verdicts]
                claims = [claim | kind for claim, kind in zip(run.claims_json(), kinds, strict=True)]
                entry.update(seconds=run.seconds, computed=run.computed, diverged=run.divergence, claims=claims)
            studies.append(entry)
        counts = count(v for run in self.runs for v in run.verdicts)
        return {
            "studies": studies,
            "counts": {**{name: counts[name] for name in KINDS}, "did not run": len(self.broken)},
            "unfinished": list(self.unfinished),
            "seconds": self.seconds,
        }


def check_jobs(jobs: int | None, cluster: str | None = None) -> None:
    """Refuse a number of processes that makes no sense here."""
    if jobs is None:
        return
    most = _JOBS_PER_CORE * cores()
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= most:
        raise InputError(f"jobs must be an integer from 1 to {most}, {_JOBS_PER_CORE} per core here, got {brief(jobs)}")
    if cluster is not None and jobs != 1:
        raise InputError(f"jobs is for this machine and cannot be {jobs} with cluster {cluster}; the cluster computes")


def reproduce(
    studies: Sequence[type[Study]],
    progress: Listener = only_warn,
    *,
    preset: str = "quick",
    stream: str = MAIN,
    store: Any = None,
    cluster: str | None = None,
    memory: float | None = None,
    jobs: int | None = None,
    longest: Mapping[str, float] | None = None,
    budget: float | None = None,
    each: Callable[[Run], None] | None = None,
) -> Outcome:
    """Run studies and judge their claims; what one of them raises ends that one only.

    `longest` has the seconds of studies of which the store does not tell how long they take: the longest start first.
    `progress` is called with every `Event`, from several threads; one whose output fails, as a pipe does that is read
    no further, is not called again. `each` gets every run as soon as it is judged, while others are still simulated.

    After `budget` seconds no further chunk of a simulation begins, and the studies that lack some are unfinished; the
    same call goes on with them.

    `jobs` processes simulate at the same time, by default as many as there are cores and memory for; the numbers do not
    depend on it. With a cluster its workers compute, study after study.
    """
    start = time.perf_counter()
    if not isinstance(studies, list | tuple) or not all(isinstance(s, type) and issubclass(s, Study) for s in studies):
        raise InputError(f"studies must be a list of Study classes, got {brief(studies)}")
    check_jobs(jobs, cluster)
    check_stream(stream)
    if budget is not None and not (isinstance(budget, int | float) and budget > 0):
        raise InputError(f"budget must be a number of seconds > 0, got {brief(budget)}")
    tell = _enduring(progress)
    # All fingerprints are taken now, while the code that is loaded is the code on disk.
    for cls in studies:
        with contextlib.suppress(InputError):
            fingerprint(cls)
    runs: dict[str, Run] = {}
    broken: dict[str, str] = {}

    with Laboratory(store, cluster, memory, tell) as laboratory:
        laboratory.warn_of_damage()
        memory_budget = laboratory.free()
        if jobs is None:
            jobs = 1 if cluster is not None else default_jobs(cores(), memory_budget)
        if budget is not None:
            laboratory.deadline = time.monotonic() + budget

        def judge(cls: type[Study], work: Event | None = None) -> None:
            reason = "" if work is None or work.kind == "ended" else work.message or work.kind
            # One broken study must not take the others with it.
            try:
                if not reason:
                    run = laboratory.run(
                        cls, preset_grids(cls, preset, stream=stream), command_line(cls, preset, stream=stream)
                    )
                    if work is not None:
                        run = dataclasses.replace(
                            run,
                            computed=work.count,
                            seconds=run.seconds + work.seconds,
                            processor_seconds=work.processor_seconds,
                        )
                    if each is not None:
                        each(run)
            except (WrongNumbers, OutOfTime):
                # What computes wrong numbers does so in all studies.
                raise
            except Exception as error:
                reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            if reason:
                broken[cls.name] = reason
                tell(Event("failed", cls.name, message=reason))
            else:
                runs[cls.name] = run
                tell(Event("ended", cls.name, run.computed, run.seconds, run=run))

        lacking = _lacking(laboratory, studies, preset, stream, longest or {})
        for event in lacking:
            tell(event)
        missing = {event.study for event in lacking}
        with contextlib.suppress(OutOfTime):
            if jobs == 1:
                # What needs no simulation comes first: there is time for it.
                for cls in sorted(studies, key=lambda cls: cls.name in missing):
                    judge(cls)
            else:
                _several(laboratory, studies, preset, stream, lacking, jobs, memory_budget, tell, judge)
    ordered = [runs[cls.name] for cls in studies if cls.name in runs]
    unfinished = [cls.name for cls in studies if cls.name not in runs and cls.name not in broken]
    return Outcome(studies, ordered, broken, time.perf_counter() - start, unfinished)


def _lacking(
    laboratory: Laboratory,
    studies: Sequence[type[Study]],
    preset: str,
    stream: str,
    longest: Mapping[str, float],
) -> list[Event]:
    """The studies of which the store lacks something, with how many instances and for how many seconds probably."""
    known = known_rates(laboratory.store)
    found = []
    for cls in studies:
        try:
            grids = preset_grids(cls, preset, stream=stream)
            for grid in grids.values():
                grid.validate()
            missing = sum(len(w.missing) for w in laboratory.load(cls, grids)[1])
        except Exception:
            # The judge meets the same and says so.
            continue
        if missing:
            seconds = expected_seconds(cls, grids, missing, known.get(cls.name), longest.get(cls.name))
            found.append(Event("estimated", cls.name, missing, seconds))
    return found


def _several(
    laboratory: Laboratory,
    studies: Sequence[type[Study]],
    preset: str,
    stream: str,
    lacking: Sequence[Event],
    jobs: int,
    budget: int,
    tell: Listener,
    judge: Callable[..., None],
) -> None:
    """Have workers simulate what the store lacks, the longest studies first, and judge each as it is done."""
    by_name = {cls.name: cls for cls in studies}
    order = [event.study for event in sorted(lacking, key=lambda event: -event.seconds)]
    requests = {name: request(by_name[name], preset, stream=stream) for name in order}
    oversized = {}
    with (
        heeding_interrupts() as check_interrupts,
        Workers(min(jobs, len(order)) or 1, laboratory.store.path, budget, tell) as workers,
        # What does not fit into a share of the memory may fit into all of it.
        Workers(1, laboratory.store.path, budget, tell) as alone,
    ):
        working = workers.run(requests, laboratory.deadline)
        for cls in studies:
            if cls.name not in requests:
                judge(cls)
        for work in working:
            if work.kind == "oversized":
                oversized[work.study] = requests[work.study]
                tell(work)
            else:
                judge(by_name[work.study], work)
            check_interrupts()
        for work in alone.run(oversized, laboratory.deadline):
            judge(by_name[work.study], work)


def _enduring(progress: Listener) -> Listener:
    """A listener that is left alone when its output fails."""
    listening = True

    def tell(event: Event) -> None:
        nonlocal listening
        if listening:
            try:
                progress(event)
            except OSError:
                listening = False

    return tell
