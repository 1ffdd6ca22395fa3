"""Panels that are no curves: an output over two axes in colours, and pictures side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.plotting import style
from unlazy.plotting.panels import Map, Tiles
from unlazy.plotting.picture import Described, Picture, chosen, entitle, said, shown_values, worded

if TYPE_CHECKING:
    import xarray as xr


def draw_map(axes: Any, study: type[Described], panel: Map, part: Picture) -> str:
    """Draws an output over two axes; returns its word in the caption."""
    values = shown_values(part.lines if panel.theory else part.simulated, panel.show)
    if values is None:
        return ""
    values, taken = _over(values, panel)
    known = study.parameters()
    scales = panel.log
    if scales is None:
        axis = (("x", panel.x), ("y", panel.y))
        scales = "".join(letter for letter, name in axis if name in known and known[name].scale == "log")
    edges = [_edges(values[dim].values, letter in scales) for letter, dim in (("x", panel.x), ("y", panel.y))]
    low, high = panel.limits
    mesh = axes.pcolormesh(*edges, values.values, vmin=low, vmax=high)
    name = panel.show if isinstance(panel.show, str) else ""
    axes.figure.colorbar(mesh, ax=axes, label=panel.label or (worded(study, name) if name else ""))
    drawn = "theory map" if panel.theory else "map"
    level, theory = panel.contour, shown_values(part.lines, panel.show)
    if level is not None and theory is not None and not panel.theory:
        for line, of in (("solid", _over(theory, panel)[0]), ("dashed", values)):
            if min(of.shape) > 1 and of.min() < level < of.max():
                axes.contour(of[panel.x], of[panel.y], of, levels=[level], colors="white", linestyles=line)
        drawn = "contoured map"
    if scales:
        style.log_scale(axes, scales)
    axes.set(xlabel=worded(study, panel.x), ylabel=worded(study, panel.y))
    entitle(axes, panel.title, ", ".join(said(study, d, v) for d, v in taken.items()))
    return drawn


def _over(values: xr.DataArray, panel: Map) -> tuple[xr.DataArray, dict[str, Any]]:
    """The means that a map shows, and the values of the axes that it has not."""
    values, taken = chosen(values, (panel.x, panel.y), panel.at)
    return (values.mean("seed") if "seed" in values.dims else values).transpose(panel.y, panel.x), taken


def draw_tiles(axes: Any, study: type[Described], panel: Tiles, part: Picture) -> str:
    """Draws pictures in rows of about as many as there are rows; returns their word in the caption."""
    values = shown_values(part.simulated, panel.show)
    if values is None:
        return ""
    values, taken = chosen(values.isel(seed=0), (panel.tile, panel.y, panel.x), panel.at)
    pictures = values.transpose(panel.tile, panel.y, panel.x).values
    pictures = pictures / np.maximum(np.abs(pictures).max(axis=(1, 2), keepdims=True), np.finfo(float).tiny)
    across = int(np.ceil(np.sqrt(len(pictures))))
    framed = np.pad(pictures, ((0, -len(pictures) % across), (0, 1), (0, 1)), constant_values=np.nan)
    down, height, width = len(framed) // across, *framed.shape[1:]
    picture = framed.reshape(down, across, height, width).swapaxes(1, 2).reshape(down * height, across * width)
    axes.imshow(picture, cmap="gray", vmin=-1, vmax=1)
    axes.set_axis_off()
    entitle(axes, panel.title, ", ".join(said(study, d, v) for d, v in taken.items()))
    return "tiles"


def _edges(values: np.ndarray, log: bool) -> np.ndarray:
    """The ends of cells around values, in the middle between neighbours on their axis."""
    place = np.log(values) if log else values.astype(float)
    steps = np.diff(place) if len(place) > 1 else np.ones(1)
    edges = np.concatenate([place[:1] - steps[0] / 2, place[:-1] + np.diff(place) / 2, place[-1:] + steps[-1] / 2])
    return np.exp(edges) if log else edges
