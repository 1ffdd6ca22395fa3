"""The figure of a study that has none of its own: outputs against the longest axis, one colour per other case."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab.grid import Grid
from unlazy.lab.study import Part, Study
from unlazy.plotting import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_PANELS = 4
_MOST_CURVES = 7


def default_figure(
    study: type[Study],
    parts: Mapping[str, Part],
    grids: Mapping[str, Grid],
    outputs: Sequence[str] | None = None,
    x: str = "",
) -> Figure:
    """A row of panels per part, with a legend beside it; what does not fit is named at the foot.

    The horizontal axis is `x` where an output has it, else an axis that the user added, or the longest numeric one. A
    part without simulation (None) shows its lines alone.
    """
    if outputs is None:
        outputs = [name for name in study.simulated_outputs() if study.outputs[name].predicts is None]
    shown = outputs[:_MOST_PANELS]
    figure, axes = style.panels(len(shown), len(parts), width=3.1)
    rows = np.atleast_2d(axes).reshape(len(parts), len(shown))
    left_out = [f"outputs {', '.join(outputs[_MOST_PANELS:])}"] if len(outputs) > _MOST_PANELS else []
    for row, name in zip(rows, parts, strict=True):
        curves = [
            draw(panel, study, parts[name], grids[name], output, x) for panel, output in zip(row, shown, strict=True)
        ]
        entries: dict[str, Any] = {}
        for panel in row:
            handles, labels = panel.get_legend_handles_labels()
            entries |= dict(zip(labels, handles, strict=True))
        if len(entries) > 1:
            row[-1].legend(entries.values(), entries.keys(), loc="upper left", bbox_to_anchor=(1.02, 1.0))
        if len(parts) > 1:
            row[0].set_title(name)
        if max(curves) > _MOST_CURVES:
            left_out.append(f"{max(curves) - _MOST_CURVES} of {max(curves)} curves of part {name}")
    if left_out:
        figure.supxlabel(f"not shown: {'; '.join(left_out)}", fontsize=7, color="0.4")
    return figure


def draw(panel: Any, study: type[Study], part: Part, grid: Grid, output: str, x: str = "") -> int:
    """Draw one output; returns how many curves it has, of which the first few are drawn."""
    simulated = part.simulated[output] if part.simulated is not None and output in part.simulated else None
    theory = part.lines[output] if part.lines is not None and output in part.lines else None
    values = theory if simulated is None else simulated
    if values is None:
        return 0
    x = x if x in values.dims else _horizontal(values, grid.added)
    cases = _cases(values, x)
    for index, (text, case) in enumerate(cases[:_MOST_CURVES]):
        color = style.colour(index)
        if simulated is not None:
            curve = simulated.isel(case)
            style.simulation(panel, _positions(curve, x), curve, color=color, label=text or "simulation")
        if theory is not None:
            line = theory.isel({d: _where(theory, values, d, i) for d, i in case.items()})
            where, label = _positions(line, x), None if simulated is not None else text
            if len(where) == 1:
                panel.axhline(line.values.item(), color=color, label=label, zorder=2)
            else:
                style.theory(panel, where, line, color=color, label=label)
    described, parameter = study.outputs[output], study.parameters().get(x)
    panel.set_ylabel(textwrap.fill(described.label, 30))
    words = "" if parameter and parameter.symbol == x else x.replace("_", " ")
    panel.set_xlabel(style.label(words, parameter.symbol if parameter else "").strip())
    if not x or not _is_numeric(values[x]):
        panel.set_xticks(_positions(values, x), [str(v) for v in values[x].values] if x else [""])
    elif parameter and parameter.scale == "log" and (values[x] > 0).all():
        style.log_scale(panel, "x")
    finite = values.values[np.isfinite(values.values)]
    if described.scale == "log" and (simulated is not None or (finite > 0).any()):
        style.log_scale(panel, "y")
    if theory is not None and finite.size and np.isinf(theory).any():
        panel.set_ylim(top=3 * finite.max())
    return len(cases)


def _is_numeric(coordinate: Any) -> bool:
    return np.issubdtype(coordinate.dtype, np.number)


def _horizontal(values: Any, added: tuple[str, ...]) -> str:
    """An axis that the user added, else the longest numeric one, else the longest; '' where there is none."""
    dims = [str(d) for d in values.dims if d != "seed"]
    numeric = [d for d in dims if _is_numeric(values[d])]
    chosen = [d for d in added if d in dims] or sorted(numeric or dims, key=lambda d: -values.sizes[d])
    return chosen[0] if chosen else ""


def _positions(curve: Any, x: str) -> Any:
    """Where the points of a curve stand; names stand side by side."""
    if not x:
        return np.zeros(1)
    return curve[x].values if _is_numeric(curve[x]) else np.arange(curve.sizes[x])


def _cases(values: Any, x: str) -> list[tuple[str, dict[str, int]]]:
    """The combinations of all dimensions but the horizontal one and the seeds, in words and as positions."""
    others = [str(d) for d in values.dims if d not in ("seed", x)]
    cases = []
    for position in np.ndindex(*(values.sizes[d] for d in others)):
        case = dict(zip(others, position, strict=True))
        coords = {n: c for n, c in values.coords.items() if c.dims and c.dims[0] in case}
        along = [(n, c.values[case[c.dims[0]]].item()) for n, c in coords.items() if len(np.unique(c.values)) > 1]
        words = [f"{n} = {v:.4g}" if isinstance(v, float) else f"{n} = {v}" for n, v in along]
        cases.append((", ".join(words), case))
    return cases


def _where(theory: Any, values: Any, dim: str, index: int) -> int:
    """The position in the theory, which may be on a denser grid, of a position in the simulation."""
    if theory.sizes[dim] == values.sizes[dim]:
        return index
    return int(np.flatnonzero(theory[dim].values == values[dim].values[index])[0])
