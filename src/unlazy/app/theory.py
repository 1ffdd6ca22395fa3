"""The theory's lines for a setting, as dense as they can be at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from unlazy.app.setting import Setting
from unlazy.lab.grid import Axis, Grid
from unlazy.lab.running.dataset import predicted

if TYPE_CHECKING:
    import xarray as xr

BUDGET = 0.25
"""Seconds that a redrawing may take for the theory."""
PATIENCE = 3.0
"""Theory that takes longer than this many seconds is computed only on demand."""
_DENSE = 60
_RATES: dict[str, float] = {}
"""Seconds per point of a study's theory, as last seen here."""


class Lines(NamedTuple):
    """The theory on a grid (None where there is none), the seconds it took, and whether it is dense.

    `waits` says that it was not computed because it would take `seconds`; `stopped` that it was tried for that long.
    """

    dataset: xr.Dataset | None
    seconds: float
    dense: bool
    waits: bool = False
    stopped: bool = False


def lines(setting: Setting, budget: float = BUDGET, patience: float = PATIENCE) -> Lines:
    """The theory at the setting's points, and between them as far as the budget goes.

    What a point costs is measured at one that is new, because theory keeps tables that only the first call makes.
    Seconds are those of the processor: what else the machine does has no part in them.
    """
    grid, study = setting.grid, setting.study
    if not study.defines("predict"):
        return Lines(None, 0.0, True)
    if grid.size > 2 and _RATES.get(study.name, patience) * grid.size > budget:
        # The first call makes tables; the second tells what a point costs.
        _timed(_point(grid, 0))
        each, _ = _timed(_point(grid, -1))
        if each * grid.size > patience:
            return Lines(None, each * grid.size, False, waits=True)
    spent, own = _timed(grid)
    _RATES[study.name] = spent / grid.size
    if own is None:
        return Lines(None, spent, True)
    fresh = _one_of(setting.lines(_DENSE), grid, setting.x)
    if fresh is None:
        return Lines(own, spent, True)
    each = _timed(fresh)[0] if spent > budget else spent / _length(grid, setting.x)
    count = min(_DENSE, int(budget / max(each, 1e-9)))
    if count < 2 * _length(grid, setting.x):
        return Lines(own, spent, False)
    more, dense = _timed(setting.lines(count))
    return Lines(dense, spent + more, True)


def _timed(grid: Grid) -> tuple[float, xr.Dataset | None]:
    start = time.thread_time()
    found = predicted(grid)
    return time.thread_time() - start, found


def _point(grid: Grid, index: int) -> Grid:
    """The first or last point of a grid as a grid of its own."""
    axes = tuple(Axis(axis.names, (axis.rows[index],)) for axis in grid.axes)
    return Grid(grid.study, grid.part, grid.fixed, axes, grid.seeds)


def _length(grid: Grid, x: str) -> int:
    return len(_column(grid, x))


def _column(grid: Grid, x: str) -> list:
    for axis in grid.axes:
        if x in axis.names:
            return axis.column(x)
    return list(grid.fixed[x])


def _one_of(dense: Grid, grid: Grid, x: str) -> Grid | None:
    """The dense grid at one value of x that the other grid does not have; None if there is none."""
    if dense is grid:
        return None
    new = [v for v in _column(dense, x) if v not in _column(grid, x)]
    if not new:
        return None
    value = new[len(new) // 2]
    if x in grid.study.parameters() and grid.study.parameter(x).kind == "path":
        return Grid(grid.study, grid.part, {**grid.fixed, x: (value,)}, grid.axes, grid.seeds)
    axes = tuple(Axis((x,), ((value,),)) if x in axis.names else axis for axis in grid.axes)
    return Grid(grid.study, grid.part, grid.fixed, axes, grid.seeds)
