"""Figures of fitted terms and of functions of one, two or more indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.plotting.style import colour, panels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 400
_GRID = 80
_MOST_SHOWN = 2000


def plot_terms(indices: np.ndarray, labels: np.ndarray, links: Sequence[Callable[[Any], Any]]) -> list[Axes]:
    """A panel per term: what the others leave of y as points, the link as a line."""
    _, axes = panels(len(links))
    terms = np.column_stack([link(t) for link, t in zip(links, indices.T, strict=True)])
    every = -(-len(indices) // _MOST_SHOWN)
    flat = list(np.ravel(np.asarray(axes, dtype=object)))
    with style():
        for m, (one, link) in enumerate(zip(flat, links, strict=True)):
            partial = labels - terms.sum(axis=1) + terms[:, m]
            places = np.linspace(indices[:, m].min(), indices[:, m].max(), _POINTS)
            one.plot(indices[::every, m], partial[::every], ".", color="0.6", markersize=3, zorder=1)
            one.plot(places, link(places), "-", color=colour(m), zorder=2)
            one.set_xlabel(f"X @ directions_[{m}]")
            one.set_ylabel("y less the other terms" if m == 0 else "")
    return flat


def plot_function(indices: np.ndarray, labels: np.ndarray, function: Callable[[Any], Any]) -> list[Axes]:
    """One index: curve and rows. Two: contours and rows in the colour of y. More: y and predictions along each."""
    count = indices.shape[1]
    every = -(-len(indices) // _MOST_SHOWN)
    shown, y = indices[::every], labels[::every]
    _, axes = panels(1 if count == 2 else count)
    flat = list(np.ravel(np.asarray(axes, dtype=object)))
    with style():
        if count == 2:
            _contours(flat[0], shown, y, function)
            return flat
        for j, one in enumerate(flat):
            one.plot(shown[:, j], y, ".", color="0.6", markersize=3, zorder=1, label="y")
            if count == 1:
                places = np.linspace(shown.min(), shown.max(), _POINTS)
                one.plot(places, function(places[:, None]), "-", color=colour(0), zorder=2, label="prediction")
            else:
                one.plot(shown[:, j], function(shown), ".", color=colour(j), markersize=3, zorder=2, label="prediction")
            one.set_xlabel(f"X @ directions_[{j}]")
            one.set_ylabel("y" if j == 0 else "")
        flat[0].legend()
    return flat


def _contours(axes: Axes, indices: np.ndarray, labels: np.ndarray, function: Callable[[Any], Any]) -> None:
    low, high = np.quantile(labels, [0.01, 0.99])
    sides = [np.linspace(t.min(), t.max(), _GRID) for t in indices.T]
    grid = np.stack(np.meshgrid(*sides), axis=-1)
    values = np.clip(function(grid.reshape(-1, 2)), low, high).reshape(_GRID, _GRID)
    drawn = axes.contourf(*sides, values, levels=np.linspace(low, high, 16), cmap="RdBu_r")
    shade = np.clip(labels, low, high)
    look = {"cmap": "RdBu_r", "vmin": low, "vmax": high, "edgecolors": "0.2", "linewidths": 0.3}
    axes.scatter(indices[:, 0], indices[:, 1], s=8, c=shade, **look)
    axes.set_xlabel("X @ directions_[0]")
    axes.set_ylabel("X @ directions_[1]")
    figure = axes.get_figure()
    assert figure is not None
    figure.colorbar(drawn, ax=axes, label="prediction; y of the rows")
