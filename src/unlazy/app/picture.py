"""What the explorer draws and gives away: panels for the page, the figure and the data as files."""

from __future__ import annotations

import math
import re
import tempfile
import textwrap
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.app.setting import ExplorerSetting
from unlazy.app.theory import TheoryLines
from unlazy.checks import InputError
from unlazy.lab.study import Study
from unlazy.plotting import style
from unlazy.plotting.drawing import Drawing, draw_panels, plain_panel, plain_panels
from unlazy.plotting.picture import Picture, worded
from unlazy.reporting.export import write_netcdf

if TYPE_CHECKING:
    import xarray as xr

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_WIDTH, _HEIGHT = 266, 209
"""Of a panel, in points."""
_LINE, _LETTER = 11.5, 5.2
"""The height of a line and the width of a digit."""
_LONG = 40
"""Letters of a label that an axis does not have room for."""
_DRAWING = threading.Lock()
"""Matplotlib's settings are those of the process; visitors' pages are threads of it."""


def stored(setting: ExplorerSetting, store: str | None) -> xr.Dataset | None:
    """What the store, or the shipped results, have of the simulation at the setting's points; None if it is nothing.

    Nothing is computed. Instances that are missing are not a number, and the attribute `missing` counts them.
    """
    from unlazy.lab.running.dataset import Collector, without_diverged
    from unlazy.lab.running.laboratory import Laboratory
    from unlazy.lab.running.pack import fill
    from unlazy.lab.running.store import Store, default_path

    collector = Collector(setting.grid)
    if (default_path() if store is None else Path(store)).is_file():
        with Store(store) as opened, Laboratory(opened) as laboratory:
            collector = laboratory.load(setting.study, {setting.part: setting.grid})[0][setting.part]
    fill(collector)
    if collector.missing.all():
        return None
    return without_diverged(collector.dataset(partly=True)).assign_attrs(missing=int(collector.missing.sum()))


def drawn_outputs(setting: ExplorerSetting, theory: TheoryLines, simulated: xr.Dataset | None) -> list[str]:
    """Those of the outputs to show of which there is theory or simulation."""
    there = {str(name) for dataset in (theory.dataset, simulated) if dataset is not None for name in dataset.data_vars}
    return [name for name in setting.outputs if name in there]


