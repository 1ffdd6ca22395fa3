"""`RidgeReport` as text and as a figure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.ridge.report import RidgeReport

_WIDTH = 100
# a relative difference of the two error estimates that 1/n hardly explains
_DOUBT = 0.1


def text(report: RidgeReport) -> str:
    """About fifteen lines."""
    at = report.chosen
    where = {
        "inside": "inside the path",
        "smallest": "the smallest of the path",
        "largest": "the largest of the path: hardly anything is learned",
    }[report.chosen_where]
    noise = f"{report.noise_variance:.4g} +- {report.noise_standard_error:.2g}"
    if report.noise_is_identified:
        noise += f", so the signal has variance {report.signal_variance:.4g}"
    else:
        noise = f"at most {noise}: with rank(X) >= n noise and signal out of sight look alike"
    doubt = ": rows are unequal, trust the latter" if abs(report.disagreement) > _DOUBT else ""
    effective = f"{report.effective_ridge[at]:.4g}"
    if report.ridgeless_effective_ridge:
        effective += f"; {report.ridgeless_effective_ridge:.4g} at ridge 0, where the fit interpolates"
    training = report.training_error[at] if report.training_error[at] > 1e-20 * report.target_variance else 0.0
    targets = "1 target" if report.targets == 1 else f"means over {report.targets} targets"
    lines = [
        f"ridge report: {report.n} rows, {report.d} columns that vary, {targets}",
        _item("chosen ridge", f"{report.chosen_ridge:.4g} (least GCV, {where})"),
        _item("test error", f"{report.gcv[at]:.4g} by GCV, {report.loo_error[at]:.4g} by leaving one out{doubt}"),
        _item("training error", f"{training:.4g}; variance of Y {report.target_variance:.4g}"),
        _item("freedom", f"{report.degrees_of_freedom[at]:.1f} degrees of freedom of {report.n}"),
        _item("effective ridge", effective),
        _item("label noise", noise),
        _item("regime", f"{report.regime}: {report.reason}"),
        _item("forecast", "test error at the best ridge with other numbers of labelled rows"),
    ]
    lines += [f"  {line}" for line in _forecast_lines(report)]
    return "\n".join(lines)


def _item(name: str, value: str) -> str:
    return textwrap.fill(f"{name:<16} {value}", _WIDTH, subsequent_indent=" " * 17)


def _forecast_lines(report: RidgeReport) -> list[str]:
    forecast = report.forecast
    heads = ("rows", "test error", "best ridge", "at ridge 0")
    table = [heads]
    for size, ridge, error, deviation, bound, ridgeless in zip(*forecast, strict=True):
        table.append(
            (
                f"{size}",
                f"{'<= ' if bound else ''}{error:.4g} +- {deviation:.2g}",
                f"{'<= ' if bound else ''}{ridge:.3g}",
                "unknown" if np.isnan(ridgeless) else f"{ridgeless:.4g}",
            )
        )
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]


def figure(report: RidgeReport) -> Figure:
    """Three panels: errors against ridge, the spectrum with its regime, the forecast."""
    from unlazy.plotting import style

    drawing, (errors, spectrum, forecast) = style.panels(3)
    with style.style():
        _draw_errors(errors, report)
        _draw_spectrum(spectrum, report)
        _draw_forecast(forecast, report)
    return drawing


def _draw_errors(axes: Axes, report: RidgeReport) -> None:
    from unlazy.plotting import style

    shown = report.ridges > 0
    curves = (("GCV", report.gcv), ("leave-one-out", report.loo_error), ("training", report.training_error))
    for index, (name, values) in enumerate(curves):
        style.theory(
            axes, report.ridges[shown], values[shown], color=style.colour(index), label=name, dashed=index == 1
        )
    if report.chosen_ridge > 0:
        axes.axvline(report.chosen_ridge, color="#888888", linewidth=0.8, linestyle=":")
    style.log_scale(axes)
    finite = report.gcv[np.isfinite(report.gcv) & (report.gcv > 0)]
    if finite.size:
        axes.set_ylim(finite.min() / 10, min(finite.max(), 30 * finite.min()) * 1.2)
    axes.set_xlabel(style.label("ridge", r"\lambda"))
    axes.set_ylabel("mean squared error")
    axes.set_title(f"best ridge {report.chosen_ridge:.3g}")
    axes.legend()


def _draw_spectrum(axes: Axes, report: RidgeReport) -> None:
    from unlazy.plotting import style

    index = np.arange(1, report.spectrum.size + 1)
    if index.size:
        axes.plot(index, report.spectrum, "o", color=style.colour(0), markersize=3, label="covariance, estimated")
    if report.spectrum_exponent is not None:
        weights = 1 / index / np.sum(1 / index)
        level = np.exp(weights @ (np.log(report.spectrum) + report.spectrum_exponent * np.log(index)))
        line = level * index**-report.spectrum_exponent
        style.theory(axes, index, line, color=style.colour(1), label=f"$j^{{-{report.spectrum_exponent:.2f}}}$")
    if report.ridgeless_effective_ridge > 0:
        axes.axhline(
            report.ridgeless_effective_ridge,
            color="#888888",
            linewidth=0.8,
            linestyle=":",
            label="effective ridge at 0",
        )
    style.log_scale(axes)
    axes.set_xlabel(style.label("direction", "j"))
    axes.set_ylabel(style.label("eigenvalue", r"\ell_j"))
    axes.set_title(f"regime: {report.regime}")
    axes.legend()


def _draw_forecast(axes: Axes, report: RidgeReport) -> None:
    from unlazy.plotting import style

    sizes, _, error, deviation, bound, ridgeless = report.forecast
    style.theory(axes, sizes, error, color=style.colour(0))
    for kind, marker, fill, name in ((~bound, "o", style.colour(0), "best ridge"), (bound, "v", "white", "at most")):
        if kind.any():
            options: dict[str, Any] = {
                "linestyle": "none",
                "marker": marker,
                "markerfacecolor": fill,
                "zorder": 3,
                "label": name,
            }
            axes.errorbar(sizes[kind], error[kind], yerr=deviation[kind], color=style.colour(0), **options)
    known = np.isfinite(ridgeless)
    axes.plot(
        sizes[known],
        ridgeless[known],
        "s--",
        markersize=7,
        markerfacecolor="none",
        color=style.colour(1),
        label="ridge 0",
    )
    axes.axvline(report.n, color="#888888", linewidth=0.8, linestyle=":")
    style.log_scale(axes)
    axes.set_xlabel(style.label("labelled rows", "n"))
    axes.set_ylabel("test error")
    axes.set_title("forecast")
    axes.legend()
