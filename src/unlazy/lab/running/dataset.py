"""From stored rows to labelled arrays: one xarray Dataset per part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.grid import ParameterGrid
from unlazy.lab.study import Study

if TYPE_CHECKING:
    import xarray as xr

_LEAST_TOGETHER = 4
_MOST_TOGETHER = 1000
"""Points of one call of a theory that takes arrays: fewer gain nothing, more only need memory."""
_AGREE = 1e-11
"""How far such a call may be from a call for one point, relative to it."""


class Collector:
    """Fills the arrays of one part as results arrive."""

    def __init__(self, grid: ParameterGrid) -> None:
        self.grid = grid
        self.seconds = 0.0
        """What the instances took when they were computed."""
        self.arrays: dict[str, np.ndarray] = {}
        """By output, an array over points and seeds; what is missing in them is anything."""
        self.missing = np.ones((grid.size, grid.seeds), bool)
        """Which seeds of which points are not there yet."""

    def put(self, point: int, seed: int, arrays: Mapping[str, np.ndarray]) -> None:
        for name, array in arrays.items():
            if name not in self.arrays:
                self.arrays[name] = np.empty((self.grid.size, self.grid.seeds, *array.shape), array.dtype)
            if self.arrays[name].shape[2:] != array.shape:
                raise InputError(
                    f"output {name} of {self.grid.study.name} changes its shape within part {self.grid.part!r}: "
                    f"{self.arrays[name].shape[2:]} and {array.shape}; use a fixed grid or two parts"
                )
            if self.arrays[name].dtype != array.dtype:
                # An integer from one instance and a float from another are floats, as in any array.
                common = np.result_type(self.arrays[name], array)
                self.arrays[name] = self.arrays[name].astype(common, copy=False)
            self.arrays[name][point, seed] = array
        self.missing[point, seed] = False

    def put_all(self, arrays: Mapping[str, np.ndarray]) -> None:
        """All results at once, by output an array over points and seeds."""
        self.arrays = dict(arrays)
        self.missing[:] = False

    def dataset(self, partly: bool = False) -> xr.Dataset:
        """The results with names; `partly` allows some to be missing, which are not a number."""
        if self.missing.any() and not partly:
            raise InputError(f"{int(self.missing.sum())} results of {self.grid.study.name} are missing")
        shape = (*self.grid.shape, self.grid.seeds)
        arrays = {}
        for name in self.grid.study.simulated_outputs():
            found = self.arrays[name]
            if self.missing.any():
                found = np.where(self.missing.reshape(*self.missing.shape, *(1,) * (found.ndim - 2)), np.nan, found)
            arrays[name] = found.reshape((*shape, *found.shape[2:]))
        return _label(self.grid, arrays, ("seed",))


def without_diverged(simulated: xr.Dataset) -> xr.Dataset:
    """The data with NaN for all that instances gave which diverged: they are no results."""
    if "diverged_at" not in simulated or not (simulated.diverged_at >= 0).any():
        return simulated
    lost = simulated.diverged_at >= 0

    def kept(array: xr.DataArray) -> xr.DataArray:
        if array.name == "diverged_at":
            return array
        return array.where(~lost.any([dim for dim in lost.dims if dim not in array.dims]))

    return simulated.map(kept, keep_attrs=True)


def predicted(grid: ParameterGrid) -> xr.Dataset | None:
    """The study's theory at every point of a grid, or None where it has none there."""
    points = predict_points(grid)
    return None if points is None else labelled(grid, points)


def labelled(grid: ParameterGrid, points: Mapping[str, list[np.ndarray]]) -> xr.Dataset:
    """Arrays for every point of a grid, in its order, as a Dataset."""
    arrays = {name: np.stack(c).reshape((*grid.shape, *c[0].shape)) for name, c in points.items()}
    return _label(grid, arrays, ())


def predict_points(grid: ParameterGrid) -> dict[str, list[np.ndarray]] | None:
    """The study's theory point by point, without xarray: by output, in the order of the grid's points."""
    study = grid.study
    if not study.defines("predict"):
        return None
    columns: dict[str, list[np.ndarray]] = _predicted_together(grid) or {}
    for point in () if columns else grid.points():
        for name, result in _predict_one(study, point).items():
            columns.setdefault(name, []).append(result)
    unknown = columns.keys() - study.outputs.keys()
    if unknown:
        raise InputError(f"{study.name} predicts {', '.join(sorted(unknown))}, which it does not declare in outputs")
    for name, column in columns.items():
        if column[0].ndim != len(study.outputs[name].dims):
            raise InputError(
                f"the prediction of {name} in {study.name} has shape {column[0].shape}, but its declared dimensions "
                f"are {study.outputs[name].dims}"
            )
        for dim, length in zip(study.outputs[name].dims, column[0].shape, strict=True):
            if dim in grid.fixed and length != len(grid.fixed[dim]):
                raise InputError(
                    f"the prediction of {name} in {study.name} has length {length} along {dim}, which has "
                    f"{len(grid.fixed[dim])} values"
                )
    return {name: columns[name] for name in study.outputs if name in columns} or None


