"""Films: panels whose horizontal axis is time, drawn as time goes on."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError
from unlazy.plotting.panels import Panel, Panels
from unlazy.plotting.style import FILMS, format_of, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMES = ("time", "step", "steps", "iteration", "progress")
"""Axes that are time by their name; a figure may name another."""
_FRAMES, _LAST, _PER_SECOND = 48, 20, 16
"""Frames in which time goes on, frames that show the end, and how many there are in a second."""


def moving(spec: Panels | None) -> Panels | None:
    """The panels of a figure whose horizontal axis is time; None if there are none."""
    if spec is None:
        return None
    times = (spec.time,) if spec.time else TIMES
    found = tuple(panel for panel in spec.panels if isinstance(panel, Panel) and panel.x in times)
    return replace(spec, panels=found, columns=min(len(found), 3)) if found else None


def save_film(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure as a film: what is drawn in its axes appears from left to right."""
    from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter, writers
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox, TransformedBbox

    kind = format_of(path, FILMS)
    if kind == "mp4" and not writers.is_available("ffmpeg"):
        raise InputError("a figure that ends in .mp4 needs the program ffmpeg, which is not there; .gif needs nothing")
    with style():
        FigureCanvasAgg(figure).draw()
        # what appears must not move the axes
        figure.set_layout_engine("none")
        # lines across the panel and names are there from the start
        appearing = [
            (axes, [*(line for line in axes.lines if line.get_transform() is axes.transData), *axes.collections])
            for axes in figure.axes
        ]
        for axes in figure.axes:
            axes.set_xlim(axes.get_xlim())
            axes.set_ylim(axes.get_ylim())

        def frame(number: int) -> list[Any]:
            share = number / (_FRAMES - 1)
            for axes, artists in appearing:
                window = TransformedBbox(Bbox([[-0.1, -0.1], [share if share < 1 else 1.05, 1.1]]), axes.transAxes)
                for artist in artists:
                    artist.set_clip_box(window)
            return []

        film = FuncAnimation(figure, frame, frames=_FRAMES + _LAST, blit=False)
        writer = PillowWriter(fps=_PER_SECOND) if kind == "gif" else FFMpegWriter(fps=_PER_SECOND)
        try:
            film.save(os.fspath(path), writer=writer, dpi=110)
        except OSError as error:
            raise InputError(f"figure {path} cannot be written: {error.strerror or error}") from None
