"""What a run would cost: instances, programs, memory and expected time, without storing anything."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from unlazy.lab.grid import Grid
from unlazy.lab.running.arithmetic import cores
from unlazy.lab.running.execute import memory_budget, prepare, run_chunk
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.plan import Group, Instance, canonical
from unlazy.lab.study import Study

_MEASURE_SECONDS = 10.0
"""After this long no further program is timed; the rest is extrapolated."""


class Cost(NamedTuple):
    """The cost of one program: `basis` says whether the seconds were stored, measured just now, or extrapolated."""

    part: str
    sizes: Mapping[str, Any]
    instances: int
    missing: int
    width: int
    bytes: int
    seconds: float
    basis: str


def estimate(laboratory: Laboratory, study: type[Study], grids: Mapping[str, Grid]) -> list[Cost]:
    """The cost of every program of a run; seconds are those of the missing instances, without compilation."""
    for grid in grids.values():
        grid.validate()
    budget = memory_budget() if laboratory.budget is None else laboratory.budget
    _, work = laboratory.load(study, grids)
    groups = [w.group for w in work]
    known = laboratory.store.seconds_per_instance(study.name, groups[0].fingerprint)
    tasks = [prepare(group.chunk([Instance(next(iter(group.points)), 0)]), budget) for group in groups]
    together = [1 if t.alone else max(1, min(cores(), budget // t.bytes if t.bytes else cores())) for t in tasks]
    rates: dict[int, tuple[float, str]] = {}
    spent, last = 0.0, 0
    for i in sorted(range(len(work)), key=lambda i: tasks[i].bytes):
        stored = [known[text] for text in _texts(groups[i]) if text in known]
        if stored:
            rates[i] = (sum(stored) / len(stored), "stored")
        elif spent < _MEASURE_SECONDS:
            start = time.perf_counter()
            rates[i] = (_measure(groups[i], budget), "measured")
            spent += time.perf_counter() - start
            last = i
        else:
            rates[i] = (rates[last][0] * tasks[i].work / tasks[last].work, "extrapolated")
    varying = {n for n in study.parameters() if len({canonical(group.shared.get(n)) for group in groups}) > 1}
    return [
        Cost(
            group.grid.part,
            {n: v for n, v in group.shared.items() if n in varying},
            len(group.points) * group.grid.seeds,
            len(work[i].missing),
            tasks[i].width,
            tasks[i].bytes * together[i],
            rates[i][0] * len(work[i].missing) / together[i],
            rates[i][1],
        )
        for i, group in enumerate(groups)
    ]


def _texts(group: Group) -> list[str]:
    return [canonical({**group.shared, **values}) for values in group.points.values()]


def _measure(group: Group, budget: int) -> float:
    """Seconds per instance of one chunk."""
    instances = [Instance(p, s) for p in group.points for s in range(group.grid.seeds)][: group.width]
    return run_chunk(group.chunk(instances), budget).seconds / len(instances)
