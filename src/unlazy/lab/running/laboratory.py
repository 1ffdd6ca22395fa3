"""The laboratory: simulates what the store lacks, and judges the claims."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.grid import Grids
from unlazy.lab.judge import judge
from unlazy.lab.running import dataset
from unlazy.lab.running.arithmetic import made_wrong
from unlazy.lab.running.events import Event, Listener, OutOfTime, heeding_interrupts, only_warn
from unlazy.lab.running.execute import Computed, InProcess, memory_budget
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.leases import Answer, Instance, Leases
from unlazy.lab.running.pack import witness
from unlazy.lab.running.plan import Chunk, Group, PointSeed, canonical, group_points, point_keys
from unlazy.lab.running.result import Run
from unlazy.lab.running.store import Row, Store
from unlazy.lab.study import Part, Study
from unlazy.words import brief


class Executor(Protocol):
    """Where chunks are computed."""

    def map(self, chunks: Iterable[tuple[Any, Chunk]]) -> Iterator[tuple[Any, Computed]]: ...

    def close(self) -> None: ...


OLD = "old"
"""Of a row from before the study declared an output."""


class Stale(NamedTuple):
    """A stored row that cannot be used, and what it is."""

    key: bytes
    seed: int
    reason: str


class MissingInstances:
    """The instances of a group that the store lacks: counted, and made one by one where they are asked for."""

    def __init__(self, points: np.ndarray, lacking: np.ndarray) -> None:
        self._points, self._lacking = points, lacking[points]
        self._count = int(np.count_nonzero(self._lacking))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PointSeed]:
        for point, lacking in zip(self._points.tolist(), self._lacking, strict=True):
            for seed in np.flatnonzero(lacking).tolist():
                yield PointSeed(point, seed)


class Work(NamedTuple):
    """A group of a grid, what the store lacks of it, and where the results go."""

    collector: dataset.Collector
    group: Group
    missing: MissingInstances
    stale: list[Stale]
    """Stored rows that cannot be used: those of the whole grid stand with its first group."""

    def keys(self, points: Iterable[int]) -> dict[int, bytes]:
        """The store's keys of some points of the grid."""
        numbers = list(points)
        keys = point_keys(self.group.grid, self.group.fingerprint, np.asarray(numbers, np.intp))
        return dict(zip(numbers, keys, strict=True))

    def instances(self, batch: Sequence[PointSeed]) -> list[Instance]:
        """The store's keys of some instances, with their seeds."""
        keys = self.keys(dict.fromkeys(instance.point for instance in batch))
        return [(keys[point], seed) for point, seed in batch]

    def chunk(self, batch: list[PointSeed]) -> Chunk:
        """What computes some instances, with what is shipped of one of them."""
        study = self.group.grid.study
        return self.group.chunk(batch, None if study.is_hosted() else witness(study, self.instances(batch)))


Todo = tuple[Work, MissingInstances | list[PointSeed]]
"""What is to compute of a group."""
_LOOK_SECONDS = 0.5
"""How often a process that has nothing left but what others compute looks whether it is there."""


