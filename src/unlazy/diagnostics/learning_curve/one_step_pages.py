"""`LearningCurve` with kernel="one-step" as text and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlazy.diagnostics.learning_curve.pages import PARTS, ends, item, sentence, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.learning_curve.curve import LearningCurve
    from unlazy.diagnostics.learning_curve.index_model import IndexEvidence


def text(curve: LearningCurve) -> str:
    """About a dozen lines."""
    rows, noise = curve.rows_, curve.noise()
    found = curve.predict(np.unique(np.maximum(np.rint(rows * np.array(PARTS)), 2)))
    at = int(np.flatnonzero(found.n == rows)[0])
    evidence: IndexEvidence | None = curve.evidence_
    source = f"{rows} rows" if evidence is not None else "a given link"
    ridge = "best ridge at each size" if isinstance(curve.ridge, str) else f"ridge {curve.ridge:g}"
    lines = [f"learning curve: {source}, features after one gradient step, {ridge}"]
    if found.in_range.all():
        lines.append(item("in short", sentence(found, rows)))
    lines.append(item("error", f"{found.error[at]:.4g} ({ends(found, at)}), R2 {found.r2[at]:.3f} with {rows} rows"))
    lines.append(
        item("variance of y", f"{curve.target_variance_:.4g}, of which {noise.variance:.4g} ({noise.share:.0%}) noise")
    )
    if evidence is not None:
        signal = f"linear correlation of {evidence.signal:.0f} standard deviations of chance"
        lines.append(item("signal", f"{signal}; index known to a cosine of {evidence.cosine:.3f}"))
        if evidence.least_noise < noise.variance:
            lines.append(
                item("caution", f"y jumps or has heavy tails along the index: noise may be {evidence.least_noise:.3g}")
            )
        if not evidence.whitened:
            lines.append(item("caution", "fewer than two rows per column: correlations of the inputs were kept"))
    lines.append(item("curve", "error with other numbers of rows"))
    return "\n".join(lines + [f"  {line}" for line in table(found)])


def figure(curve: LearningCurve) -> Figure:
    """Two panels: error against rows, and the link."""
    from unlazy.plotting import style

    drawing, (errors, link) = style.panels(2)
    with style.style():
        _draw_curve(errors, curve)
        _draw_link(link, curve)
    return drawing


def _draw_curve(axes: Axes, curve: LearningCurve) -> None:
    from unlazy.plotting import style

    found = curve.predict(np.unique(np.rint(np.geomspace(max(2, curve.rows_ / 8), 8 * curve.rows_, 7))))
    shown = found.in_range
    n, error = found.n[shown], found.error[shown]
    axes.fill_between(n, found.interval.low[shown], found.interval.high[shown], color=style.colour(0), alpha=0.15, lw=0)
    style.theory(axes, n, error, color=style.colour(0), label="new rows")
    style.theory(axes, n, found.training_error[shown], color=style.colour(1), label="training rows", dashed=True)
    axes.axhline(curve.noise().variance, color="#888888", linewidth=0.8)
    axes.text(1.05 * n.min(), curve.noise().variance, "noise", color="#666666", fontsize=7, va="bottom")
    if curve.evidence_ is not None:
        axes.axvline(curve.rows_, color="#888888", linewidth=0.8, linestyle=":")
    style.log_scale(axes)
    axes.set_xlim(n.min(), n.max())
    axes.set_xlabel(style.label("rows", "n"))
    axes.set_ylabel("mean squared error")
    axes.set_title("after one step")
    axes.legend()


def _draw_link(axes: Axes, curve: LearningCurve) -> None:
    from unlazy.plotting import style

    places = np.linspace(-3, 3, 301)
    style.theory(axes, places, curve.link(places), color=style.colour(0), label="link")
    axes.set_xlabel(style.label("index", "s"))
    axes.set_ylabel("target")
    axes.set_title(f"noise {curve.noise().share:.0%} of the variance")
    axes.legend()
