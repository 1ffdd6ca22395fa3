"""A forecast as a paragraph, tables, JSON and a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.diagnostics.forecasting.check import Checked
from unlazy.diagnostics.forecasting.words import EXACT, MULTIPLES, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unlazy.diagnostics.forecasting.answer import Forecast, MethodForecast

_WIDTH = 100
_CURVE_POINTS = 13


def text(found: Forecast) -> str:
    """Notes, the paragraph, a table for each method, and the check."""
    names = ", ".join(found.targets)
    unit = "" if found.unit is None else f" (standard deviation {found.unit:.4g})"
    lines = [textwrap.fill(f"note: {note}", _WIDTH, subsequent_indent="      ") for note in found.table.notes]
    lines += [f"{found.rows} rows, {found.table.inputs.shape[1]} inputs, target {names}{unit}", ""]
    lines += [textwrap.fill(found.sentence(), _WIDTH), ""]
    heads = ("rows", "", "error", "95% interval", "R2", "RMSE" if found.unit else "", "")
    table: list[tuple[str, ...]] = [heads]
    titles = {}
    for method in found.methods:
        titles[len(table)] = _title(found, method)
        table += _rows(found, method)
    widths = [max(len(row[column]) for row in table) for column in range(len(heads) - 1)]
    for i, row in enumerate(table):
        lines += titles.get(i, [])
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append(("  " + "  ".join(cells) + "  " + row[-1]).rstrip())
    if found.checked:
        lines += ["", *_check_lines(found.checked), "", textwrap.fill(found.verdict(), _WIDTH)]
    return "\n".join(lines)


def _title(found: Forecast, method: MethodForecast) -> list[str]:
    words = f"{method.name}: {method.method.settings}; {reach(method)}"
    if method.method.pool < found.rows:
        words += f"; from {method.method.pool} rows taken at random"
    return [textwrap.fill(words, _WIDTH, subsequent_indent="  ")]


def reach(method: MethodForecast) -> str:
    if method.reach >= MULTIPLES[-1]:
        return "reliable up to 10x"
    return f"reliable up to {method.reach:.2g}x" if method.reach > 0 else "nowhere reliable"


def _rows(found: Forecast, method: MethodForecast) -> list[tuple[str, ...]]:
    points = method.points
    rows = []
    if not points.in_range.any():
        end = method.method.at(np.array([round(method.reach * found.rows) or method.method.pool], dtype=float))
        if end.in_range[0]:
            rows.append(_row(found, end, 0))
    return rows + [_row(found, points, i) for i in range(points.n.size)]


def _row(found: Forecast, points: Any, i: int) -> tuple[str, ...]:
    size = (f"{points.n[i]:.0f}", f"{points.n[i] / found.rows:.3g}x")
    if not points.in_range[i]:
        return (*size, "-", "", "", "", f"out of range: {points.reasons[i]}")
    error = points.error[i]
    unit = "" if found.unit is None else f"{np.sqrt(error) * found.unit:.4g}"
    interval = f"{number(points.low[i])}-{number(points.high[i])}" if points.high[i] >= EXACT else ""
    doubt = "" if points.reliable[i] else f"doubtful: {points.reasons[i]}"
    return (*size, number(error), interval, f"{1 - error:.3f}", unit, doubt)


def _check_lines(checked: Sequence[Checked]) -> list[str]:
    first = checked[0]
    lines = [
        f"check: these learners with the settings above, forecast from random parts and trained on {first.n_to} rows;",
        f"errors on rows held out; medians of {len({c.split for c in checked})} splits; ratio: forecast/measured",
        f"  {'method':<26} {'from':>6} {'':>4} {'forecast':>9} {'measured':>9} median ratio {'worst':>14}  covered",
    ]
    for name in dict.fromkeys(c.method for c in checked):
        for factor in sorted({c.factor for c in checked}):
            here = [c for c in checked if (c.method, c.factor) == (name, factor)]
            known = [c for c in here if np.isfinite(c.forecast)]
            start = f"  {name:<26} {here[0].n_from:>6} {f'{factor}x':>4}" if here else ""
            if not known:
                lines += [f"{start}  out of range in all splits"] if here else []
                continue
            middle = [np.median([getattr(c, field) for c in known]) for field in ("forecast", "measured")]
            logs = [np.log(c.forecast / c.measured) for c in known]
            typical = np.exp(np.median(logs))
            worst = logs[int(np.argmax(np.abs(logs)))]
            lost = f", {len(here) - len(known)} out of range" if len(known) < len(here) else ""
            off = f"{np.exp(abs(worst)):.3g}x too {'low' if worst < 0 else 'high'}"
            lines.append(
                f"{start} {number(middle[0]):>9} {number(middle[1]):>9} {typical:>12.2f} {off:>14}  "
                f"{sum(c.covered for c in known)} of {len(known)}{lost}"
            )
    return lines


def as_json(found: Forecast) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "columns": list(found.table.columns),
        "targets": list(found.targets),
        "notes": list(found.table.notes),
        "standard_deviation": found.unit,
        "noise": found.noise,
        "sentence": found.sentence(),
        "sizes": found.sizes,
        "methods": [_method_json(found, method) for method in found.methods],
        "check": None
        if not found.checked
        else {"verdict": found.verdict(), "cases": [_case(c) for c in found.checked]},
    }


def _method_json(found: Forecast, method: MethodForecast) -> dict[str, Any]:
    points, settings = method.points, method.method
    return {
        "name": method.name,
        "kernel": settings.kernel,
        "gamma": settings.gamma,
        "ridge": settings.ridge,
        "features": settings.features if np.isfinite(settings.features) else None,
        "rows_used": settings.pool,
        "reliable_up_to": method.reach,
        "noise": settings.noise,
        "error": points.error,
        "low": points.low,
        "high": points.high,
        "r2": 1 - points.error,
        "rmse": None if found.unit is None else np.sqrt(points.error) * found.unit,
        "in_range": points.in_range,
        "reliable": points.reliable,
        "reasons": list(points.reasons),
    }


def _case(checked: Checked) -> dict[str, Any]:
    return {**checked._asdict(), "covered": checked.covered}


def figure(found: Forecast) -> Figure:
    """Error against rows for all methods; dashed and faint where it is not reliable."""
    from unlazy.plotting import style

    drawing, axes = style.panels(1, width=4.6, height=3.2)
    axes = np.ravel(axes)[0]
    trained = found.checked[0].n_to if found.checked else found.rows
    with style.style():
        most = max(10.0 * found.rows, float(found.sizes.max()))
        least = min(found.rows / 4, float(found.sizes.min()), trained / 2)
        sizes = np.unique(np.round(np.geomspace(max(least, 2), most, _CURVE_POINTS)))
        doubtful = False
        for i, method in enumerate(found.methods):
            doubtful |= _draw(axes, method, sizes, i)
            cases = [c for c in found.checked if c.method == method.name]
            if cases:
                measured = np.array([c.measured for c in cases if c.factor == cases[0].factor])
                # beside each other, as all were trained on the same number of rows
                place = trained * 1.06 ** (i - (len(found.methods) - 1) / 2)
                ends = np.abs(np.array([[measured.min()], [measured.max()]]) - np.median(measured))
                axes.errorbar(
                    [place], [np.median(measured)], yerr=ends, fmt=style.marker(i), color=style.colour(i), zorder=5
                )
        axes.axvline(found.rows, color="#888888", linewidth=0.8, linestyle=":")
        style.log_scale(axes)
        if found.noise > 0.1 * axes.get_ylim()[0]:
            axes.axhline(found.noise, color="#888888", linewidth=0.8)
            axes.annotate(
                "noise or not learned", (0.01, found.noise), xycoords=("axes fraction", "data"), fontsize=7,
                color="#666666", va="bottom",
            )  # fmt: skip
        if found.checked:
            axes.plot([], [], "o", color="#444444", label=f"trained on {trained} rows, range over splits")
        if doubtful:
            axes.plot([], [], "--", color="#444444", label="doubtful")
        axes.set_xlabel(style.label("rows", "n"))
        axes.set_ylabel("error / variance of the target")
        axes.set_title(f"{', '.join(found.targets)}; dotted: the {found.rows} rows at hand")
        axes.legend()
    return drawing


def _draw(axes: Any, method: MethodForecast, sizes: np.ndarray, index: int) -> bool:
    """Whether a part of the line is doubtful."""
    from unlazy.plotting import style

    points, colour = method.method.at(sizes), style.colour(index)
    shown = points.in_range & (points.error > 0)
    if not shown.any():
        axes.plot([], [], color=colour, label=f"{method.name}: out of range")
        return False
    n = points.n[shown]
    axes.fill_between(n, points.low[shown], points.high[shown], color=colour, alpha=0.12, linewidth=0)
    axes.plot(n, points.error[shown], "--", color=colour, linewidth=1.0)
    sure = np.where(points.reliable[shown], points.error[shown], np.nan)
    axes.plot(n, sure, color=colour, label=method.name)
    return bool(np.isnan(sure).any())
