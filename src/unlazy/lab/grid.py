"""Grids: which points of parameter space a run visits."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

from unlazy.checks import InputError, check_choice, check_whole
from unlazy.lab.parameters import MOST_POINTS, entries
from unlazy.lab.study import Study, preset_parts
from unlazy.words import brief, shown

DEFAULT_SEEDS = 8
MAIN = "main"
"""The stream of random numbers that documents quote."""
MOST_SEEDS = 1_000_000
MOST_INSTANCES = 10**8
"""All seeds of all points of a grid: a byte for each says whether it is there."""


class Axis(NamedTuple):
    """One dimension of a grid: a parameter, or several that vary together. The first name is the dimension's."""

    names: tuple[str, ...]
    rows: tuple[tuple, ...]

    @property
    def dim(self) -> str:
        return self.names[0]

    def column(self, name: str) -> list:
        return [row[self.names.index(name)] for row in self.rows]


@dataclass(frozen=True)
class ParameterGrid:
    """The points of one part of a run: fixed parameters, axes, and how many seeds each point gets."""

    study: type[Study]
    part: str
    fixed: Mapping[str, Any]
    axes: tuple[Axis, ...]
    seeds: int
    added: tuple[str, ...] = ()
    """Dimensions that the preset does not have; the study's own figure does not expect them."""
    stream: str = MAIN
    """Runs in different streams draw different numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.rows) for axis in self.axes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def instances(self) -> int:
        """All seeds of all points."""
        return self.size * self.seeds

    def points(self) -> Iterator[dict[str, Any]]:
        """All parameters of each point, the last axis fastest."""
        for rows in itertools.product(*(axis.rows for axis in self.axes)):
            point = dict(self.fixed)
            for axis, row in zip(self.axes, rows, strict=True):
                point.update(zip(axis.names, row, strict=True))
            yield point

    def point(self, index: int) -> dict[str, Any]:
        """All parameters of the point with this number."""
        point = dict(self.fixed)
        for axis in reversed(self.axes):
            index, row = divmod(index, len(axis.rows))
            point.update(zip(axis.names, axis.rows[row], strict=True))
        return point

    def validate(self) -> None:
        """Run the study's own check on every point."""
        if self.study.defines("validate"):
            for point in self.points():
                self.study(**point).validate()

    def parameters(self) -> dict[str, Any]:
        """The parameters that have one value on the whole grid."""
        varying = {name for axis in self.axes for name in axis.names if len(set(axis.column(name))) > 1}
        return {name: value for name, value in self.point(0).items() if name not in varying}

    def denser(self, dim: str, count: int = 60) -> ParameterGrid:
        """This grid with up to `count` values between the ends of the axis or path `dim`, besides its own.

        Values that the study refuses are left out.
        """
        parameter = self.study.parameter(dim)
        if parameter.kind == "path":
            return self.across(dim, _fill(parameter, self.fixed[dim], count))
        first, own = self.point(0), [axis.column(dim) for axis in self.axes if axis.names == (dim,)]
        values = [v for column in own for v in _fill(parameter, column, count)]
        return self.across(dim, [v for v in values if self.study.accepts({**first, dim: v})])

    def across(self, dim: str, values: Sequence[Any]) -> ParameterGrid:
        """This grid with other values of the path `dim`, or of the axis that is `dim` alone."""
        if self.study.parameter(dim).kind == "path":
            return replace(self, fixed={**self.fixed, dim: tuple(values)})
        axis = Axis((dim,), tuple((v,) for v in values))
        return replace(self, axes=tuple(axis if a.names == (dim,) else a for a in self.axes))


Grids = Mapping[str, ParameterGrid]
"""The grids of a run by part."""


def preset_grids(
    study: type[Study],
    preset: str,
    *,
    set: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    stream: str = MAIN,
    part: str | None = None,
) -> dict[str, ParameterGrid]:
    """The grids of a preset by part, with parameters fixed by `set` and axes given by `over`; or that of one part."""
    check_choice("preset", preset, study.presets)
    check_stream(stream)
    parts = preset_parts(study.presets[preset])
    if part is not None:
        parts = {part: parts[check_choice("part", part, parts)]}
    return {
        name: replace(_grid(study, name, grid, set or {}, over or {}, seeds), stream=stream)
        for name, grid in parts.items()
    }


