"""The theory's lines: on a grid that is denser than the simulated points, and denser still around peaks.

A peak that diverges, such as that of ridge regression without a ridge, ends on an even grid at whatever value its
nearest neighbours have: the line looks as if it were cut off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab.grid import ParameterGrid
from unlazy.lab.running.dataset import labelled, predict_points

if TYPE_CHECKING:
    import xarray as xr

Points = Mapping[str, Sequence[np.ndarray]]
"""By output an array for each point of a grid, in its order."""
_ROUNDS = 3
"""How often there are more values around a peak; each time they are four times as near to each other."""
_PEAK = 1.1
"""How many times one of its neighbours a value is that is a peak, and not a curve's rounded top."""
_MOST_PEAKS = 3
_PATIENCE = 2.0
"""Theory that took more seconds on the even grid is not asked for more."""


def lines(grid: ParameterGrid, dim: str) -> xr.Dataset | None:
    """The study's theory along the axis or path `dim`, for a figure; None where it has none."""
    dense, start = grid.denser(dim), time.perf_counter()
    points = predict_points(dense)
    if points is None:
        return None
    ask = predict_points if time.perf_counter() - start < _PATIENCE else lambda _: None
    return labelled(*around_peaks(dense, dim, points, list(points), ask))


def around_peaks(
    grid: ParameterGrid,
    dim: str,
    points: Points,
    outputs: Collection[str],
    ask: Callable[[ParameterGrid], Points | None],
) -> tuple[ParameterGrid, dict[str, list[np.ndarray]]]:
    """The grid with more values of `dim` around the peaks of outputs, and the points there, for which it asks.

    `ask` may refuse: then the lines stay as they are.
    """
    for _ in range(_ROUNDS):
        values, places = _values(grid, dim), {name: _place(grid, dim, name) for name in points}
        along = [_stacked(grid, dim, n, points[n]) for n in outputs if places.get(n) is not None]
        more = _between(grid, dim, values, along) if len(values) > 2 else []
        added = ask(grid.across(dim, more)) if more else None
        if added is None or added.keys() != points.keys():
            break
        grid, points = joined(grid, dim, points, more, added)
    return grid, {name: list(rows) for name, rows in points.items()}


def joined(
    grid: ParameterGrid, dim: str, points: Points, more: Sequence[Any], added: Points
) -> tuple[ParameterGrid, dict[str, list[np.ndarray]]]:
    """The grid with `more` values of `dim` in their order, and its points with those that were added there."""
    values = [*_values(grid, dim), *more]
    order, wider = np.argsort(values, kind="stable"), grid.across(dim, sorted(values))
    found = {}
    for name, rows in points.items():
        array = _stacked(grid, dim, name, rows)
        if _place(grid, dim, name) is not None:
            new = _stacked(grid.across(dim, more), dim, name, added[name])
            array = np.concatenate([array, new])[order]
        found[name] = _apart(wider, dim, name, array)
    return wider, found


def _between(grid: ParameterGrid, dim: str, values: Sequence[float], shown: Sequence[np.ndarray]) -> list[Any]:
    """New values on both sides of where an array over the values has a peak."""
    height = np.zeros(len(values))
    for array in shown:
        with np.errstate(invalid="ignore", divide="ignore"):
            y = np.abs(array.reshape(len(values), -1))
            inner, low, high = y[1:-1], y[:-2], y[2:]
            sharp = np.where((inner >= low) & (inner >= high), inner / np.minimum(low, high), 0.0)
        height[1:-1] = np.maximum(height[1:-1], np.nan_to_num(sharp, nan=0.0, posinf=np.inf).max(axis=1, initial=0.0))
    parameter, first = grid.study.parameter(dim), grid.point(0)
    found = set()
    for index in np.argsort(-height, kind="stable")[:_MOST_PEAKS].tolist():
        if height[index] <= _PEAK:
            break
        for a, b in ((values[index - 1], values[index]), (values[index], values[index + 1])):
            for share in (0.25, 0.5, 0.75):
                between = a + share * (b - a)
                found.add(parameter.coerce_one(round(between) if parameter.type is int else between))
    allowed = parameter.kind == "path"
    return sorted(v for v in found - set(values) if allowed or grid.study.accepts({**first, dim: v}))


def _values(grid: ParameterGrid, dim: str) -> list[Any]:
    """The values of an axis that is `dim` alone, or of a path; none of one that varies with others."""
    along = [axis.column(dim) for axis in grid.axes if axis.names == (dim,)]
    fixed = grid.fixed[dim]
    return along[0] if along else list(fixed) if isinstance(fixed, tuple) else []


def _place(grid: ParameterGrid, dim: str, output: str) -> int | None:
    """Which dimension of an output's array over the grid is `dim`; None if none is."""
    for index, axis in enumerate(grid.axes):
        if axis.names == (dim,):
            return index
    dims = grid.study.outputs[output].dims
    return len(grid.axes) + dims.index(dim) if dim in dims else None


def _stacked(grid: ParameterGrid, dim: str, output: str, rows: Sequence[np.ndarray]) -> np.ndarray:
    """One array of an output's rows, `dim` first."""
    array, place = np.stack(rows).reshape((*grid.shape, *rows[0].shape)), _place(grid, dim, output)
    return array if place is None else np.moveaxis(array, place, 0)


def _apart(grid: ParameterGrid, dim: str, output: str, array: np.ndarray) -> list[np.ndarray]:
    """The rows of which `_stacked` made an array."""
    place = _place(grid, dim, output)
    whole = array if place is None else np.moveaxis(array, 0, place)
    return list(whole.reshape(grid.size, *whole.shape[len(grid.shape) :]))
