"""`LearningCurve` as text and as a figure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.learning_curve.curve import LearningCurve
    from unlazy.diagnostics.learning_curve.results import BestRidge, CurvePrediction

_WIDTH = 100
PARTS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)


def text(curve: LearningCurve) -> str:
    """About fifteen lines."""
    rows, pool = curve.rows_, curve.pool_.size
    outputs = 1 if np.ndim(curve.target_mean_) == 0 else np.size(curve.target_mean_)
    kernel = curve.kernel if isinstance(curve.kernel, str) else getattr(curve.kernel, "__name__", "own")
    best, noise, alignment = curve.best_ridge(), curve.noise(), curve.alignment(pool)
    ridge = float(curve.ridge)
    # without a ridge nothing is known beyond the pool
    now = rows if ridge > 0 else pool
    sizes = np.unique(np.maximum(np.rint(now * np.array(PARTS)), 2))
    found = curve.predict(sizes[(sizes <= pool) | (ridge > 0)])
    at = int(np.flatnonzero(found.n == now)[0])
    head = f"learning curve: {rows} rows, {_count(outputs, 'output')}, {kernel} kernel, ridge {ridge:g}"
    lines = [head]
    if pool < rows:
        lines.append(item("pool", f"{pool} rows taken at random of {rows}; the rest of the curve is extrapolated"))
    lines += [
        item("in short", sentence(found, now)),
        item(
            "error",
            f"{found.error[at]:.4g} ({ends(found, at)}), R2 {found.r2[at]:.3f}; on the training rows "
            f"{found.training_error[at]:.3g}",
        ),
        item(
            "variance of y",
            f"{curve.target_variance_:.4g}, of which {noise.variance:.4g} ({noise.share:.0%}) noise or not learnable "
            f"from {pool} rows",
        ),
        item("best ridge", _best(best)),
        item(
            "alignment",
            f"{alignment.effective_dimension:.1f} effective directions hold {alignment.learnable_share:.0%} of "
            "the target",
        ),
        item("curve", "error with other numbers of rows at this ridge"),
    ]
    lines += [f"  {line}" for line in table(found)]
    return "\n".join(lines)


def sentence(found: CurvePrediction, rows: int) -> str:
    """What twice the rows would bring."""
    at, doubled = np.flatnonzero(found.n == rows)[0], np.flatnonzero(found.n == 2 * rows)
    if not found.in_range[doubled].any():
        return f"what twice the rows would bring cannot be said at ridge {found.ridge[at]:g}; it takes a larger one"
    twice = int(doubled[0])
    before, after = found.error[at], found.error[twice]
    verb = "fall" if after < before else "rise"
    doubt = "" if found.reliable[twice] else ", a guess more than a forecast"
    return f"with twice the rows the error should {verb} from {before:.3g} to {after:.3g} ({ends(found, twice)}){doubt}"


def ends(found: CurvePrediction, index: int) -> str:
    return f"{found.interval.low[index]:.3g}-{found.interval.high[index]:.3g}"


def _best(best: BestRidge) -> str:
    where = {
        "inside": "",
        "smallest": ", the smallest looked at",
        "largest": ", the largest looked at: nothing is learned",
    }
    return f"{best.ridge:.3g} with a leave-one-out error of {best.error:.4g}{where[best.where]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s, errors summed over them")


def item(name: str, value: str) -> str:
    return textwrap.fill(f"{name:<16} {value}", _WIDTH, subsequent_indent=" " * 17)


def table(found: CurvePrediction) -> list[str]:
    table = [("rows", "error", "interval", "method", "")]
    for i, size in enumerate(found.n):
        cells = (f"{found.error[i]:.4g}", ends(found, i)) if found.in_range[i] else ("out of range", "")
        table.append((f"{size:.0f}", *cells, str(found.method[i]), "" if found.reliable[i] else "not reliable"))
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def figure(curve: LearningCurve) -> Figure:
    """Three panels: error against rows, errors against ridge, the target in the kernel's eigenbasis."""
    from unlazy.plotting import style

    drawing, (errors, ridges, target) = style.panels(3)
    with style.style():
        _draw_curve(errors, curve)
        _draw_ridges(ridges, curve)
        _draw_alignment(target, curve)
    return drawing


