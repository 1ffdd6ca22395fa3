"""The one figure style: theory as lines, simulation as points with 99% intervals over seeds.

Figures are made without pyplot, so that nothing is global and nothing opens a window.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.words import plain

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which readers with any colour vision can tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = ("png", "svg", "pdf")
FILMS = ("gif", "mp4")
CONFIDENCE = 0.99

_RC: dict[Any, Any] = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "mathtext.fontset": "stix",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.titlelocation": "left",
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2,
    "legend.frameon": False,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "axes.grid": True,
    "axes.axisbelow": True,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


@contextmanager
def style() -> Iterator[None]:
    """The project's settings of matplotlib, for the duration of a block."""
    import matplotlib

    with matplotlib.rc_context(_RC):
        yield


def panels(columns: int = 1, rows: int = 1, *, width: float = 3.3, height: float = 2.7) -> tuple[Figure, Any]:
    """A figure and its axes, an array of shape (rows, columns), squeezed; sizes are inches per panel."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        return figure, figure.subplots(rows, columns)


def label(text: str, symbol: str = "") -> str:
    """An axis label: the name and its symbol."""
    return plain(f"{text} ${symbol}$" if symbol else text)


def colour(index: int) -> str:
    """The colour of the index-th curve."""
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """The marker of the index-th curve."""
    return MARKERS[index % len(MARKERS)]


def shades(count: int) -> list[str]:
    """Colours for an ordered family of curves, light to dark."""
    import matplotlib

    if count == 1:
        return [colour(0)]
    cmap = matplotlib.colormaps["viridis_r"]
    return [matplotlib.colors.to_hex(cmap(0.15 + 0.85 * i / (count - 1))) for i in range(count)]


def log_scale(axes: Axes, which: str = "xy") -> None:
    """Logarithmic axes with readable ticks: less than two decades also get ticks at 2 and 5, less than one at more."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for name in which:
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        low, high = axis.get_view_interval()
        if 0 < low < high < 100 * low:
            between = (2.0, 5.0) if high > 10 * low else (2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
            axis.set_major_locator(LogLocator(subs=(1.0, *between)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())


def theory(axes: Axes, x: Any, y: Any, *, color: str, label: str | None = None, dashed: bool = False) -> None:
    """Draw theory: a line."""
    axes.plot(np.asarray(x), np.asarray(y), "--" if dashed else "-", color=color, label=label, zorder=2)


def simulation(
    axes: Axes, x: Any, values: xr.DataArray, *, color: str, label: str | None = None, marker: str = "o"
) -> None:
    """Draw simulation: the mean over seeds as points, with the 99% interval of the mean.

    Points at which some seed gave no finite number are hollow, and show the others.
    """
    finite: xr.DataArray = values.copy(data=np.isfinite(values.values))
    center, reach = interval(values.where(finite))
    x, center, reach = np.broadcast_arrays(np.asarray(x), center, reach)
    options: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "none", "zorder": 3}
    whole = np.broadcast_to(finite.all("seed").values, center.shape)
    filled: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5, "label": label}
    axes.errorbar(x[whole], center[whole], yerr=reach[whole], **filled, **options)
    if not whole.all():
        axes.errorbar(x[~whole], center[~whole], yerr=reach[~whole], markerfacecolor="white", **options)


def interval(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds, without NaN, and half the width of its 99% interval (zero for a single seed)."""
    from scipy.special import stdtrit

    count = values.count("seed").values
    center = values.sum("seed").values / np.where(count > 0, count, np.nan)
    freedom = np.maximum(count - 1, 1)
    spread = np.sqrt(((values - values.mean("seed")) ** 2).sum("seed").values / freedom)
    reach = spread * stdtrit(freedom, (1 + CONFIDENCE) / 2) / np.sqrt(np.maximum(count, 1))
    return center, np.where(count > 1, reach, 0.0)


def format_of(path: str | os.PathLike, allowed: Sequence[str] = FORMATS) -> str:
    """The format that a file's ending names: of a figure, or one of those that are allowed."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in allowed:
        listed = ", ".join("." + name for name in allowed)
        raise InputError(f"figure must end in one of {listed}, got {str(path)!r}")
    return ending


def is_film(path: str | os.PathLike) -> bool:
    """Whether a file's ending is that of a film."""
    return Path(path).suffix.lower().removeprefix(".") in FILMS


def save(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure in the format that the file's ending names."""
    kind = format_of(path)
    metadata = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
    try:
        with style():
            figure.savefig(path, format=kind, metadata=metadata)
    except OSError as error:
        raise InputError(f"figure {path} cannot be written: {error.strerror or error}") from None


def svg(*rows: Figure | Sequence[Figure], salt: str) -> str:
    """Figures, or rows of them, for a page: SVG in the page's colours that wraps between them.

    `salt` keeps the ids of what stands on one page apart.
    """
    from unlazy.plotting.page.inline import inline

    with style():
        return inline([row if isinstance(row, Sequence) else [row] for row in rows], salt)
