"""`LearningCurve` as text and as a figure: of a kernel matrix, of a single-index model, of moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.diagnostics.pages import band, ends, figure, finish, item, mark, table
from unlazy.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.curves import Curve
    from unlazy.diagnostics.learning_curve.curve import LearningCurve

_PARTS = np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
_WHERE = {
    "inside": "",
    "smallest": ", the smallest looked at",
    "largest": ", the largest looked at: nothing is learned",
}


class Page(NamedTuple):
    """How a `LearningCurve` looks."""

    text: Callable[[LearningCurve], str]
    figure: Callable[[LearningCurve], Figure]


def _kernel_text(curve: LearningCurve) -> str:
    """About fifteen lines."""
    rows, pool = curve.rows_, curve.pool_.size
    outputs = 1 if np.ndim(curve.target_mean_) == 0 else np.size(curve.target_mean_)
    counted = "1 output" if outputs == 1 else f"{outputs} outputs, errors summed over them"
    kernel = curve.kernel if isinstance(curve.kernel, str) else getattr(curve.kernel, "__name__", "own")
    best, alignment, penalty = curve.best_penalty(), curve.alignment(pool), float(curve.penalty)
    # without a penalty nothing is known beyond the pool
    now = rows if penalty > 0 else pool
    sizes = _sizes(now)
    found = curve.predict(sizes[(sizes <= pool) | (penalty > 0)])
    at = _place(found, now)
    lines = [f"learning curve: {rows} rows, {counted}, {kernel} kernel, penalty {penalty:g}"]
    if pool < rows:
        lines.append(item("pool", f"{pool} rows taken at random of {rows}; the rest of the curve is extrapolated"))
    lines += [
        item("in short", _twice(found, now)),
        item(
            "error",
            f"{found.test_error[at]:.4g} ({ends(found, at)}), R2 {found.r_squared[at]:.3f}; on the training rows "
            f"{found.training_error[at]:.3g}",
        ),
        _variance(curve, f"noise or not learnable from {pool} rows"),
        item(
            "best penalty",
            f"{best.penalty:.3g} with a leave-one-out error of {best.test_error:.4g}{_WHERE[best.where]}",
        ),
        item(
            "alignment",
            f"{alignment.degrees_of_freedom:.1f} effective directions hold {alignment.learnable_share:.0%} of "
            "the target",
        ),
        item("curve", "error with other numbers of rows at this penalty"),
    ]
    return "\n".join(lines + _lines(found))


def _one_step_text(curve: LearningCurve) -> str:
    """About a dozen lines."""
    rows, noise, evidence = curve.rows_, curve.noise_estimate(), curve.evidence_
    found = curve.predict(_sizes(rows))
    at = _place(found, rows)
    source = f"{rows} rows" if evidence is not None else "a given link"
    lines = [f"learning curve: {source}, features after one gradient step, {_penalty(curve)}"]
    if found.in_range.all():
        lines.append(item("in short", _twice(found, rows)))
    lines += [
        item("error", f"{found.test_error[at]:.4g} ({ends(found, at)}), R2 {found.r_squared[at]:.3f} with {rows} rows"),
        _variance(curve, "noise"),
    ]
    if evidence is not None:
        signal = f"linear correlation of {evidence.signal:.0f} standard deviations of chance"
        lines.append(item("signal", f"{signal}; index known to a cosine of {evidence.cosine:.3f}"))
        if evidence.least_noise_variance < noise.noise_variance:
            lines.append(
                item(
                    "caution",
                    f"y jumps or has heavy tails along the index: noise may be {evidence.least_noise_variance:.3g}",
                )
            )
        if not evidence.whitened:
            lines.append(item("caution", "fewer than two rows per column: correlations of the inputs were kept"))
    lines.append(item("curve", "error with other numbers of rows"))
    return "\n".join(lines + _lines(found))


def _moments_text(curve: LearningCurve) -> str:
    """About a dozen lines."""
    rows, best = curve.rows_, curve.best_penalty()
    found = curve.predict(_sizes(rows))
    at = _place(found, rows)
    lines = [
        f"learning curve: moments of a population, {_penalty(curve)}",
        item("error", f"{found.test_error[at]:.4g}, R2 {found.r_squared[at]:.3f} with {rows} rows"),
        _variance(curve, "not linear in x"),
        item("best penalty", f"{best.penalty:.3g} with {rows} rows, error {best.test_error:.4g}"),
        item("intervals", "none: moments do not say how well they are known"),
    ]
    columns = zip(found.n, found.test_error, found.training_error, found.penalty, strict=True)
    cells = [
        (f"{n:.0f}", f"{error:.4g}", f"{training:.4g}", f"{penalty:.3g}") for n, error, training, penalty in columns
    ]
    return "\n".join(lines + table([("rows", "error", "training", "penalty"), *cells], (8, 9, 9, 9)))


def _sizes(rows: int) -> np.ndarray:
    return np.unique(np.maximum(np.rint(rows * _PARTS), 2))


def _place(found: Curve, rows: int) -> int:
    return int(np.flatnonzero(found.n == rows)[0])


def _penalty(curve: LearningCurve) -> str:
    return "best penalty at each size" if isinstance(curve.penalty, str) else f"penalty {curve.penalty:g}"


def _variance(curve: LearningCurve, rest: str) -> str:
    noise = curve.noise_estimate()
    return item(
        "variance of y", f"{curve.target_variance_:.4g}, of which {noise.noise_variance:.4g} ({noise.share:.0%}) {rest}"
    )


def _twice(found: Curve, rows: int) -> str:
    """What twice the rows would bring."""
    at, doubled = _place(found, rows), np.flatnonzero(found.n == 2 * rows)
    if not found.in_range[doubled].any():
        return f"what twice the rows would bring cannot be said at penalty {found.penalty[at]:g}; it takes a larger one"
    twice = int(doubled[0])
    before, after = found.test_error[at], found.test_error[twice]
    verb = "fall" if after < before else "rise"
    doubt = "" if found.reliable[twice] else ", a guess more than a forecast"
    return f"with twice the rows the error should {verb} from {before:.3g} to {after:.3g} ({ends(found, twice)}){doubt}"


def _lines(found: Curve) -> list[str]:
    rows = [("rows", "error", "interval", "method", "")]
    for i, size in enumerate(found.n):
        cells = (f"{found.test_error[i]:.4g}", ends(found, i)) if found.in_range[i] else ("out of range", "")
        rows.append((f"{size:.0f}", *cells, str(found.method[i]), "" if found.reliable[i] else "not reliable"))
    return table(rows)


def _draw_kernel(axes: Axes, curve: LearningCurve) -> None:
    pool = curve.pool_.size
    most = 4 * pool if float(curve.penalty) > 0 else pool
    found = curve.predict(np.unique(np.append(np.rint(np.geomspace(max(2, pool / 16), most, 13)), pool)))
    shown = found.in_range & (found.test_error > 0) & np.isfinite(found.test_error)
    n, error = found.n[shown], found.test_error[shown]
    band(axes, found, shown)
    style.theory(axes, n, error, color=style.colour(0), label="new rows")
    doubtful = ~found.reliable[shown]
    hollow: dict[str, Any] = {"color": style.colour(0), "markerfacecolor": "white", "markersize": 4}
    label = "not reliable" if doubtful.any() else None
    axes.plot(n[doubtful], error[doubtful], "o", label=label, **hollow)
    _draw_training(axes, found, shown & (found.training_error > 1e-3 * error.min()))
    mark(axes, x=pool)
    noise = curve.noise_estimate().noise_variance
    if noise > 0.1 * error.min():
        mark(axes, y=noise)
        axes.text(1.05 * n.min(), noise, "noise or not learnable", color="#666666", fontsize=7, va="bottom")
    axes.set_xlim(n.min(), n.max())
    style.log_scale(axes)
    finish(axes, style.label("rows", "n"), "mean squared error", f"penalty {curve.penalty:.3g}; pool of {pool}")


def _draw_one_step(axes: Axes, curve: LearningCurve) -> None:
    found = curve.predict(np.unique(np.rint(np.geomspace(max(2, curve.rows_ / 8), 8 * curve.rows_, 7))))
    shown, noise = found.in_range, curve.noise_estimate().noise_variance
    n = found.n[shown]
    band(axes, found, shown)
    style.theory(axes, n, found.test_error[shown], color=style.colour(0), label="new rows")
    _draw_training(axes, found, shown)
    mark(axes, y=noise)
    axes.text(1.05 * n.min(), noise, "noise", color="#666666", fontsize=7, va="bottom")
    if curve.evidence_ is not None:
        mark(axes, x=curve.rows_)
    style.log_scale(axes)
    axes.set_xlim(n.min(), n.max())
    finish(axes, style.label("rows", "n"), "mean squared error", "after one step")


def _draw_moments(axes: Axes, curve: LearningCurve) -> None:
    found = curve.predict(np.unique(np.rint(np.geomspace(max(2, curve.rows_ / 16), 8 * curve.rows_, 41))))
    shown = np.isfinite(found.test_error) & (found.training_error > 0)
    style.theory(axes, found.n[shown], found.test_error[shown], color=style.colour(0), label="new rows")
    _draw_training(axes, found, shown)
    mark(axes, y=curve.noise_estimate().noise_variance, label="not linear")
    style.log_scale(axes)
    finish(axes, style.label("rows", "n"), "mean squared error", "from moments")


def _draw_training(axes: Axes, found: Curve, shown: np.ndarray) -> None:
    style.theory(
        axes, found.n[shown], found.training_error[shown], color=style.colour(1), label="training rows", dashed=True
    )


def _draw_path(axes: Axes, curve: LearningCurve) -> None:
    left_out, best = curve.penalty_path(), curve.best_penalty()
    style.theory(axes, left_out.penalty, left_out.loo_error, color=style.colour(0), label="leave-one-out")
    style.theory(axes, left_out.penalty, left_out.gcv, color=style.colour(2), label="GCV", dashed=True)
    mark(axes, x=best.penalty)
    style.log_scale(axes)
    axes.set_ylim(0.8 * best.test_error, min(1.3 * left_out.loo_error.max(), 20 * best.test_error))
    penalty, error = style.label("penalty", r"n\lambda"), f"error with {curve.pool_.size} rows"
    finish(axes, penalty, error, f"best penalty {best.penalty:.3g}")


def _draw_penalties(axes: Axes, curve: LearningCurve) -> None:
    levels = max(curve.best_penalty().penalty, 1e-12) * np.geomspace(1e-3, 1e3, 61)
    for index, share in enumerate((0.25, 1.0, 4.0)):
        size = max(2.0, np.rint(share * curve.rows_))
        errors = curve.predict(size, levels).test_error
        style.theory(axes, levels, errors, color=style.colour(index), label=f"{size:.0f} rows")
    style.log_scale(axes)
    finish(axes, "penalty", "mean squared error", "new rows")


def _draw_alignment(axes: Axes, curve: LearningCurve) -> None:
    found = curve.alignment(curve.pool_.size)
    index = np.arange(1, found.spectrum.size + 1)
    style.theory(axes, index, found.cumulative_target, color=style.colour(0), label="target")
    style.theory(axes, index, found.cumulative_spectrum, color=style.colour(1), label="kernel", dashed=True)
    style.theory(axes, index, found.learnability, color=style.colour(2), label="learned from the pool")
    style.log_scale(axes, "x")
    axes.set_ylim(0, 1.05)
    title = f"{found.degrees_of_freedom:.0f} directions, {found.learnable_share:.0%} of the target"
    finish(axes, style.label("direction", "j"), "share, cumulative", title)


def _draw_link(axes: Axes, curve: LearningCurve) -> None:
    places = np.linspace(-3, 3, 301)
    style.theory(axes, places, curve.link(places), color=style.colour(0), label="link")
    finish(axes, style.label("index", "s"), "target", f"noise {curve.noise_estimate().share:.0%} of the variance")


KERNEL = Page(_kernel_text, lambda curve: figure(curve, _draw_kernel, _draw_path, _draw_alignment))
ONE_STEP = Page(_one_step_text, lambda curve: figure(curve, _draw_one_step, _draw_link))
MOMENTS = Page(_moments_text, lambda curve: figure(curve, _draw_moments, _draw_penalties))