def _predict_one(study: type[Study], point: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: _real(study, name, result) for name, result in study(**point).predict().items()}


def _predicted_together(grid: ParameterGrid) -> dict[str, list[np.ndarray]] | None:
    """The theory where `predict` takes arrays: one call for many points that differ in these parameters alone.

    None where that saves nothing, or where anything goes wrong: point by point, the point that is wrong says so.
    """
    marked = set(grid.study.broadcasts)
    together = [i for i, axis in enumerate(grid.axes) if marked.issuperset(axis.names)]
    apart = [i for i in range(len(grid.axes)) if i not in together]
    count = math.prod(grid.shape[i] for i in together)
    if count < _LEAST_TOGETHER:
        return None
    names = [name for i in together for name in grid.axes[i].names]
    groups = np.arange(grid.size).reshape(grid.shape).transpose(*apart, *together).reshape(-1, count)
    columns: dict[str, list[Any]] = {}
    try:
        for group in groups:
            for start in range(0, count, _MOST_TOGETHER):
                indices = group[start : start + _MOST_TOGETHER]
                found = _predict_many(grid.study, [grid.point(int(i)) for i in indices], names)
                if not found or (columns or found).keys() != found.keys():
                    return None
                for name, rows in found.items():
                    column = columns.setdefault(name, [None] * grid.size)
                    for index, row in zip(indices, rows, strict=True):
                        column[index] = row
    except Exception:
        return None
    return columns


def _predict_many(study: type[Study], points: list[dict[str, Any]], names: list[str]) -> dict[str, np.ndarray]:
    """One call for all points; ValueError unless the last of them gives the same alone."""
    last = _predict_one(study, points[-1])
    inner = max((result.ndim for result in last.values()), default=0)
    arrays = {n: np.array([point[n] for point in points], float).reshape(-1, *(1,) * inner) for n in names}
    many = _predict_one(study, {**points[-1], **arrays})
    if many.keys() != last.keys():
        raise ValueError("the outputs differ")
    for name, alone in last.items():
        shape = (len(points), *(1,) * (inner - alone.ndim), *alone.shape)
        many[name] = np.broadcast_to(many[name], shape).reshape(-1, *alone.shape)
        if not np.allclose(many[name][-1], alone, rtol=_AGREE, atol=0, equal_nan=True):
            raise ValueError(f"{name} differs")
    return many


def _real(study: type[Study], name: str, result: Any) -> np.ndarray:
    try:
        return np.asarray(result, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"the prediction of {name} in {study.name} must be real numbers, got {result!r}") from None


def inner_coordinates(grid: ParameterGrid) -> dict[str, np.ndarray]:
    """The coordinates of output dimensions that are no path, which must be the same at every point."""
    study = grid.study
    if not (study.defines("coordinates") or study.inner):
        return {}
    points = (study(**point).coordinates() for point in grid.points())
    found = {dim: np.asarray(values) for dim, values in next(points).items()}
    for other in points:
        for dim, values in other.items():
            if not np.array_equal(found[dim], values):
                raise InputError(
                    f"the coordinate {dim} of {study.name} differs between points of part {grid.part!r}; use a fixed "
                    "grid or two parts"
                )
    return found


def _label(grid: ParameterGrid, arrays: Mapping[str, np.ndarray], extra: tuple[str, ...]) -> xr.Dataset:
    import xarray as xr

    study = grid.study
    coords: dict[str, Any] = {name: (axis.dim, axis.column(name)) for axis in grid.axes for name in axis.names}
    if "seed" in extra:
        coords["seed"] = np.arange(grid.seeds)
    used = dict.fromkeys(dim for name in arrays for dim in study.outputs[name].dims)
    inner = inner_coordinates(grid)
    for dim in used:
        if dim in study.parameters():
            coords[dim] = list(grid.fixed[dim])
        elif dim in inner:
            coords[dim] = np.asarray(inner[dim])
    dims = tuple(axis.dim for axis in grid.axes) + extra
    data = {
        name: (dims + study.outputs[name].dims, array, _attributes(study.outputs[name]))
        for name, array in arrays.items()
    }
    dataset = xr.Dataset(data, coords, {"study": study.name, "part": grid.part})
    for name, parameter in study.parameters().items():
        if name in dataset.coords:
            dataset[name].attrs.update(_attributes(parameter))
        else:
            dataset.attrs[name] = grid.fixed[name]
    return dataset


def _attributes(described: Any) -> dict[str, str]:
    return {"long_name": described.label, "symbol": described.symbol}


def as_json(value: Any) -> Any:
    """A value in JSON's types: NaN is null, infinities are the strings 'inf' and '-inf'."""
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        plain = value.tolist()
        return plain if value.dtype.kind in "biuf" and np.isfinite(value).all() else as_json(plain)
    if isinstance(value, list | tuple):
        return [as_json(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