class Laboratory:
    """A store, an executor and a progress bar that several runs share."""

    def __init__(
        self,
        store: str | os.PathLike | Store | None = None,
        cluster: str | None = None,
        memory: float | None = None,
        progress: Listener = only_warn,
    ) -> None:
        if memory is not None and not (isinstance(memory, int | float) and 0 < memory < math.inf):
            raise InputError(f"memory must be a number of GiB > 0, got {brief(memory)}")
        if not callable(progress):
            raise InputError(f"progress must be a function of an event, got {brief(progress)}")
        self.tell = progress
        self.deadline = math.inf
        """When simulations stop between two chunks, as `time.monotonic` has it."""
        self._owns_store = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else Store(store)
        self.budget = None if memory is None else int(memory * 2**30)
        self._executor: Executor | None = None
        if cluster is not None:
            from unlazy.lab.running.cluster import DaskExecutor

            try:
                self._executor = DaskExecutor(cluster, self.budget, self.tell)
            except InputError:
                self.close()
                raise

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def warn_of_damage(self) -> None:
        """Damaged rows are computed again when they are asked for; a damaged file is told even if none is."""
        if damage := self.store.damage():
            self.tell(Event("warned", message=damage))

    def free(self) -> int:
        """The bytes that what runs at the same time may have: the budget, or a quarter of what is free now."""
        return memory_budget() if self.budget is None else self.budget

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()
        if self._owns_store:
            self.store.close()

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            self._executor = InProcess(self.budget)
        return self._executor

    def run(self, study: type[Study], grids: Grids, command: str = "") -> Run:
        """Simulate what is missing of the grids, and judge the study's claims."""
        start, busy = time.perf_counter(), time.process_time()
        for grid in grids.values():
            grid.validate()
        collectors, computed = self.simulate(study, grids)
        # Where others compute, this process does not know what it took.
        busy = time.process_time() - busy if isinstance(self.executor, InProcess) else 0.0
        # Claims see what diverged instances left, so that shares stay shares of yes and no; the judge knows of them.
        seen = {name: Part(one.dataset(), dataset.predicted(grids[name])) for name, one in collectors.items()}
        verdicts = tuple(judge(claim, seen) for claim in study.claims)
        parts = {n: part._replace(simulated=dataset.without_diverged(part.simulated)) for n, part in seen.items()}
        cost = sum(collector.seconds for collector in collectors.values())
        return Run(study, grids, parts, verdicts, computed, time.perf_counter() - start, cost, command, busy)

    def load(self, study: type[Study], grids: Grids) -> tuple[dict[str, dataset.Collector], list[Work]]:
        """What the store has of the grids, and per group what it lacks."""
        code, wanted = fingerprint(study), set(study.simulated_outputs())
        collectors, work = {}, []
        for name, grid in grids.items():
            collectors[name] = collector = dataset.Collector(grid)
            stored, stale = self.store.points(study.name, code), []
            # Most grids are new: what the store does not have needs no key.
            for index, key in enumerate(point_keys(grid, code) if stored else ()):
                if key not in stored:
                    continue
                rows, broken = self.store.read(key, grid.seeds)
                stale += [Stale(key, seed, "damaged") for seed in broken]
                for seed, row in rows.items():
                    if reason := _unusable(row, wanted):
                        stale.append(Stale(key, seed, reason))
                        continue
                    collector.put(index, seed, {name: row.arrays[name] for name in wanted})
                    collector.seconds += row.seconds
            for group in group_points(grid, code):
                work.append(Work(collector, group, MissingInstances(group.points, collector.missing), stale))
                stale = []
        return collectors, work

    def simulate(self, study: type[Study], grids: Grids) -> tuple[dict[str, dataset.Collector], int]:
        """Compute and store what the store lacks; returns the collected results and the number of new instances.

        What another process is computing is left to it: this one waits for it, and takes it over if that one dies.
        """
        start = time.time()
        collectors, work = self.load(study, grids)
        total = sum(len(w.missing) for w in work)
        if total == 0:
            return collectors, 0
        self._discard([row for w in work for row in w.stale], start)
        self.tell(Event("begun", study.name, total))
        done = waiting = 0
        todo: list[Todo] = [(w, w.missing) for w in work]
        try:
            with heeding_interrupts() as check_interrupts, Leases(self.store) as leases:
                while todo:
                    before, busy = done, list[Todo]()
                    for (here, batch), result in self.executor.map(self._chunks(todo, leases, busy)):
                        self._commit(here, batch, result, leases)
                        done += len(batch)
                        self.tell(Event("advanced", study.name, len(batch)))
                        check_interrupts()
                        if time.monotonic() > self.deadline and done < total:
                            raise OutOfTime
                    todo = busy
                    if todo and done == before:
                        waiting = self._wait(study, todo, waiting)
        finally:
            self.tell(Event("simulated", study.name, done))
        for w in work:
            self._fetch(w)
        return collectors, done

    def _wait(self, study: type[Study], busy: list[Todo], before: int) -> int:
        """Give other processes time for what they compute; returns how much that is."""
        count = sum(len(instances) for _, instances in busy)
        if count != before:
            words = f"waits for {count} instances that another process computes"
            self.tell(Event("waiting", study.name, count, message=words))
        if time.monotonic() > self.deadline:
            raise OutOfTime
        time.sleep(_LOOK_SECONDS)
        return count

    def _discard(self, stale: list[Stale], before: float) -> None:
        """Forget rows that cannot be used, so that they are computed again; another process may just have done so."""
        for reason, count in Counter(row.reason for row in stale).items():
            if reason != OLD:
                self.tell(
                    Event("warned", message=f"{count} {reason} rows in store {self.store.path}: computing them again")
                )
        for row in stale:
            self.store.discard(row.key, [row.seed], before)

    def _chunks(
        self, todo: list[Todo], leases: Leases, busy: list[Todo]
    ) -> Iterator[tuple[tuple[Work, list[PointSeed]], Chunk]]:
        """Take what is to do, a chunk at a time; `busy` gets what is being computed already."""
        for w, instances in todo:
            rest, batch, others = iter(instances), list[PointSeed](), list[PointSeed]()
            while asked := list(itertools.islice(rest, w.group.width - len(batch))):
                answers = list(zip(asked, leases.take(w.instances(asked)), strict=True))
                batch += [instance for instance, answer in answers if answer is Answer.OURS]
                others += [instance for instance, answer in answers if answer is Answer.BUSY]
                if stored := sum(answer is Answer.STORED for _, answer in answers):
                    self.tell(Event("advanced", w.group.grid.study.name, stored))
                if len(batch) == w.group.width:
                    yield (w, batch), w.chunk(batch)
                    batch = []
            if batch:
                yield (w, batch), w.chunk(batch)
            if others:
                busy.append((w, others))

    def _commit(self, work: Work, batch: list[PointSeed], result: Computed, leases: Leases) -> None:
        group, rows = work.group, []
        keys = work.keys(dict.fromkeys(instance.point for instance in batch))
        seconds = result.seconds / len(batch)
        for position, (point, seed) in enumerate(batch):
            arrays = {name: array[position] for name, array in result.arrays.items()}
            rows.append(Row(keys[point], seed, seconds, arrays, result.versions))
        points = {key: canonical(group.grid.point(point)) for point, key in keys.items()}
        self.store.write(group.grid.study.name, group.fingerprint, points, rows)
        leases.release([(row.point, row.seed) for row in rows])
        for instance, row in zip(batch, rows, strict=True):
            work.collector.put(instance.point, instance.seed, row.arrays)
        work.collector.seconds += result.seconds

    def _fetch(self, work: Work) -> None:
        """Read what other processes computed while this one ran."""
        collector = work.collector
        wanted = set(collector.grid.study.simulated_outputs())
        for point, key in work.keys(np.flatnonzero(collector.missing.any(1)).tolist()).items():
            for seed, row in self.store.read(key, collector.grid.seeds)[0].items():
                if collector.missing[point, seed] and not _unusable(row, wanted):
                    collector.put(point, seed, row.arrays)
                    collector.seconds += row.seconds


def _unusable(row: Row, wanted: set[str]) -> str:
    """Why a stored row is computed again, in a word; empty if it can be used."""
    if jaxlib := made_wrong(row.versions):
        return f"wrong (jaxlib {jaxlib})"
    return "" if wanted <= set(row.arrays) else OLD
