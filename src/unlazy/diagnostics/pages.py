"""The one way to print and draw what a diagnostic found: items, tables and panels."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.curves import Curve

_WIDTH = 100
_GREY = "#888888"
_NAMES = 16
# an error below it, in units of the target's variance, is called none
EXACT = 1e-8
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { font-size: 1.05rem; margin: 1.2rem 0 .2rem; }
p { margin: .2rem 0; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { padding: .15rem .8rem .15rem 0; text-align: right; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { text-align: left; }
svg { max-width: 100%; height: auto; background: #fff; }
"""


def paragraph(text: str, indent: int = 0) -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=" " * indent)


def item(name: str, value: str, width: int = _NAMES) -> str:
    """A name and what is said of it, in lines that hang."""
    return paragraph(f"{name:<{width}} {value}", width + 1)


def table(rows: Sequence[Sequence[str]], least: Sequence[int] = (), gap: str = "  ", indent: str = "  ") -> list[str]:
    """Lines of right-aligned columns of at least some widths, the first row the head; a last one without is remarks."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [max(width, *least[i : i + 1], 0) for i, width in enumerate(widths)]
    if not rows[0][-1]:
        widths[-1] = 0
    lines = (gap.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [f"{indent}{line}".rstrip() for line in lines]


def web_page(
    heading: str,
    paragraphs: Sequence[str],
    drawing: Figure,
    *,
    titled: Mapping[str, str] | None = None,
    rows: Sequence[Sequence[str]] = (),
) -> str:
    """A page that needs no network: sentences, those under titles, a table whose first row is its head, a figure."""
    import io
    from html import escape

    picture = io.StringIO()
    drawing.savefig(picture, format="svg")
    svg = picture.getvalue()
    parts = [f"<p>{escape(one)}</p>" for one in paragraphs]
    parts += [f"<h2>{escape(title)}</h2><p>{escape(one)}</p>" for title, one in (titled or {}).items()]
    cells = [
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
        for row, tag in zip(rows, ["th", *["td"] * len(rows)], strict=False)
    ]
    if cells:
        parts.append("<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>unlazy: {escape(heading)}</title><link rel="icon" href="data:,">
<style>{_STYLE}</style>
</head><body><h1>{escape(heading)}</h1>
{"".join(parts)}
{svg[svg.index("<svg") :]}
</body></html>
"""


def share(value: float) -> str:
    """An error in units of the target's variance."""
    if value < EXACT:
        return f"<{EXACT:g}"
    return f"{value:.3f}" if 0.01 <= value < 100 else f"{value:.2g}"


def ends(curve: Curve, index: int) -> str:
    return f"{curve.low[index]:.3g}-{curve.high[index]:.3g}"


def figure(found: Any, *draw: Callable[[Axes, Any], None], width: float = 3.3, height: float = 2.7) -> Figure:
    """A panel for each function, which draws what was found on its axes."""
    drawing, axes = style.panels(len(draw), width=width, height=height)
    with style.style():
        for panel, fill in zip(np.ravel(axes), draw, strict=True):
            fill(panel, found)
    return drawing


def finish(axes: Axes, x: str, y: str, title: str) -> None:
    """What every panel has at last: names of the axes, a title and a legend."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.legend()


def mark(axes: Axes, *, x: float | None = None, y: float | None = None, **options: Any) -> None:
    """A dotted line at x, or a thin one at y, for what the curves are read against."""
    options = {"color": _GREY, "linewidth": 0.8, **options}
    if x is not None:
        axes.axvline(x, **{"linestyle": ":", **options})
    if y is not None:
        axes.axhline(y, **options)


def band(axes: Axes, curve: Curve, shown: Any = slice(None), index: int = 0, **options: Any) -> None:
    """The interval of a curve, in the colour of the index-th one."""
    options = {"alpha": 0.15, "linewidth": 0, "color": style.colour(index), **options}
    axes.fill_between(curve.n[shown], curve.low[shown], curve.high[shown], **options)
