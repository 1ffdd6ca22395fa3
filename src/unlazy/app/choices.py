"""What the explorer can show of a study, and what it shows first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from unlazy.app.controls import steps
from unlazy.lab.grid import ParameterGrid, preset_grids
from unlazy.lab.parameters import Parameter
from unlazy.lab.parse import as_text
from unlazy.lab.study import Study, remembered
from unlazy.words import plain

PRESET = "quick"
_MOST_PANELS = 2


@remembered
def parts(study: type[Study]) -> dict[str, ParameterGrid]:
    """The grids of the quick preset by part."""
    return preset_grids(study, PRESET)


def horizontals(study: type[Study], part: str) -> dict[str, str]:
    """What may stand on the horizontal axis, with its words: parameters, paths and the outputs' own dimensions."""
    found = {}
    for name, parameter in study.parameters().items():
        if parameter.choices is None or is_listable(parameter.choices):
            if parameter.type is str and parameter.choices is None:
                continue
            if parameter.kind == "path" and not any(name in o.dims for o in study.outputs.values()):
                continue
            found[name] = plain(parameter.label)
    for dim, values in _inner(study, part).items():
        if len(values) > 1:
            found[dim] = dim.replace("_", " ")
    return found


def curve_choices(study: type[Study], x: str) -> dict[str, str]:
    """The parameters that may give several curves beside the horizontal one."""
    return {
        name: plain(p.label)
        for name, p in study.parameters().items()
        if name != x and p.kind != "path" and (p.type is not str or (p.choices is not None and is_listable(p.choices)))
    }


def drawable(study: type[Study]) -> list[str]:
    """The outputs that have a panel of their own: not the theory of drawn instances, which belongs to another."""
    predicts = study.defines("predict")
    return [n for n, o in study.outputs.items() if o.predicts is None and (predicts or not o.theory_only)]


def output_words(study: type[Study]) -> dict[str, str]:
    """These outputs with their words."""
    return {name: f"{plain(study.outputs[name].label)} ({name})" for name in drawable(study)}


def first_outputs(study: type[Study], part: str, x: str) -> tuple[str, ...]:
    """The outputs that are shown unless others are chosen: simulated ones that vary along x, the figure's first."""
    every = [name for name in drawable(study) if not study.outputs[name].theory_only]
    every.sort(key=lambda name: name not in _in_figure(study, part))
    along = every if x in study.parameters() and study.parameter(x).kind != "path" else []
    along = along or [name for name in every if x in study.outputs[name].dims]
    # Outputs with few dimensions of their own make few curves.
    few = [name for name in along if len(set(study.outputs[name].dims) - {x}) <= 1]
    return tuple((few or along or every)[:_MOST_PANELS])


def _in_figure(study: type[Study], part: str) -> set[str]:
    """The outputs that the study's own figure shows of a part by their names."""
    panels = study.figure.panels if study.figure is not None else ()
    layers = [layer for panel in panels for layer in (panel, *getattr(panel, "also", ()))]
    shown = [layer.show if isinstance(layer.show, tuple) else (layer.show,) for layer in layers if layer.part == part]
    return {name for names in shown for name in names if isinstance(name, str)}


def default_axis(study: type[Study], part: str, name: str) -> str:
    """The axis of a parameter that is put on the horizontal one: the part's values, or five around its own."""
    parameter, grid = study.parameter(name), parts(study)[part]
    if parameter.kind == "path":
        return as_text(grid.fixed[name] if len(grid.fixed[name]) > 1 else parameter.coerce(parameter.default))
    for axis in grid.axes:
        if name in axis.names and len(set(axis.column(name))) > 2 and is_listable(axis.column(name)):
            return as_text(dict.fromkeys(axis.column(name)))
    if parameter.choices is not None:
        return as_text(parameter.choices)
    if parameter.type is bool:
        return "false,true"
    point = next(grid.points())
    around = [v for v in steps(parameter, point[name], reach=4.0) if study.accepts({**point, name: v})]
    if parameter.scale == "log":
        around = [v for v in around if v > 0] or around
    return as_text([around[i] for i in np.unique(np.linspace(0, len(around) - 1, 5).round().astype(int))])


def is_numeric(parameter: Parameter) -> bool:
    """Whether the parameter's values are numbers."""
    return parameter.type in (int, float)


def is_listable(values: Iterable[Any]) -> bool:
    """Whether values can stand in a list, which commas divide."""
    return not any("," in str(v) for v in values)


def _inner(study: type[Study], part: str) -> dict[str, np.ndarray]:
    """The outputs' own dimensions that have coordinates."""
    point = next(parts(study)[part].points())
    used = {dim for output in study.outputs.values() for dim in output.dims}
    found = study(**point).coordinates()
    return {dim: np.asarray(values) for dim, values in found.items() if dim in used}


def first_horizontal(study: type[Study], part: str) -> str:
    """The dimension that a part has on its horizontal axis first: what its lines or its longest numeric axis say."""
    allowed, grid = horizontals(study, part), parts(study)[part]
    if study.lines.get(part) in allowed:
        return study.lines[part]
    axes = {a.dim: len(a.rows) for a in grid.axes if len(a.names) == 1 and a.dim in allowed}
    numeric = {n: c for n, c in axes.items() if is_numeric(study.parameter(n))}
    numeric |= {n: len(grid.fixed[n]) for n, p in study.parameters().items() if p.kind == "path" and n in allowed}
    dims = [dim for output in study.outputs.values() for dim in output.dims]
    inner = {d: len(v) for d, v in _inner(study, part).items() if np.issubdtype(v.dtype, np.number) and d in allowed}
    long = {n: c for n, c in numeric.items() if c > 2}
    if long:
        return max(long, key=lambda name: long[name])
    for dim in dims:
        if inner.get(dim, 0) > 2:
            return dim
    rest = {n: c for n, c in (numeric or axes).items() if c > 1}
    numbers = [n for n in allowed if n in study.parameters() and is_numeric(study.parameter(n))]
    return max(rest, key=lambda name: rest[name]) if rest else (numbers or list(allowed))[0]
