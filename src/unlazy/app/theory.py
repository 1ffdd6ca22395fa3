"""The theory's lines for a setting, as dense as they can be at once."""

from __future__ import annotations

import math
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
from unlazy.lab.running.lines import around_peaks, joined

if TYPE_CHECKING:
    import xarray as xr

BUDGET = 0.15
"""Seconds that a redrawing may take for the theory."""
PATIENCE = 3.0
"""Theory that takes longer than this many seconds is computed only on demand."""
_TRIED: dict[str, set[Any]] = {}
"""By study, the values at which its theory was timed."""
_SIZES: dict[str, tuple[int, ...]] = {}
"""The whole numbers among the parameters at which a study's theory was last found to take long."""
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
    rate = _RATES.get(study.name)
    expected = math.inf if rate is None else rate * _units(grid, setting.x)
    if grid.size > 2 and expected > patience:
        sizes = tuple(v for v in setting.values.values() if isinstance(v, int))
        if rate is None or _SIZES.get(study.name) != sizes:
            if rate is None:
                # The first call makes tables; the second tells what a point costs.
                _timed(_point(grid, 0))
            expected = _timed(_point(grid, -1))[0] * grid.size
        if expected > patience:
            _RATES[study.name], _SIZES[study.name] = expected / _units(grid, setting.x), sizes
            return FoundTheory(seconds=expected, dense=False, waits=True)
    spent, own = _timed(grid)
    _RATES[study.name] = spent / _units(grid, setting.x)
    dense = setting.lines(_DENSE)
    if own is None or dense is grid:
        return FoundTheory(own, None, spent)
    if rate is not None and spent > 2 * budget:
        return FoundTheory(own, None, spent, dense=False)
    known = _column(grid, setting.x)
    new = [v for v in _column(dense, setting.x) if v not in known]
    if not new:
        return FoundTheory(own, None, spent)
    # Others each time: theory that remembers results would be quick where it was asked before.
    before = _TRIED.setdefault(study.name, set())
    if before.issuperset(new):
        before.clear()
    fresh = [v for v in new if v not in before]
    tried = sorted(random.sample(fresh, min(_TOGETHER if _takes_many(setting) else 1, len(fresh))))
    before.update(tried)
    seconds, found = _timed(grid.across(setting.x, tried))
    each = seconds / len(tried)
    count = min(_DENSE, int((budget - min(spent, budget / 2)) / max(each, 1e-9)))
    if count < 2 * len(known) or found is None or found.keys() != own.keys():
        return FoundTheory(own, None, spent, dense=False)
    spent += seconds
    grid, own = joined(grid, setting.x, own, tried, found)

    rest = [v for v in _column(setting.lines(count), setting.x) if v not in {*known, *tried}]
    if rest:
        seconds, found = _timed(grid.across(setting.x, rest))
        spent += seconds
        if found is not None and found.keys() == own.keys():
            grid, own = joined(grid, setting.x, own, rest, found)

    def ask(asked: ParameterGrid) -> Mapping[str, Any] | None:
        nonlocal spent
        if each * len(_column(asked, setting.x)) > budget / 4:
            return None
        seconds, more = _timed(asked)
        spent += seconds
        return more

    grid, own = around_peaks(grid, setting.x, own, setting.outputs, ask)
    return FoundTheory(own, _column(grid, setting.x), spent)


def _takes_many(setting: ExplorerSetting) -> bool:
    """Whether a call for many values on the horizontal axis costs hardly more than one for a single value."""
    return setting.x in setting.study.broadcasts or setting.study.parameter(setting.x).kind == "path"


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
