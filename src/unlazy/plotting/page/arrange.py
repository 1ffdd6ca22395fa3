"""Changes to a figure so that its panels can stand alone: every one with its axis' label, titles no wider than it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARGIN = 4.0
"""The least distance in points between a title and what stands to its right."""
_SURELY_FITS = 0.6
"""A title up to this share of its column is no wider than its panel, whatever the labels take."""


@contextmanager
def standing_alone(figure: Figure) -> Iterator[None]:
    """For the duration of a block, repeat labels that panels of a row share, and wrap titles that reach too far."""
    undo: list[Callable[[], Any]] = []
    try:
        _repeat_labels(figure, undo)
        _wrap_titles(figure, undo)
        yield
    finally:
        for step in reversed(undo):
            step()


def _repeat_labels(figure: Figure, undo: list[Callable[[], Any]]) -> None:
    """A panel without a label at its vertical axis has that of the panel to its left."""
    rows: dict[Any, list[Any]] = {}
    for axes in figure.axes:
        spec = axes.get_subplotspec()
        if spec is not None and axes.get_visible() and axes.get_label() != "<colorbar>":
            rows.setdefault((id(spec.get_gridspec()), spec.rowspan.start), []).append(axes)
    for row in rows.values():
        said = ""
        for axes in sorted(row, key=lambda axes: axes.get_subplotspec().colspan.start):
            if axes.get_ylabel():
                said = axes.get_ylabel()
            elif said and axes.axison:
                axes.set_ylabel(said)
                undo.append(partial(axes.set_ylabel, ""))
                if not axes.yaxis.get_tick_params().get("labelleft", True):
                    axes.tick_params(labelleft=True)
                    undo.append(partial(axes.tick_params, labelleft=False))


def _wrap_titles(figure: Figure, undo: list[Callable[[], Any]]) -> None:
    """Break titles that reach over the panel to the right or the end of the figure."""
    points = 72 / figure.dpi
    long = []
    for axes in figure.axes:
        spec = axes.get_subplotspec()
        columns = spec.get_gridspec().ncols / len(spec.colspan) if spec is not None else 1
        for title in (getattr(axes, "_left_title", axes.title), axes.title):
            if title.get_text() and axes.get_visible():
                width = title.get_window_extent().width * points
                if width > _SURELY_FITS * 72 * figure.get_figwidth() / columns:
                    long.append((axes, title))
    if not long:
        return
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    spans = {axes: axes.get_tightbbox(for_layout_only=True) for axes in figure.axes}
    for axes, title in long:
        box = axes.get_window_extent()
        beside = [
            span.x0
            for other, span in spans.items()
            if other is not axes and span is not None and span.x0 > box.x0 and span.y0 < box.y1 and span.y1 > box.y0
        ]
        end = min([*beside, figure.bbox.x1])
        text = title.get_text()
        undo.append(partial(title.set_text, text))
        _wrap(title, end - box.x0 - _MARGIN / points)


def _wrap(title: Any, width: float) -> None:
    """Break a title into as few lines as fit the width, about equally long."""
    parts = words(title.get_text())
    lines = _lines(title, parts, width)
    for narrower in (0.9, 0.8, 0.7, 0.6):
        again = _lines(title, parts, narrower * width)
        if len(again) > len(lines):
            break
        lines = again
    title.set_text("\n".join(lines))


def _lines(title: Any, parts: list[str], width: float) -> list[str]:
    lines: list[str] = []
    for word in parts:
        longer = f"{lines[-1]} {word}" if lines else word
        title.set_text(longer)
        if lines and title.get_window_extent().width > width:
            lines.append(word)
        else:
            lines[-1:] = [longer]
    return lines


def words(text: str) -> list[str]:
    """The words of a text; a formula between dollars is one."""
    return re.findall(r"(?:\$[^$]*\$|[^\s$])+|\$", text)