def _draw_curve(axes: Axes, curve: LearningCurve) -> None:
    from unlazy.plotting import style

    pool = curve.pool_.size
    most = 4 * pool if float(curve.ridge) > 0 else pool
    found = curve.predict(np.unique(np.append(np.rint(np.geomspace(max(2, pool / 16), most, 13)), pool)))
    shown = found.in_range & (found.error > 0) & np.isfinite(found.error)
    n, error = found.n[shown], found.error[shown]
    axes.fill_between(n, found.interval.low[shown], found.interval.high[shown], color=style.colour(0), alpha=0.15, lw=0)
    style.theory(axes, n, error, color=style.colour(0), label="new rows")
    doubtful = ~found.reliable[shown]
    axes.plot(n[doubtful], error[doubtful], "o", color=style.colour(0), markerfacecolor="white", markersize=4)
    if doubtful.any():
        axes.plot([], [], "o", color=style.colour(0), markerfacecolor="white", markersize=4, label="not reliable")
    training = found.training_error[shown]
    visible = training > 1e-3 * error.min()
    style.theory(axes, n[visible], training[visible], color=style.colour(1), label="training rows", dashed=True)
    axes.axvline(pool, color="#888888", linewidth=0.8, linestyle=":")
    noise = curve.noise().variance
    if noise > 0.1 * error.min():
        axes.axhline(noise, color="#888888", linewidth=0.8)
        axes.text(1.05 * n.min(), noise, "noise or not learnable", color="#666666", fontsize=7, va="bottom")
    axes.set_xlim(n.min(), n.max())
    style.log_scale(axes)
    axes.set_xlabel(style.label("rows", "n"))
    axes.set_ylabel("mean squared error")
    axes.set_title(f"ridge {curve.ridge:.3g}; pool of {pool}")
    axes.legend()


def _draw_ridges(axes: Axes, curve: LearningCurve) -> None:
    from unlazy.plotting import style

    left_out, best, pool = curve.ridge_path(), curve.best_ridge(), curve.pool_.size
    style.theory(axes, left_out.ridge, left_out.loo_error, color=style.colour(0), label="leave-one-out")
    style.theory(axes, left_out.ridge, left_out.gcv, color=style.colour(2), label="GCV", dashed=True)
    axes.axvline(best.ridge, color="#888888", linewidth=0.8, linestyle=":")
    style.log_scale(axes)
    axes.set_ylim(0.8 * best.error, min(1.3 * left_out.loo_error.max(), 20 * best.error))
    axes.set_xlabel(style.label("ridge", r"\delta"))
    axes.set_ylabel(f"error with {pool} rows")
    axes.set_title(f"best ridge {best.ridge:.3g}")
    axes.legend()


def _draw_alignment(axes: Axes, curve: LearningCurve) -> None:
    from unlazy.plotting import style

    found = curve.alignment(curve.pool_.size)
    index = np.arange(1, found.eigenvalues.size + 1)
    style.theory(axes, index, found.cumulative_target, color=style.colour(0), label="target")
    style.theory(axes, index, found.cumulative_spectrum, color=style.colour(1), label="kernel", dashed=True)
    style.theory(axes, index, found.learnability, color=style.colour(2), label="learned from the pool")
    style.log_scale(axes, "x")
    axes.set_ylim(0, 1.05)
    axes.set_xlabel(style.label("direction", "j"))
    axes.set_ylabel("share, cumulative")
    axes.set_title(f"{found.effective_dimension:.0f} directions, {found.learnable_share:.0%} of the target")
    axes.legend()
