"""`RidgeReport` as text and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.diagnostics.pages import figure, finish, item, mark, table
from unlazy.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.ridge.report import RidgeReport

# a relative difference of the two error estimates that 1/n hardly explains
_DOUBT = 0.1
# a mean squared error that is a smaller share of the target's variance is the rounding of an exact fit
_ROUNDING = 1e-20


def text(report: RidgeReport) -> str:
    """About fifteen lines."""
    at = report.chosen
    where = {
        "inside": "inside the path",
        "smallest": "the smallest of the path",
        "largest": "the largest of the path: hardly anything is learned",
    }[report.chosen_where]
    noise = _with_error(report, report.noise_variance, report.noise_standard_error)
    if report.noise_is_identified:
        noise += f", so the signal has variance {report.signal_variance:.4g}"
    else:
        noise = f"at most {noise}: with rank(X) >= n noise and signal out of sight look alike"
    errors = (report.gcv[at], report.loo_error[at], report.training_error[at])
    gcv, left_out, training = (_level(report, error) for error in errors)
    doubt = ": rows are unequal, trust the latter" if abs(report.disagreement) > _DOUBT and gcv else ""
    effective = f"{report.effective_ridge[at]:.4g}"
    if report.ridgeless_effective_ridge:
        effective += f"; {report.ridgeless_effective_ridge:.4g} at ridge 0, where the fit interpolates"
    targets = "1 target" if report.tasks == 1 else f"means over {report.tasks} targets"
    lines = [
        f"ridge report: {report.n} rows, {report.d} columns that vary, {targets}",
        item("chosen ridge", f"{report.chosen_ridge:.4g} (least GCV, {where})"),
        item("test error", f"{gcv:.4g} by GCV, {left_out:.4g} by leaving one out{doubt}"),
        item("training error", f"{training:.4g}; variance of Y {report.target_variance:.4g}"),
        item("freedom", f"{report.degrees_of_freedom[at]:.1f} degrees of freedom of {report.n}"),
        item("effective ridge", effective),
        item("label noise", noise),
        item("regime", f"{report.regime}: {report.reason}"),
        item("forecast", "test error at the best ridge with other numbers of labelled rows"),
    ]
    return "\n".join(lines + _forecast_lines(report))


def _forecast_lines(report: RidgeReport) -> list[str]:
    rows = [("rows", "test error", "best ridge", "at ridge 0")]
    for size, ridge, error, deviation, bound, ridgeless in zip(*report.forecast, strict=True):
        most = "<= " if bound else ""
        last = "unknown" if np.isnan(ridgeless) else f"{_level(report, ridgeless):.4g}"
        rows.append((f"{size}", f"{most}{_with_error(report, error, deviation)}", f"{most}{ridge:.3g}", last))
    return table(rows)


def _level(report: RidgeReport, error: float) -> float:
    """A mean squared error, 0 if it is what rounding leaves."""
    return error if error > _ROUNDING * report.target_variance else 0.0


def _with_error(report: RidgeReport, error: float, deviation: float) -> str:
    level = _level(report, error)
    return f"{level:.4g} +- {deviation:.2g}" if level else "0"


def figure_of(report: RidgeReport) -> Figure:
    """Three panels: errors against ridge, the spectrum with its regime, the forecast."""
    return figure(report, _draw_errors, _draw_spectrum, _draw_forecast)


def _draw_errors(axes: Axes, report: RidgeReport) -> None:
    shown = report.ridge > 0
    curves = (("GCV", report.gcv), ("leave-one-out", report.loo_error), ("training", report.training_error))
    for index, (name, values) in enumerate(curves):
        style.theory(axes, report.ridge[shown], values[shown], color=style.colour(index), label=name, dashed=index == 1)
    if report.chosen_ridge > 0:
        mark(axes, x=report.chosen_ridge)
    style.log_scale(axes)
    finite = report.gcv[np.isfinite(report.gcv) & (report.gcv > 0)]
    if finite.size:
        axes.set_ylim(finite.min() / 10, min(finite.max(), 30 * finite.min()) * 1.2)
    finish(axes, style.label("ridge", r"\lambda"), "mean squared error", f"best ridge {report.chosen_ridge:.3g}")


def _draw_spectrum(axes: Axes, report: RidgeReport) -> None:
    index = np.arange(1, report.spectrum.size + 1)
    if index.size:
        axes.plot(index, report.spectrum, "o", color=style.colour(0), markersize=3, label="covariance, estimated")
    if report.spectrum_exponent is not None:
        weights = 1 / index / np.sum(1 / index)
        level = np.exp(weights @ (np.log(report.spectrum) + report.spectrum_exponent * np.log(index)))
        line = level * index**-report.spectrum_exponent
        style.theory(axes, index, line, color=style.colour(1), label=f"$j^{{-{report.spectrum_exponent:.2f}}}$")
    if report.ridgeless_effective_ridge > 0:
        mark(axes, y=report.ridgeless_effective_ridge, label="effective ridge at 0", linestyle=":")
    style.log_scale(axes)
    finish(axes, style.label("direction", "j"), style.label("eigenvalue", r"\ell_j"), f"regime: {report.regime}")


def _draw_forecast(axes: Axes, report: RidgeReport) -> None:
    sizes, _, error, deviation, bound, ridgeless = report.forecast
    style.theory(axes, sizes, error, color=style.colour(0))
    for kind, marker, fill, name in ((~bound, "o", style.colour(0), "best ridge"), (bound, "v", "white", "at most")):
        if kind.any():
            options: dict[str, Any] = {"linestyle": "none", "marker": marker, "markerfacecolor": fill, "zorder": 3}
            axes.errorbar(sizes[kind], error[kind], yerr=deviation[kind], color=style.colour(0), label=name, **options)
    known = np.isfinite(ridgeless)
    hollow: dict[str, Any] = {"markersize": 7, "markerfacecolor": "none", "color": style.colour(1)}
    axes.plot(sizes[known], ridgeless[known], "s--", label="ridge 0", **hollow)
    mark(axes, x=report.n)
    style.log_scale(axes)
    finish(axes, style.label("labelled rows", "n"), "test error", "forecast")
