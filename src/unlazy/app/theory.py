"""The theory's lines for a setting, as dense as they can be at once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.app.setting import ExplorerSetting, from_query, grouped
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import Axis, ParameterGrid
from unlazy.lab.running.dataset import labelled, predict_points
from unlazy.lab.running.lines import around_peaks

if TYPE_CHECKING:
    import xarray as xr

BUDGET = 0.15
"""Seconds that a redrawing may take for the theory."""
PATIENCE = 3.0
"""Theory that takes longer than this many seconds is computed only on demand."""
_DENSE = 60
_TOGETHER = 6
"""Values that are tried where a call takes many and costs hardly more than one."""
_RATES: dict[str, float] = {}
"""Seconds of a study's theory for each point and each value of a path on the horizontal axis, as last seen here."""


class TheoryLines(NamedTuple):
    """The theory on a grid (None where there is none), the seconds it took, and whether it is dense.

    `waits` says that it was not computed because it would take `seconds`; `stopped` that it was tried for that long.
    """

    dataset: xr.Dataset | None
    seconds: float
    dense: bool
    waits: bool = False
    stopped: bool = False


class FoundTheory(NamedTuple):
    """The theory before it is labelled, as it comes from another process.

    `points` are by output, one for each point of the setting's grid, or of the one that has the values `along` on its
    horizontal axis; None where there is no theory.
    """

    points: Mapping[str, Any] | None = None
    along: Sequence[float] | None = None
    seconds: float = 0.0
    dense: bool = True
    waits: bool = False

    def lines(self, setting: ExplorerSetting) -> TheoryLines:
        grid = setting.grid if self.along is None else setting.grid.across(setting.x, self.along)
        points = self.points and {name: [np.asarray(a, float) for a in rows] for name, rows in self.points.items()}
        return TheoryLines(labelled(grid, points) if points else None, self.seconds, self.dense, self.waits)


def found(setting: ExplorerSetting, budget: float = BUDGET, patience: float = PATIENCE) -> FoundTheory:
    """The theory at the setting's points, and between them as far as the budget goes, before it is labelled.

    What a point costs is measured at one that is new, because theory keeps tables that only the first call makes.
    Seconds are those of the processor: what else the machine does has no part in them.
    """
    grid, study = setting.grid, setting.study
    if not study.defines("predict"):
        return FoundTheory()
    dense, rate = setting.lines(_DENSE), _RATES.get(study.name)
    if grid.size > 2 and (rate is None or rate * _units(grid, setting.x) > patience):
        if rate is None:
            # The first call makes tables; the second tells what a point costs.
            _timed(_point(grid, 0))
        each, _ = _timed(_point(grid, -1))
        if each * grid.size > patience:
            _RATES[study.name] = each / _units(_point(grid, -1), setting.x)
            return FoundTheory(seconds=each * grid.size, dense=False, waits=True)
    new = [v for v in _column(dense, setting.x) if v not in _column(grid, setting.x)] if dense is not grid else []
    value = None
    if rate is not None and new and rate * _units(grid, setting.x) <= budget:
        value = _each(setting, new)
        if value * len(_column(dense, setting.x)) <= budget:
            return _lines(setting, dense, budget)
    spent, own = _timed(grid)
    _RATES[study.name] = spent / _units(grid, setting.x)
    if own is None:
        return FoundTheory(seconds=spent)
    if not new:
        return FoundTheory(own, None, spent)
    if rate is not None and spent > budget:
        return FoundTheory(own, None, spent, dense=False)
    count = min(_DENSE, int(budget / max(_each(setting, new) if value is None else value, 1e-9)))
    if count < 2 * len(_column(grid, setting.x)):
        return FoundTheory(own, None, spent, dense=False)
    return _lines(setting, setting.lines(count), budget, spent)


def _each(setting: ExplorerSetting, new: Sequence[Any]) -> float:
    """The seconds of a new value on the horizontal axis.

    It is measured at values that are drawn each time: theory that remembers results would be quick at the same ones.
    """
    together = setting.x in setting.study.broadcasts or setting.study.parameter(setting.x).kind == "path"
    chosen = sorted(random.sample(list(new), min(_TOGETHER if together else 1, len(new))))
    return _timed(setting.grid.across(setting.x, chosen))[0] / len(chosen)


def _lines(setting: ExplorerSetting, dense: ParameterGrid, budget: float, before: float = 0.0) -> FoundTheory:
    """The theory on a dense grid, and on more values around its peaks."""
    spent, points = _timed(dense)
    rate = _RATES[setting.study.name] = spent / _units(dense, setting.x)
    if points is None:
        return FoundTheory(seconds=spent + before)

    def ask(grid: ParameterGrid) -> Mapping[str, Any] | None:
        nonlocal spent
        if rate * _units(grid, setting.x) > budget:
            return None
        seconds, more = _timed(grid)
        spent += seconds
        return more

    grid, points = around_peaks(dense, setting.x, points, setting.outputs, ask)
    return FoundTheory(points, _column(grid, setting.x), spent + before)


def _units(grid: ParameterGrid, x: str) -> int:
    """What the theory's time is a multiple of."""
    return grid.size * (1 if any(x in axis.names for axis in grid.axes) or x not in grid.fixed else len(grid.fixed[x]))


def _timed(grid: ParameterGrid) -> tuple[float, Mapping[str, Any] | None]:
    start = time.thread_time()
    points = predict_points(grid)
    return time.thread_time() - start, points


def request(setting: ExplorerSetting, patience: float) -> dict[str, Any]:
    """What to ask a process for that serves theory."""
    own = "" if setting.study.name in registry.names() else registry.reference(setting.study)
    return {"own": own, "query": grouped(setting.query), "patience": patience}


def serve(requests: Iterable[Mapping[str, Any]], tell: Callable[[dict], None]) -> None:
    """Answer requests in a process of its own, with what was found or with why not."""
    tell({"kind": "ready"})
    for asked in requests:
        try:
            tell(_answer(**asked))
        except MemoryError:
            much = "the theory needs more memory here than the explorer gives it; choose smaller sizes or fewer points"
            tell({"kind": "refused", "message": much})


def _answer(own: str, query: Mapping[str, Any], patience: float) -> dict[str, Any]:
    try:
        setting = from_query(query, registry.find(own) if own else None)
        assert setting is not None
        answer = found(setting, patience=patience)
        points = answer.points and {name: [a.tolist() for a in rows] for name, rows in answer.points.items()}
        return {"kind": "found", **answer._replace(points=points)._asdict()}
    except MemoryError:
        raise
    except InputError as error:
        return {"kind": "refused", "message": str(error)}
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else ""
        return {"kind": "failed", "message": f"{type(error).__name__}: {first}"}


def _point(grid: ParameterGrid, index: int) -> ParameterGrid:
    """The first or last point of a grid as a grid of its own."""
    axes = tuple(Axis(axis.names, (axis.rows[index],)) for axis in grid.axes)
    return replace(grid, axes=axes)


def _column(grid: ParameterGrid, x: str) -> list:
    for axis in grid.axes:
        if x in axis.names:
            return axis.column(x)
    return list(grid.fixed[x])
