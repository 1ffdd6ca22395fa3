"""`IndexReport` as text and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlazy.diagnostics.pages import figure, item, mark
from unlazy.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.index.report import IndexReport

_NAMES = 12
PARTS = (("linear", "lambda_1^2"), ("even", "lambda_2^2"))


def text(report: IndexReport) -> str:
    """About eight lines."""
    slices = " and ".join(map(str, report.slices))
    lines = [
        f"index report: {report.n} rows, {report.d} directions of X, {slices} slices of y",
        item("verdict", f"{report.verdict}: {report.reason}", _NAMES),
    ]
    for index, (name, symbol) in enumerate(PARTS):
        low, high = report.intervals[index]
        seen = "seen" if name in report.carriers else "not seen"
        rows = _rows_text(*report.rows_needed[index], report.overlap)
        lines.append(
            item(
                f"{name} part",
                f"{seen}, {_p_text(report.p_values[index], report.permutations)}; {symbol} = "
                f"{report.squares[index]:.3f}, {report.confidence:.0%} interval [{low:.3f}, {high:.3f}]{rows}",
                _NAMES,
            )
        )
    lines.append(
        item(
            "tests",
            f"{report.permutations} permutations of y and mirrored rows, level {report.level:g} for both together",
            _NAMES,
        )
    )
    return "\n".join(lines)


def _rows_text(fewest: float, most: float, overlap: float) -> str:
    if not np.isfinite(fewest):
        return ""
    rows = f"{fewest:.3g} to {most:.3g}" if np.isfinite(most) else f"at least {fewest:.3g}"
    return f"; {rows} rows for overlap {overlap:g}"


def _p_text(p: float, permutations: int) -> str:
    return f"p <= {p:.3g}" if p <= 1 / (1 + permutations) else f"p = {p:.3g}"


def figure_of(report: IndexReport) -> Figure:
    """Estimates with intervals, and the squared overlap to expect against the number of rows."""
    return figure(report, _draw_parts, _draw_overlaps, width=3.2)


def _draw_parts(axes: Axes, report: IndexReport) -> None:
    for index in range(len(PARTS)):
        axes.plot([index, index], report.intervals[index], color=style.colour(index), linewidth=1.5)
        axes.plot(index, report.squares[index], style.marker(index), color=style.colour(index))
    mark(axes, y=0)
    axes.set(xticks=[0, 1], xlim=(-0.6, 1.6), ylim=(min(-0.05, *report.squares), 1.05), ylabel=r"$\lambda_k^2$")
    axes.set_xticklabels([f"{name}, p = {p:.2g}" for (name, _), p in zip(PARTS, report.p_values, strict=True)])
    axes.set_title(report.verdict)


def _draw_overlaps(axes: Axes, report: IndexReport) -> None:
    from unlazy.theory.index_models.spectral.estimators import linear_overlap, spectral_overlap

    for index, (name, _) in enumerate(PARTS):
        if name not in report.carriers:
            continue
        low, high = report.intervals[index]
        square = float(np.clip(report.squares[index] if low > 0 else high, 1e-3, 1.0))
        ratio = np.geomspace(0.2, 5 * max(report.recommended_rows, report.n) / report.d, 120) * square
        # a link that shows all of z, or all of z^2, with as many rows as the estimate leaves of them
        found = linear_overlap("He1", ratio) if index == 0 else spectral_overlap("He2", ratio).squared_overlap
        style.theory(axes, ratio / square * report.d, np.sqrt(found), color=style.colour(index), label=f"{name} part")
    mark(axes, x=report.n, label="rows at hand")
    mark(axes, y=report.overlap)
    style.log_scale(axes, "x")
    axes.set(xlabel=style.label("rows", "n"), ylabel="expected overlap", ylim=(-0.03, 1.03))
    axes.legend()
