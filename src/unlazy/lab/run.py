"""A run: simulate what the store lacks, predict, judge the claims."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from unlazy.errors import InputError
from unlazy.lab import dataset, registry
from unlazy.lab.claims import Verdict
from unlazy.lab.execute import Computed, InProcess
from unlazy.lab.fingerprint import fingerprint
from unlazy.lab.grid import Grid, default_grid, preset_grids
from unlazy.lab.judge import judge
from unlazy.lab.plan import Chunk, Group, Instance, canonical, group_points, point_key
from unlazy.lab.progress import Progress, Quiet, heeding_interrupts
from unlazy.lab.store import Row, Store
from unlazy.lab.study import Part, Study

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


class Executor(Protocol):
    """Where chunks are computed."""

    def map(self, chunks: Iterable[tuple[Any, Chunk]]) -> Iterator[tuple[Any, Computed]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Run:
    """What came of a run: datasets by part, verdicts, and on demand the figure."""

    study: type[Study]
    grids: Mapping[str, Grid]
    parts: Mapping[str, Part]
    verdicts: tuple[Verdict, ...]
    computed: int
    seconds: float
    command: str

    @property
    def simulated(self) -> xr.Dataset | dict[str, xr.Dataset]:
        """The simulation: a Dataset, or one per part where there are several."""
        return _only({name: part.simulated for name, part in self.parts.items()})

    @property
    def predicted(self) -> xr.Dataset | dict[str, xr.Dataset | None] | None:
        """The theory at the simulated points: a Dataset, or one per part where there are several."""
        return _only({name: part.predicted for name, part in self.parts.items()})

    def figure(self) -> Figure:
        """The study's figure; the lab's own where the study has none or the run has axes that it does not expect."""
        from unlazy.lab.figure import default_figure
        from unlazy.plotting.style import style

        parts = {name: part._replace(lines=_lines(self.grids[name])) for name, part in self.parts.items()}
        with style():
            if self.study.defines("figure") and not any(grid.added for grid in self.grids.values()):
                try:
                    return self.study(**next(iter(self.grids.values())).fixed).figure(**parts)
                except Exception as error:
                    warnings.warn(
                        f"the figure of {self.study.name} does not fit this run ({type(error).__name__}: {error}); "
                        "drawing the plain one",
                        RuntimeWarning,
                        stacklevel=1,
                    )
            return default_figure(self.study, parts, self.grids)

    def as_json(self) -> dict[str, Any]:
        """The run in the form of the command line's JSON.

        `parameters` has what is the same in all parts; what varies, or differs between parts, is with the results.
        """
        single = [grid.parameters() for grid in self.grids.values()]
        shared = {n: v for n, v in single[0].items() if all(n in other and other[n] == v for other in single)}
        results, dims = {}, {}
        for (name, part), own in zip(self.parts.items(), single, strict=True):
            arrays: dict[Any, Any] = dict(part.simulated.variables)
            if part.predicted is not None:
                arrays.update({f"predicted_{n}": a for n, a in part.predicted.data_vars.items()})
            dims[name] = {n: list(a.dims) for n, a in arrays.items()}
            rest = {n: v for n, v in own.items() if n not in shared and n not in arrays}
            results[name] = {**rest, **{n: a.values for n, a in arrays.items()}}
        return dataset.as_json(
            {
                "study": self.study.name,
                "parameters": shared,
                "claims": [verdict.as_json() for verdict in self.verdicts],
                "seconds": self.seconds,
                "results": results,
                "dims": dims,
            }
        )


def run(
    study: str | type[Study],
    *,
    preset: str = "quick",
    set: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    store: str | os.PathLike | Store | None = None,
    cluster: str | None = None,
    memory: float | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulate a study, predict it, and judge its claims.

    `study` is a name, 'file.py:Class' or a Study class. `set` fixes parameters and `over` gives axes, both on top of
    the preset. Results are kept in `store` (a file; the user's default if None): the same call again computes only what
    is missing. `cluster` is 'local:N' or a Dask scheduler's address; `memory` is the budget in GiB, a quarter of free
    memory if None.
    """
    cls = registry.find(study)
    grids = preset_grids(cls, preset, set=set, over=over, seeds=seeds)
    with Laboratory(store, cluster, memory, progress) as laboratory:
        return laboratory.run(cls, grids, command_line(cls, preset, set, over, seeds))


