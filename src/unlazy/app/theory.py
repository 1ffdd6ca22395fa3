"""The theory's lines for a setting, as dense as they can be at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.app.setting import ExplorerSetting, from_query, grouped
from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import Axis, ParameterGrid
from unlazy.lab.running.dataset import labelled, predict_points

if TYPE_CHECKING:
    import xarray as xr

BUDGET = 0.25
"""Seconds that a redrawing may take for the theory."""
PATIENCE = 3.0
"""Theory that takes longer than this many seconds is computed only on demand."""
_DENSE = 60
_RATES: dict[str, float] = {}
"""Seconds per point of a study's theory, as last seen here."""


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

    `points` are by output, one for each point of the setting's grid, or of the one with `dense_values` on its
    horizontal axis; None where there is no theory.
    """

    points: Mapping[str, Any] | None = None
    dense_values: int = 0
    seconds: float = 0.0
    dense: bool = True
    waits: bool = False

    def lines(self, setting: ExplorerSetting) -> TheoryLines:
        grid = setting.lines(self.dense_values) if self.dense_values else setting.grid
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
    if grid.size > 2 and _RATES.get(study.name, patience) * grid.size > budget:
        # The first call makes tables; the second tells what a point costs.
        _timed(_point(grid, 0))
        each, _ = _timed(_point(grid, -1))
        if each * grid.size > patience:
            return FoundTheory(seconds=each * grid.size, dense=False, waits=True)
    spent, own = _timed(grid)
    _RATES[study.name] = spent / grid.size
    if own is None:
        return FoundTheory(seconds=spent)
    fresh = _one_of(setting.lines(_DENSE), grid, setting.x)
    if fresh is None:
        return FoundTheory(own, 0, spent)
    each = _timed(fresh)[0] if spent > budget else spent / _length(grid, setting.x)
    count = min(_DENSE, int(budget / max(each, 1e-9)))
    if count < 2 * _length(grid, setting.x):
        return FoundTheory(own, 0, spent, dense=False)
    more, dense = _timed(setting.lines(count))
    return FoundTheory(dense, count, spent + more)


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


def _length(grid: ParameterGrid, x: str) -> int:
    return len(_column(grid, x))


def _column(grid: ParameterGrid, x: str) -> list:
    for axis in grid.axes:
        if x in axis.names:
            return axis.column(x)
    return list(grid.fixed[x])


def _one_of(dense: ParameterGrid, grid: ParameterGrid, x: str) -> ParameterGrid | None:
    """The dense grid at one value of x that the other grid does not have; None if there is none."""
    if dense is grid:
        return None
    new = [v for v in _column(dense, x) if v not in _column(grid, x)]
    if not new:
        return None
    value = new[len(new) // 2]
    if x in grid.study.parameters() and grid.study.parameter(x).kind == "path":
        return replace(grid, fixed={**grid.fixed, x: (value,)})
    axes = tuple(Axis((x,), ((value,),)) if x in axis.names else axis for axis in grid.axes)
    return replace(grid, axes=axes)
