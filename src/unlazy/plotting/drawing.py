"""Drawing a study's panels: from data that say what is shown to axes, legends, titles and a caption."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.plotting import style
from unlazy.plotting.maps import draw_map, draw_tiles
from unlazy.plotting.panels import Guide, Level, Map, Panel, Panels, Shown, Tiles, panels
from unlazy.plotting.picture import Described, Picture, chosen, entitle, said, shown_values, worded
from unlazy.words import plain

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_ORDERED = 4
"""From so many values on a numeric family of curves has shades from light to dark in place of colours."""
_GREY = "#888888"
_MOST_PANELS = 4
_MOST_CURVES = 7
"""Of a study that has no figure of its own."""
_BESIDE = 0.1
"""The distance of curves that stand side by side, in distances of names."""
_SAID = {
    "theory": "lines: theory",
    "bar": "bars: theory",
    "instance": "dashes: theory for the drawn instances",
    "derived": "dashed lines: semi-empirical, theory with a measured number",
    "mean": "points: means over seeds with 99% intervals",
    "dot": "dots: runs, bars: their medians",
    "trace": "thin lines: runs, thick lines: their medians",
    "joined": "thin lines connect means",
    "map": "colours: means over seeds",
    "contoured map": "colours: means over seeds; white lines: one height of the theory, dashed of the means",
    "theory map": "colours: theory",
    "tiles": "pictures: the first run, each in greys of its own",
}


class Drawn(NamedTuple):
    """A figure, or rows of figures with a panel each; what is drawn in words, and what found no place."""

    rows: list[list[Figure]]
    caption: str
    left_out: tuple[str, ...]


def draw_panels(study: type[Described], spec: Panels, parts: Mapping[str, Picture], apart: bool = False) -> Drawn:
    """The figure, or with `apart` a figure for each panel; panels of parts that the run does not have are left out."""
    shown = [panel for panel in spec.panels if panel.part in parts]
    columns = min(spec.columns, len(shown)) or 1
    rows = -(-len(shown) // columns) or 1
    size: dict[str, Any] = {"width": spec.width, "height": spec.height}
    if apart:
        places = [style.panels(**size)[1] for _ in shown]
    else:
        places = list(np.atleast_1d(style.panels(columns, rows, **size)[1]).ravel())
    seen: set[str] = set()
    left_out: dict[str, None] = {}
    drawings: list[Drawing] = []
    for panel, place in zip(shown, places, strict=False):
        if isinstance(panel, Map):
            seen.add(draw_map(place, study, panel, parts[panel.part]))
        elif isinstance(panel, Tiles):
            seen.add(draw_tiles(place, study, panel, parts[panel.part]))
        else:
            drawing = Drawing(place, study, panel, parts)
            drawing.draw()
            drawings.append(drawing)
            seen |= drawing.seen
            left_out |= drawing.left_out
    _explain(drawings)
    for place in places[len(shown) :]:
        place.set_axis_off()
    text = "; ".join(words for kind, words in _SAID.items() if kind in seen)
    caption = " ".join(filter(None, (f"{text[:1].upper()}{text[1:]}." if text else "", spec.caption)))
    figures = [place.figure for place in places]
    split = [figures[i : i + columns] for i in range(0, len(figures), columns)] if apart else [figures[:1]]
    return Drawn(split, caption, tuple(left_out))


def _explain(drawings: Sequence[Drawing]) -> None:
    """A legend for every panel that was to do without one but has curves which no legend of the figure explains."""
    explained = {entry for drawing in drawings if drawing.panel.legend for entry in drawing.entries}
    for drawing in drawings:
        if not drawing.panel.legend and drawing.entries - explained:
            drawing.axes.legend()
            explained |= drawing.entries


def plain_panels(
    study: type[Described],
    parts: Mapping[str, Picture],
    added: Mapping[str, Sequence[str]],
    outputs: Sequence[str] | None = None,
    x: str = "",
) -> Panels:
    """The figure of a study that has none, or of axes that its own does not expect: a row of panels per part.

    The horizontal axis is `x` where an output has it, else an axis that the user `added`, or the longest numeric one.
    """
    if outputs is None:
        outputs = [name for name in study.simulated_outputs() if study.outputs[name].predicts is None]
    shown = outputs[:_MOST_PANELS]
    made: list[Panel] = []
    for name in parts:
        row = [plain_panel(parts[name], added[name], name, output, x) for output in shown]
        # One legend serves neighbours that show the same family.
        for index, panel in enumerate(row):
            same = index + 1 < len(row) and row[index + 1].by == panel.by
            title = name if len(parts) > 1 and index == 0 else ""
            made.append(replace(panel, title=title, legend=False if same else "beside"))
    more = f"Not shown: outputs {', '.join(outputs[_MOST_PANELS:])}." if len(outputs) > _MOST_PANELS else ""
    return panels(*made, columns=len(shown), width=3.1, height=2.7, caption=more)


def plain_panel(part: Picture, added: Sequence[str], name: str, output: str, x: str = "") -> Panel:
    """One output against x, else against an axis that the user added, or the longest numeric one."""
    values = shown_values(part.simulated, output)
    values = shown_values(part.lines, output) if values is None else values
    if values is None:
        return Panel(output, part=name)
    dims = [str(d) for d in values.dims if d != "seed"]
    if x not in dims:
        numeric = [d for d in dims if _is_numeric(values[d])]
        asked = [d for d in added if d in dims]
        chosen = sorted([d for d in asked if d in numeric] or asked or numeric or dims, key=lambda d: -values.sizes[d])
        x = chosen[0] if chosen else ""
    along = {str(n): c for n, c in values.coords.items() if c.dims and c.dims[0] not in ("seed", x)}
    by = tuple(name for name, coordinate in along.items() if len(np.unique(coordinate.values)) > 1)
    return Panel(output, x, by, name, most=_MOST_CURVES)


class _Curve(NamedTuple):
    """One curve: what it shows, at which index of how many and which value of every dimension of its family."""

    layer: Panel
    shown: Shown
    case: Mapping[str, tuple[int, int, Any]]
    label: str | None
    colour: str
    marker: str
    number: int
    """Among those of its layer."""
    place: int
    """Among all of the panel."""


class Drawing:
    """One panel on its axes."""

    def __init__(self, axes: Any, study: type[Described], panel: Panel, parts: Mapping[str, Picture]) -> None:
        self.axes, self.study, self.panel, self.parts = axes, study, panel, parts
        self.seen: set[str] = set()
        """What there is to see, by its word in the caption."""
        self.left_out: dict[str, None] = {}
        self._taken: dict[str, Any] = {}
        self.curves = self._all_curves()
        self._first: tuple[np.ndarray, np.ndarray] | None = None
        self._names: list[str] = []
        self._largest = -np.inf
        self._infinite = False
        self._positive = {"x": True, "y": False}

    def draw(self) -> None:
        """Curves, what the study draws itself, marks, names and legend."""
        for curve in self.curves:
            self._simulation(curve)
            self._theory(curve)
            self._semi_empirical(curve)
        if self.panel.draw is not None:
            self.panel.draw(self.axes, **self.parts)
        self._finish()

    @property
    def entries(self) -> set[tuple[str, str]]:
        """What a legend would say: the curves that are drawn, by label and colour."""
        drawn = set(self.axes.get_legend_handles_labels()[1])
        return {(curve.label, curve.colour) for curve in self.curves if curve.label in drawn and curve.label}

    def _all_curves(self) -> list[_Curve]:
        found: list[_Curve] = []
        for layer in (self.panel, *self.panel.also):
            if layer.part not in self.parts:
                continue
            shown = _several(layer.show)
            cases = [(index, one, *case) for index, one in enumerate(shown) for case in self._cases(layer, one)]
            values = [value for _, _, _, case in cases for _, _, value in case.values()]
            ordered = len(shown) == 1 and len(values) == len(cases) >= _ORDERED
            shades = style.shades(len(cases)) if ordered and all(isinstance(v, int | float) for v in values) else []
            for number, (index, one, text, case) in enumerate(cases):
                words = [self._label(layer, index, one)] if len(shown) > 1 or layer.labels else []
                words += [text] if len(cases) > len(shown) or not words else []
                colours = layer.colours or shades
                colour = colours[number % len(colours)] if colours else style.colour(len(found))
                label = " · ".join(filter(None, words)) or None
                found.append(_Curve(layer, one, case, label, colour, style.marker(len(found)), number, len(found)))
        return found

    def _label(self, layer: Panel, index: int, shown: Shown) -> str:
        if index < len(layer.labels):
            return layer.labels[index]
        output = self.study.outputs.get(shown) if isinstance(shown, str) else None
        return plain(output.short or output.label) if output else shown if isinstance(shown, str) else ""

    def _cases(self, layer: Panel, shown: Shown) -> list[tuple[str, dict[str, tuple[int, int, Any]]]]:
        """The curves of one output: in words, and where they are along the dimensions of `by`."""
        part, names = self.parts[layer.part], _several(layer.by) if layer.by else ()
        data = next((d for d in (part.simulated, part.lines) if shown_values(d, shown) is not None), None)
        values = shown_values(data, shown)
        if data is None or values is None:
            # It keeps its colour where a run lacks it.
            return [("", {})]
        along = {name: values[name] for name in names if name in values.coords and values[name].dims}
        fixed = [said(self.study, name, data.attrs[name]) for name in names if name not in along and name in data.attrs]
        dims = list(dict.fromkeys(str(coordinate.dims[0]) for coordinate in along.values()))
        found = []
        for place in itertools.product(*(range(values.sizes[dim]) for dim in dims)):
            at = dict(zip(dims, place, strict=True))
            case = {dim: (at[dim], values.sizes[dim], values[dim].values[at[dim]].item()) for dim in dims}
            found.append(({name: c.values[at[str(c.dims[0])]] for name, c in along.items()}, case))
        if len(found) > layer.most:
            self.left_out[f"{len(found) - layer.most} of {len(found)} curves of part {layer.part}"] = None
        found = found[: layer.most]
        # what all curves have in common stands in the title, once
        same = [name for name in along if len(found) > 1 and len({at[name] for at, _ in found}) == 1]
        self._taken |= {name: found[0][0][name] for name in same}
        return [
            (", ".join([said(self.study, n, v) for n, v in at.items() if n not in same] + fixed), case)
            for at, case in found
        ]

    def _at(self, values: xr.DataArray, curve: _Curve) -> xr.DataArray:
        """The values along the horizontal axis."""
        for dim, (index, size, value) in curve.case.items():
            if dim in values.dims:
                same = values.sizes[dim] == size
                values = values.isel({dim: index if same else int(np.flatnonzero(values[dim].values == value)[0])})
        values, taken = chosen(values, self._kept(values, curve.layer), curve.layer.at)
        self._taken |= taken
        return values

    def _kept(self, values: xr.DataArray, layer: Panel) -> tuple[str, ...]:
        x = layer.x
        if isinstance(x, str):
            return tuple(map(str, values[x].dims)) if x in values.coords else ()
        dims = [str(d) for d in values.dims if d not in ("seed", *layer.at)]
        return (max(dims, key=lambda d: values.sizes[d]),) if dims else ()

    def _positions(self, data: xr.Dataset, values: xr.DataArray, curve: _Curve) -> np.ndarray:
        x = curve.layer.x
        if not isinstance(x, str):
            at = {d: values[d] for d in values.dims if d != "seed" and d in data.dims}
            others = {d: values[d].item() for d in data.dims if d in values.coords and d not in values.dims}
            found = np.atleast_1d(np.asarray(x(data.sel({**at, **others}))))
        elif not x:
            found = np.zeros(1)
        else:
            found = np.atleast_1d(np.asarray(values[x] if x in values.coords else data.attrs[x]))
        count = len(self.curves)
        step = curve.place - (count - 1) / 2
        if not _is_numeric(found):
            self._names = [str(name).replace("_", " ") for name in found]
            return np.arange(len(found)) + min(_BESIDE, 0.6 / count) * step
        if not self.panel.beside or count == 1:
            return found
        if "x" in self._scales():
            return found * 1.04**step
        return found + 0.015 * step * (np.ptp(found) or 1.0)

    def _simulation(self, curve: _Curve) -> None:
        layer, part = curve.layer, self.parts[curve.layer.part]
        values = shown_values(part.simulated, curve.shown)
        if values is None or not (layer.points or layer.line or layer.runs):
            return
        values = self._at(values, curve)
        x, label = self._positions(part.simulated, values, curve), curve.label
        if layer.runs and "seed" in values.dims:
            self._runs(x, values, curve)
            return
        means = np.broadcast_to((values.mean("seed") if "seed" in values.dims else values).values, x.shape)
        if layer.points and "seed" in values.dims:
            style.simulation(self.axes, x, values, color=curve.colour, marker=curve.marker, label=label)
            self.seen.add("mean")
        elif layer.points:
            self.axes.plot(x, means, curve.marker, color=curve.colour, label=label, zorder=3)
        if layer.line:
            kind, width = "--" if layer.dashed else "-", 1.0 if layer.points else 1.4
            own = None if layer.points else label
            self.axes.plot(x, means, kind, color=curve.colour, linewidth=width, label=own, zorder=2)
            self.seen |= {"joined"} if layer.points else set()
        self._note(x, means)
        for name, output in self.study.outputs.items():
            if output.predicts == curve.shown and name in part.simulated and layer.theory and layer.points:
                drawn = self._at(part.simulated[name], curve).mean("seed").values
                self.axes.plot(x, np.broadcast_to(drawn, x.shape), "_", color=curve.colour, markersize=13, zorder=4)
                self.seen.add("instance")

    def _runs(self, x: np.ndarray, values: xr.DataArray, curve: _Curve) -> None:
        count = values.sizes["seed"]
        runs = np.broadcast_to(values.transpose("seed", ...).values.reshape(count, -1), (count, x.size))
        medians = np.nanmedian(runs, axis=0)
        self._note(x, medians)
        if len(x) > 2 and not self._names:
            self.axes.plot(x, runs.T, color=curve.colour, linewidth=0.6, alpha=0.4, zorder=1)
            kind = "--" if curve.layer.dashed else "-"
            self.axes.plot(x, medians, kind, color=curve.colour, linewidth=2.0, label=curve.label, zorder=2)
            self.seen.add("trace")
            return
        spread = 0.4 * min(_BESIDE, 0.6 / len(self.curves)) * np.linspace(-1, 1, len(runs))[:, None]
        spots = x + spread if self._names else np.broadcast_to(x, runs.shape)
        dots = {"color": curve.colour, "alpha": 0.6, "markersize": 3.5, "linestyle": "none"}
        self.axes.plot(spots.ravel(), runs.ravel(), curve.marker, label=curve.label, **dots)
        self.axes.plot(x, medians, "_", color="black", markersize=14, zorder=3)
        self.seen.add("dot")

    def _theory(self, curve: _Curve) -> None:
        """The theory of one curve; where it is the same for all of a family it is drawn once, in black."""
        part, layer = self.parts[curve.layer.part], curve.layer
        theory = shown_values(part.lines, curve.shown) if layer.theory else None
        if theory is None:
            return
        colour, label = curve.colour, curve.label
        family = [dim for dim in curve.case if theory.sizes.get(dim, 1) > 1]
        if family and bool((theory == theory.isel(dict.fromkeys(family, 0))).all()):
            if curve.number:
                return
            colour, label = "black", None
        elif layer.points and shown_values(part.simulated, curve.shown) is not None:
            label = None
        theory = self._at(theory, curve)
        x = self._positions(part.lines, theory, curve)
        y = np.broadcast_to(theory.values, x.shape)
        if self._names:
            self.axes.plot(x, y, "_", color=colour, markersize=14, markeredgewidth=2, label=label, zorder=2)
        elif len(x) == 1:
            self.axes.axhline(float(y[0]), color=colour, label=label, zorder=2)
        else:
            style.theory(self.axes, x, y, color=colour, label=label)
        self.seen.add("bar" if self._names else "theory")
        self._infinite |= bool(np.isinf(y).any())
        self._note(x, y)

    def _semi_empirical(self, curve: _Curve) -> None:
        part = self.parts[curve.layer.part]
        derived = shown_values(part.derived, curve.shown) if curve.layer.theory else None
        if derived is not None:
            derived = self._at(derived, curve)
            x = self._positions(part.derived, derived, curve)
            style.theory(self.axes, x, np.broadcast_to(derived.values, x.shape), color=curve.colour, dashed=True)
            self.seen.add("derived")

    def _note(self, x: np.ndarray, y: np.ndarray) -> None:
        """What is drawn where: for guides, and for scales that need positive numbers."""
        if self._first is None and len(x) > 1:
            self._first = (np.asarray(x, float), np.asarray(y, float))
        finite = np.asarray(y, float)[np.isfinite(np.asarray(y, float))]
        self._positive["x"] &= bool((np.asarray(x) > 0).all())
        self._positive["y"] |= bool((finite > 0).any())
        self._largest = max(self._largest, finite.max(initial=-np.inf))

    def _scales(self) -> str:
        """The logarithmic axes: those that are told, else those of the parameter and the output, if all is positive."""
        if self.panel.log is not None:
            return self.panel.log
        show = _several(self.panel.show)
        first = self.study.outputs.get(show[0]) if show and isinstance(show[0], str) else None
        parameter = self.study.parameters().get(self.panel.x) if isinstance(self.panel.x, str) else None
        wanted = ("x" if parameter is not None and parameter.scale == "log" else "") + (
            "y" if first is not None and first.scale == "log" else ""
        )
        return "".join(name for name in wanted if self._positive[name] or self._first is None)

    def _finish(self) -> None:
        panel, axes, study = self.panel, self.axes, self.study
        if not self._names and isinstance(panel.x, str):
            self._names = self._names_along(panel.x)
        if self._names:
            axes.set_xticks(range(len(self._names)), self._names, rotation=20, ha="right")
        elif not panel.x and not panel.draw:
            axes.set_xticks([])
        for mark in panel.marks:
            self._mark(mark)
        scales = self._scales()
        for name in scales:
            getattr(axes, f"set_{name}scale")("log")
        if panel.xlim is not None:
            axes.set_xlim(*panel.xlim)
        if panel.ylim is not None:
            axes.set_ylim(*panel.ylim)
        elif self._infinite and self._largest > 0:
            axes.set_ylim(top=3 * self._largest)
        # ticks are chosen for what is seen
        if scales:
            style.log_scale(axes, scales)
        show = _several(panel.show)
        first = show[0] if show and isinstance(show[0], str) else ""
        axes.set_xlabel(panel.xlabel or (worded(study, panel.x) if isinstance(panel.x, str) and panel.x else ""))
        axes.set_ylabel(panel.ylabel or (worded(study, first) if first else ""))
        fixed = ", ".join(said(study, dim, value) for dim, value in self._taken.items())
        entitle(axes, panel.title, fixed)
        if panel.legend and axes.get_legend_handles_labels()[1]:
            place: dict[str, Any] = {} if panel.legend is True else {"loc": panel.legend}
            axes.legend(**({"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)} if panel.legend == "beside" else place))

    def _names_along(self, x: str) -> list[str]:
        """The names on the axis of a panel that the study draws itself."""
        data = self.parts[self.panel.part].simulated
        names = data[x].values if data is not None and x in data.coords else np.zeros(0)
        return [] if _is_numeric(names) else [str(name).replace("_", " ") for name in names]

    def _mark(self, mark: Level | Guide) -> None:
        if isinstance(mark, Guide):
            if self._first is None:
                return
            x, y = self._first
            middle = len(x) // 2
            law = mark.factor * y[middle] * (x / x[middle]) ** mark.slope
            self.axes.plot(x, law, ":", color="black", linewidth=1.0, label=mark.label or None, zorder=1)
            return
        part = self.parts[self.panel.part]
        at = mark.at(part.lines if mark.theory else part.simulated) if callable(mark.at) else mark.at
        draw = self.axes.axvline if mark.vertical else self.axes.axhline
        line = "--" if mark.dashed else ":"
        draw(float(at), color=_GREY, linestyle=line, linewidth=0.9, label=mark.label or None, zorder=1)


def _several(shown: Any) -> tuple[Any, ...]:
    return shown if isinstance(shown, tuple) else (shown,)


def _is_numeric(values: Any) -> bool:
    return np.issubdtype(values.dtype, np.number)