class Laboratory:
    """A store, an executor and a progress bar that several runs share."""

    def __init__(
        self,
        store: str | os.PathLike | Store | None = None,
        cluster: str | None = None,
        memory: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        if memory is not None and not (isinstance(memory, int | float) and 0 < memory < math.inf):
            raise InputError(f"memory must be a number of GiB > 0, got {memory!r}")
        self.progress = progress or Quiet()
        self._owned = None if isinstance(store, Store) else Store(store)
        self.store = store if isinstance(store, Store) else self._owned
        self.budget = None if memory is None else int(memory * 2**30)
        self._executor: Executor | None = None
        self._cluster = cluster
        if cluster is not None:
            from unlazy.lab.cluster import DaskExecutor

            try:
                self._executor = DaskExecutor(cluster, self.budget)
            except InputError:
                self.close()
                raise

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()
        if self._owned is not None:
            self._owned.close()

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            self._executor = InProcess(self.budget)
        return self._executor

    def run(self, study: type[Study], grids: Mapping[str, Grid], command: str = "") -> Run:
        """Simulate what is missing of the grids, and judge the study's claims."""
        start = time.perf_counter()
        for grid in grids.values():
            grid.validate()
        collectors, computed = self.simulate(study, grids)
        parts = {name: _part(grids[name], collector) for name, collector in collectors.items()}
        verdicts = tuple(judge(claim, parts) for claim in study.claims)
        return Run(study, grids, parts, verdicts, computed, time.perf_counter() - start, command)

    def load(self, study: type[Study], grids: Mapping[str, Grid]) -> tuple[dict[str, dataset.Collector], list]:
        """What the store has of the grids, and per group what it lacks: (collector, group, keys, missing)."""
        code, wanted = fingerprint(study), set(study.simulated_outputs())
        collectors, work = {}, []
        assert self.store is not None
        for name, grid in grids.items():
            collectors[name] = collector = dataset.Collector(grid)
            keys = [point_key(study, code, point) for point in grid.points()]
            damaged = 0
            for index, key in enumerate(keys):
                rows, broken = self.store.read(key, grid.seeds)
                damaged += len(broken)
                # Rows from before the study declared an output are computed again.
                old = [seed for seed, row in rows.items() if not wanted <= set(row.arrays)]
                self.store.discard(key, [*broken, *old])
                for seed, row in rows.items():
                    if seed not in old:
                        collector.put(index, seed, {name: row.arrays[name] for name in wanted})
            if damaged:
                self.progress.warn(f"{damaged} damaged rows in store {self.store.path}: computing them again")
            lacking: dict[int, list[int]] = {}
            for point, seed in collector.missing:
                lacking.setdefault(point, []).append(seed)
            for group in group_points(grid, code):
                missing = [Instance(p, s) for p in group.points for s in lacking.get(p, ())]
                work.append((collector, group, keys, missing))
        return collectors, work

    def simulate(self, study: type[Study], grids: Mapping[str, Grid]) -> tuple[dict[str, dataset.Collector], int]:
        """Compute and store what the store lacks; returns the collected results and the number of new instances."""
        collectors, work = self.load(study, grids)
        total = sum(len(missing) for *_, missing in work)
        if total == 0:
            return collectors, 0
        self.progress.begin(study.name, total)
        done = 0
        try:
            with heeding_interrupts() as check_interrupts:
                for (collector, group, keys, batch), result in self.executor.map(self._chunks(work)):
                    self._commit(collector, group, keys, batch, result)
                    done += len(batch)
                    self.progress.advance(len(batch))
                    check_interrupts()
        finally:
            self.progress.end()
        for collector, _, keys, _ in work:
            self._fetch(collector, keys)
        return collectors, done

    def _chunks(self, work: list) -> Iterator[tuple[Any, Chunk]]:
        assert self.store is not None
        for collector, group, keys, missing in work:
            for batch, chunk in group.chunks(missing):
                # Another process on the same store may have finished these meanwhile.
                if all(self.store.has(keys[instance.point], instance.seed) for instance in batch):
                    self.progress.advance(len(batch))
                    continue
                yield (collector, group, keys, batch), chunk

    def _commit(
        self,
        collector: dataset.Collector,
        group: Group,
        keys: list[bytes],
        batch: list[Instance],
        result: Computed,
    ) -> None:
        assert self.store is not None
        study, rows, points = group.grid.study, [], {}
        seconds = result.seconds / len(batch)
        for position, (point, seed) in enumerate(batch):
            arrays = {name: array[position] for name, array in result.arrays.items()}
            rows.append(Row(keys[point], seed, seconds, arrays))
            points[keys[point]] = canonical({**group.shared, **group.points[point]})
        self.store.write(study.name, group.fingerprint, points, rows)
        for instance, row in zip(batch, rows, strict=True):
            collector.put(instance.point, instance.seed, row.arrays)

    def _fetch(self, collector: dataset.Collector, keys: list[bytes]) -> None:
        """Read what other processes computed while this one ran."""
        assert self.store is not None
        for point in sorted({point for point, _ in collector.missing}):
            for seed, row in self.store.read(keys[point], collector.grid.seeds)[0].items():
                collector.put(point, seed, row.arrays)


def predict(
    study: str | type[Study],
    *,
    set: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """The study's theory around its default parameters, without simulation."""
    result = dataset.predicted(prediction_grid(registry.find(study), set or {}, over or {}))
    assert result is not None
    return result


def prediction_grid(cls: type[Study], set: Mapping[str, Any], over: Mapping[str, Any]) -> Grid:
    """The checked grid on which a study's theory is asked for."""
    if not cls.defines("predict"):
        raise InputError(f"{cls.name} has no theory that can be evaluated without simulation; use 'unlazy run'")
    grid = default_grid(cls, set=set, over=over)
    grid.validate()
    return grid


def command_line(
    cls: type[Study],
    preset: str,
    set: Mapping[str, Any] | None,
    over: Mapping[str, Any] | None,
    seeds: int | None,
) -> str:
    """The shell command that repeats a run."""
    import shlex

    words = ["unlazy", "run", registry.reference(cls), "--preset", preset]
    for name, value in (set or {}).items():
        words += ["--set", f"{name}={_text(value)}"]
    for name, values in (over or {}).items():
        words += ["--over", f"{name}={_text(values)}"]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    return shlex.join(words)


def _text(value: Any) -> str:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return ",".join(_text(v) for v in value)


def _part(grid: Grid, collector: dataset.Collector) -> Part:
    simulated = collector.dataset()
    derived = grid.study(**grid.fixed).derive(simulated) if grid.study.defines("derive") else None
    return Part(simulated, dataset.predicted(grid), None, derived)


def _lines(grid: Grid) -> Any:
    """The theory on a denser grid, for figures."""
    dense = grid.study.lines.get(grid.part)
    return dataset.predicted(grid if dense is None else grid.denser(dense))


def _only(parts: dict[str, Any]) -> Any:
    return next(iter(parts.values())) if len(parts) == 1 else parts
