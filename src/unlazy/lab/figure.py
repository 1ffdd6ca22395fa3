"""The figure of a study that has none of its own: outputs against the longest axis, one colour per other case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab.grid import Grid
from unlazy.lab.study import Part, Study
from unlazy.plotting import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_PANELS = 4
_MOST_CURVES = 7


def default_figure(study: type[Study], parts: Mapping[str, Part], grids: Mapping[str, Grid]) -> Figure:
    """A row of panels per part. The horizontal axis is an axis that the user added, or the longest numeric one."""
    shown = {name: list(part.simulated.data_vars)[:_MOST_PANELS] for name, part in parts.items()}
    columns = max(len(outputs) for outputs in shown.values())
    figure, axes = style.panels(columns, len(parts))
    rows = np.atleast_2d(axes).reshape(len(parts), columns)
    for row, (name, outputs) in zip(rows, shown.items(), strict=True):
        for panel in row[len(outputs) :]:
            panel.set_visible(False)
        for panel, output in zip(row, outputs, strict=False):
            _draw(panel, study, parts[name], grids[name], str(output))
            if len(parts) > 1:
                panel.set_title(name)
    return figure


def _draw(panel: Any, study: type[Study], part: Part, grid: Grid, output: str) -> None:
    values = part.simulated[output]
    numeric = [d for d in values.dims if d != "seed" and np.issubdtype(values[d].dtype, np.number)]
    described = study.outputs[output]
    panel.set_ylabel(style.label(described.label, described.symbol))
    if described.scale == "log":
        panel.set_yscale("log")
    if not numeric:
        style.simulation(panel, [0] * values.isel(seed=0).size, _curves(values, None)[0][1], color=style.colour(0))
        return
    x = str(next((d for d in grid.added if d in numeric), max(numeric, key=lambda d: values.sizes[d])))
    theory = part.predicted[output] if part.predicted is not None and output in part.predicted else None
    for index, (text, curve) in enumerate(_curves(values, x)[:_MOST_CURVES]):
        color = style.colour(index)
        style.simulation(panel, curve[x], curve, color=color, label=text or "simulation")
        if theory is not None:
            style.theory(panel, curve[x], _curves(theory, x)[index][1].values, color=color)
    parameter = study.parameters().get(x)
    panel.set_xlabel(style.label(parameter.label, parameter.symbol) if parameter else x)
    if parameter and parameter.scale == "log" and (values[x] > 0).all():
        panel.set_xscale("log")
    panel.legend()


def _curves(values: Any, x: str | None) -> list[tuple[str, Any]]:
    """The curves over `x`, one for each combination of the other dimensions, with what tells them apart."""
    others = [d for d in values.dims if d not in ("seed", x)]
    if not others:
        return [("", values)]
    stacked = values.stack(case=others)
    curves = []
    for index in range(stacked.sizes["case"]):
        curve = stacked.isel(case=index)
        words = [
            f"{d} = {curve[d].item():.4g}" if curve[d].dtype.kind == "f" else f"{d} = {curve[d].item()}" for d in others
        ]
        curves.append((", ".join(words), curve.drop_vars(["case", *others], errors="ignore")))
    return curves