def panel(setting: ExplorerSetting, theory: TheoryLines, simulated: xr.Dataset | None, output: str) -> str:
    """One output as an SVG element."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogFormatter

    part = Picture(simulated, None, theory.dataset)
    shown = replace(
        plain_panel(part, setting.grid.added, setting.part, output, setting.x),
        legend=False,
        xlabel=short_label(setting.study, setting.x),
        ylabel=short_label(setting.study, output),
    )
    with _DRAWING, style.style():
        # In points, as the SVG is: texts that were measured are not measured again.
        figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72), dpi=72)
        axes = figure.subplots()
        Drawing(axes, setting.study, shown, {setting.part: part}).draw()
        # Most of a drawing's time went to small ticks and to reading formulas, which powers of ten are.
        axes.minorticks_off()
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatter):
                axis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
        _cut_poles(axes)
        handles, labels = axes.get_legend_handles_labels()
        several = len(handles) > 1
        if several:
            figure.legend(handles, labels, loc="lower center", ncols=2, borderaxespad=0.2)
        _arrange(figure, axes, -(-len(handles) // 2) if several else 0)
        return style.svg(figure, salt=output)


def _arrange(figure: Any, axes: Any, rows: int) -> None:
    """Margins by what stands in them, and `rows` of a legend below: a layout engine takes as long as all the rest."""
    ticks = [t.get_text() for t in axes.get_yticklabels()]
    names = [t for t in axes.get_xticklabels() if t.get_rotation()]
    slanted = max((4.5 * math.sin(math.radians(t.get_rotation())) * len(t.get_text()) for t in names), default=0.0)
    left = 13 + _LINE * (1 + axes.get_ylabel().count("\n")) + _LETTER * max(map(len, ticks), default=0)
    bottom = 24 + slanted + _LINE * (rows + 1 + axes.get_xlabel().count("\n"))
    title = axes.get_title(loc="left") or axes.get_title()
    top = 8 + (_LINE * (1 + title.count("\n")) if title else 0)
    figure.subplots_adjust(left / _WIDTH, bottom / _HEIGHT, 1 - 12 / _WIDTH, 1 - top / _HEIGHT)


def _cut_poles(axes: Any) -> None:
    """Let a line that rises far above all else leave a linear panel at its top, so that the rest can be seen."""
    lines = [line for line in axes.lines if len(line.get_xdata()) > 2 and line.get_linestyle() not in ("None", "none")]
    if axes.get_yscale() != "linear" or not lines:
        return
    scale = np.log if axes.get_xscale() == "log" else np.asarray
    usual, largest = -np.inf, -np.inf
    for line in lines:
        x, y = (np.asarray(values, float) for values in line.get_data())
        finite = np.isfinite(y)
        if finite.sum() < 3:
            continue
        # Values around peaks lie nearer to each other, and count no more for it.
        even = np.interp(np.linspace(scale(x[0]), scale(x[-1]), 50), scale(x[finite]), y[finite])
        usual, largest = max(usual, float(np.quantile(even, 0.9))), max(largest, float(y[finite].max()))
    points = [np.nanmax(c.get_segments(), initial=-np.inf) for c in axes.collections if hasattr(c, "get_segments")]
    top = max([3 * usual, *(1.1 * p for p in points)])
    if usual > 0 and largest > 2 * top:
        axes.set_ylim(top=top)


def short_label(study: type[Study], name: str) -> str:
    """The label of an axis in one or two lines: of a long one what stands before its first comma, colon or bracket."""
    known: Any = study.parameters().get(name) or study.outputs.get(name)
    if known is None or known.short or len(known.label) <= _LONG:
        return worded(study, name)
    return style.label(textwrap.fill(in_short(known.label), 32, max_lines=2, placeholder=" …"), known.symbol)


def in_short(label: str, most: int = _LONG) -> str:
    """A label, or of one with more letters than `most` what stands before its first comma, colon or bracket."""
    return label if len(label) <= most else re.split(r"[,:;(]| / ", label)[0].strip() or label


def power(value: float) -> str:
    """A power of ten as plain text; '' for other numbers."""
    exponent = round(math.log10(value)) if value > 0 else 0
    if not math.isclose(value, 10.0**exponent, rel_tol=1e-6):
        return ""
    return f"{value:g}" if -2 <= exponent <= 3 else "10" + str(exponent).translate(_RAISED)


def figure_bytes(setting: ExplorerSetting, theory: TheoryLines, simulated: xr.Dataset | None, kind: str) -> bytes:
    """All shown outputs in one figure: png, svg or pdf."""
    parts, added = {setting.part: Picture(simulated, None, theory.dataset)}, {setting.part: setting.grid.added}
    with _DRAWING, style.style(), tempfile.TemporaryDirectory() as folder:
        spec = plain_panels(setting.study, parts, added, setting.outputs, setting.x)
        figure = draw_panels(setting.study, spec, parts).rows[0][0]
        file = Path(folder) / f"figure.{kind}"
        style.save(figure, file)
        return file.read_bytes()


def table(theory: TheoryLines, simulated: xr.Dataset | None) -> bytes:
    """Theory and simulation as CSV, a row per number: source, output, value, and where it stands."""
    import pandas as pd

    rows = []
    for source, dataset in _datasets(theory, simulated).items():
        for name, array in dataset.data_vars.items():
            alone = pd.DataFrame({"value": [array.item()]}) if not array.dims else None
            frame = array.to_dataframe("value").reset_index() if alone is None else alone
            frame.insert(0, "output", str(name))
            frame.insert(0, "source", source)
            rows.append(frame)
    return pd.concat(rows, ignore_index=True).to_csv(index=False).encode()


def netcdf(theory: TheoryLines, simulated: xr.Dataset | None) -> bytes:
    """Theory and simulation as netCDF, a group each."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.nc"
        write_netcdf(file, _datasets(theory, simulated))
        return file.read_bytes()


def _datasets(theory: TheoryLines, simulated: xr.Dataset | None) -> dict[str, xr.Dataset]:
    found = {"theory": theory.dataset, "simulation": simulated}
    there = {name: dataset for name, dataset in found.items() if dataset is not None}
    if not there:
        raise InputError("there is nothing to export: the study has no theory here and nothing is simulated yet")
    return there


def size(count: int) -> str:
    """Bytes in words."""
    value: Any = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} GiB"
