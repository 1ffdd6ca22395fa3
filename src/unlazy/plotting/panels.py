"""Figures as data: what a study draws, panel by panel; axes, legends, titles and the caption follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Shown = str | Callable[..., Any]
"""An output by its name, or a function of a dataset that has the outputs: of the simulation's and of the theory's."""


@dataclass(frozen=True)
class Level:
    """A line across a panel at a height, a number or a function of the simulation's data, or of the theory's."""

    at: Any
    label: str = ""
    vertical: bool = False
    dashed: bool = False
    theory: bool = False


@dataclass(frozen=True)
class Guide:
    """A power law for the eye: x^slope, through the first curve's middle times `factor`."""

    slope: float
    label: str = ""
    factor: float = 1.0


@dataclass(frozen=True)
class Panel:
    """Outputs against an axis: points with intervals for the simulation, a line for the theory.

    `by` has the parameters of which every case has a colour of its own; with several outputs each has one. Axes that
    are not named are at the value in `at`, or at their last one, and the title says so. `points` and `theory` choose
    what is drawn of both; `line` connects the means of the simulation, for what has no theory, `dashed` if so; `runs`
    shows every run, and medians in place of means. `also` are more curves on the same axes, of another part or kind.
    """

    show: Shown | tuple[Shown, ...] = ()
    x: Shown = ""
    by: str | tuple[str, ...] = ""
    part: str = "main"
    at: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    log: str | None = None
    xlim: tuple[Any, Any] | None = None
    ylim: tuple[Any, Any] | None = None
    marks: tuple[Level | Guide, ...] = ()
    points: bool = True
    theory: bool = True
    line: bool = False
    dashed: bool = False
    runs: bool = False
    beside: bool = False
    """Whether curves stand side by side, where they would cover each other; names on the axis always do."""
    colours: tuple[str, ...] = ()
    """Of the curves in turn, where the usual ones do not say what belongs together."""
    legend: bool | str = True
    """False, or where it stands: a place of Matplotlib's, or "beside" the panel."""
    most: int = 99
    """So many curves of each output are drawn."""
    also: tuple[Panel, ...] = ()
    draw: Callable[..., Any] | None = None
    """Draws what this panel cannot: called with the axes and the parts before axes and legend are finished."""


@dataclass(frozen=True)
class Map:
    """An output over two axes, in colours; the simulation's mean, or the theory."""

    show: Shown
    x: str
    y: str
    part: str = "main"
    at: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    theory: bool = False
    log: str | None = None
    limits: tuple[float | None, float | None] = (None, None)
    label: str = ""
    contour: float | None = None
    """A line across the simulation's map where the theory has this value, and a dashed one where the means have it."""


@dataclass(frozen=True)
class Tiles:
    """An output that is pictures, such as filters, side by side: those of the first run, each in greys of its own."""

    show: Shown
    x: str
    y: str
    tile: str
    part: str = "main"
    at: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True)
class Panels:
    """A figure: its panels, row by row."""

    panels: tuple[Panel | Map | Tiles, ...]
    columns: int
    width: float
    height: float
    caption: str = ""
    """What the panels cannot say themselves."""
    time: str = ""
    """The axis along which a film goes on, where its name does not say that it is time."""


def panels(
    *shown: Panel | Map | Tiles,
    columns: int | None = None,
    width: float = 3.4,
    height: float = 2.9,
    caption: str = "",
    time: str = "",
) -> Panels:
    """The figure of a study, `columns` panels in a row; sizes are inches per panel."""
    return Panels(shown, columns or min(len(shown), 3), width, height, caption, time)
