"""`LearningCurve` of a population's moments as text and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlazy.diagnostics.learning_curve.pages import PARTS, item

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.learning_curve.curve import LearningCurve


def text(curve: LearningCurve) -> str:
    """About a dozen lines."""
    rows, noise, best = curve.rows_, curve.noise(), curve.best_ridge()
    found = curve.predict(np.unique(np.maximum(np.rint(rows * np.array(PARTS)), 2)))
    at = int(np.flatnonzero(found.n == rows)[0])
    ridge = "best ridge at each size" if isinstance(curve.ridge, str) else f"ridge {curve.ridge:g}"
    lines = [
        f"learning curve: moments of a population, {ridge}",
        item("error", f"{found.error[at]:.4g}, R2 {found.r2[at]:.3f} with {rows} rows"),
        item(
            "variance of y",
            f"{curve.target_variance_:.4g}, of which {noise.variance:.4g} ({noise.share:.0%}) not linear in x",
        ),
        item("best ridge", f"{best.ridge:.3g} with {rows} rows, error {best.error:.4g}"),
        item("intervals", "none: moments do not say how well they are known"),
        f"  {'rows':>8}  {'error':>9}  {'training':>9}  {'ridge':>9}",
    ]
    lines += [
        f"  {size:8.0f}  {error:9.4g}  {training:9.4g}  {level:9.3g}"
        for size, error, training, level in zip(found.n, found.error, found.training_error, found.ridge, strict=True)
    ]
    return "\n".join(lines)


def figure(curve: LearningCurve) -> Figure:
    """Two panels: error against rows, and against ridge for some numbers of rows."""
    from unlazy.plotting import style

    drawing, (errors, ridges) = style.panels(2)
    with style.style():
        _draw_curve(errors, curve)
        _draw_ridges(ridges, curve)
    return drawing


def _draw_curve(axes: Axes, curve: LearningCurve) -> None:
    from unlazy.plotting import style

    found = curve.predict(np.unique(np.rint(np.geomspace(max(2, curve.rows_ / 16), 8 * curve.rows_, 41))))
    shown = np.isfinite(found.error) & (found.training_error > 0)
    style.theory(axes, found.n[shown], found.error[shown], color=style.colour(0), label="new rows")
    style.theory(
        axes, found.n[shown], found.training_error[shown], color=style.colour(1), label="training rows", dashed=True
    )
    axes.axhline(curve.noise().variance, color="#888888", linewidth=0.8, label="not linear")
    style.log_scale(axes)
    axes.set_xlabel(style.label("rows", "n"))
    axes.set_ylabel("mean squared error")
    axes.set_title("from moments")
    axes.legend()


def _draw_ridges(axes: Axes, curve: LearningCurve) -> None:
    from unlazy.plotting import style

    best = curve.best_ridge().ridge
    levels = max(best, 1e-12) * np.geomspace(1e-3, 1e3, 61)
    for index, share in enumerate((0.25, 1.0, 4.0)):
        size = max(2.0, np.rint(share * curve.rows_))
        found = curve.predict(size, levels)
        style.theory(axes, levels, found.error, color=style.colour(index), label=f"{size:.0f} rows")
    style.log_scale(axes)
    axes.set_xlabel("ridge")
    axes.set_ylabel("mean squared error")
    axes.set_title("new rows")
    axes.legend()