def check_stream(stream: str) -> None:
    """Refuse a stream's name that a command line or a file of evidence could not repeat."""
    if not (isinstance(stream, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", stream)):
        raise InputError(f"stream must be a name of letters, digits, '_', '.' and '-', got {brief(stream)}")


def default_grid(
    study: type[Study], *, set: Mapping[str, Any] | None = None, over: Mapping[str, Any] | None = None
) -> ParameterGrid:
    """The grid around the study's default parameters."""
    return _grid(study, "main", {}, set or {}, over or {}, 1)


def spread(start: float, stop: float, count: int, scale: str = "linear") -> list[float]:
    """`count` values from `start` to `stop`, evenly spaced, or geometrically where scale is 'log'."""
    import numpy as np

    if scale == "log" and start > 0 and stop > 0:
        return np.geomspace(start, stop, count).tolist()
    return np.linspace(start, stop, count).tolist()


def _fill(parameter: Any, values: Sequence, count: int) -> tuple:
    values = [v for v in values if not isinstance(v, str | bool)]
    inner = spread(min(values), max(values), count, parameter.scale)
    positive = [v for v in values if v > 0]
    if parameter.scale == "log" and positive and len(positive) < len(values):
        inner = spread(min(positive), max(positive), count, "log")
    if parameter.type is int:
        inner = [round(v) for v in inner]
    return tuple(sorted({parameter.coerce_one(v) for v in [*inner, *values]}))


def _grid(
    study: type[Study],
    part: str,
    preset: Mapping,
    fixed_by_user: Mapping[str, Any],
    over_by_user: Mapping[str, Any],
    seeds: int | None,
) -> ParameterGrid:
    for name, given in (("set", fixed_by_user), ("over", over_by_user)):
        if not isinstance(given, Mapping):
            raise InputError(f"{name} must be a dict of parameters by name, got {brief(given)}")
        for key in given:
            study.parameter(key)
    both = [name for name in fixed_by_user if name in over_by_user]
    if both:
        raise InputError(f"parameter {both[0]!r} is given both as one value and as an axis; give one")
    parameters = study.parameters()
    check_size(len(entries(n, v)) for n, v in over_by_user.items() if parameters[n].kind != "path")
    fixed = {name: parameter.coerce(parameter.default) for name, parameter in parameters.items()}
    axes: dict[str, Axis] = {}
    dims: list[str] = []

    def put(name: str, values: Any) -> None:
        parameter = study.parameter(name)
        if parameter.kind == "path" or isinstance(values, str | Real):
            fixed[name] = parameter.coerce(values)
            return
        column = [parameter.coerce_one(v) for v in entries(name, values)]
        if not column:
            raise InputError(f"the axis {name} is empty; give at least one value")
        if len(set(column)) < len(column):
            raise InputError(f"the axis {name} repeats a value, got {shown(column)}")
        axes[name] = Axis((name,), tuple((v,) for v in column))

    preset = dict(preset)
    preset_seeds = preset.pop("seeds", DEFAULT_SEEDS)
    for key, values in preset.items():
        if isinstance(key, tuple):
            dims += key
            axis = _zipped(study, key, values, fixed_by_user, over_by_user)
            if axis is not None:
                axes[axis.dim] = axis
        else:
            if isinstance(values, Sequence) and not isinstance(values, str):
                dims.append(key)
            put(key, values)
    for name, values in over_by_user.items():
        put(name, values)
    for name, single in fixed_by_user.items():
        # An axis of the preset stays a dimension, of length one, so that the study's figure and claims still find it.
        if not any(name in axis.names for axis in axes.values() if len(axis.names) > 1):
            value = parameters[name].coerce(single)
            put(name, [value] if name in axes else value)
    check_size(len(axis.rows) for axis in axes.values())
    count = check_whole("seeds", preset_seeds if seeds is None else seeds, 1, MOST_SEEDS, floats=False)
    added = tuple(dim for dim in axes if dim not in dims)
    grid = ParameterGrid(study, part, fixed, tuple(axes.values()), count, added)
    if grid.instances > MOST_INSTANCES:
        raise InputError(
            f"a grid must have at most {MOST_INSTANCES} instances, got {grid.size} points with {count} seeds each"
        )
    return grid


def check_size(lengths: Iterable[int]) -> None:
    """Refuse a grid of more than 10^7 points by the lengths of its axes."""
    if (size := math.prod(lengths)) > MOST_POINTS:
        raise InputError(f"a grid must have at most {MOST_POINTS} points, got {brief(size)}")


def _zipped(
    study: type[Study],
    names: tuple[str, ...],
    rows: Sequence[tuple],
    fixed_by_user: Mapping[str, Any],
    over_by_user: Mapping[str, Any],
) -> Axis | None:
    """An axis of parameters that vary together, without those to which the user gave an axis of their own.

    A parameter that the user fixed has that value in every row; rows that then agree are one.
    """
    if any(study.parameter(name).kind == "path" for name in names):
        raise InputError(f"{study.name}: a path cannot vary together with other parameters, in {' and '.join(names)}")
    kept = tuple(name for name in names if name not in over_by_user)
    if not kept:
        return None
    columns = [
        [fixed_by_user[name]] * len(rows) if name in fixed_by_user else [row[names.index(name)] for row in rows]
        for name in kept
    ]
    coerced = [[study.parameter(n).coerce(v) for v in column] for n, column in zip(kept, columns, strict=True)]
    return Axis(kept, tuple(dict.fromkeys(zip(*coerced, strict=True))))
