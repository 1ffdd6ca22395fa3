"""A forecast as a paragraph, tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.diagnostics.curves import Curve
from unlazy.diagnostics.forecasting.columns import NOT_MISSED, SMALL_RISE, WithoutColumns
from unlazy.diagnostics.forecasting.columns import as_json as without_json
from unlazy.diagnostics.forecasting.words import MULTIPLES
from unlazy.diagnostics.pages import EXACT, band, figure, finish, mark, paragraph, share, table
from unlazy.plotting import style
from unlazy.words import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.forecasting.answer import Forecast, MethodForecast
    from unlazy.diagnostics.forecasting.check import Checked

_CURVE_POINTS = 13


def text(found: Forecast) -> str:
    """Notes, the paragraph, a table for each method, and the check."""
    unit = "" if found.unit is None else f" (standard deviation {found.unit:.4g})"
    lines = [paragraph(f"note: {note}", 6) for note in found.table.notes]
    lines += [
        f"{found.rows} rows, {found.table.inputs.shape[1]} inputs, target {', '.join(found.target_names)}{unit}",
        "",
    ]
    lines += [paragraph(found.sentence()), ""]
    rows: list[tuple[str, ...]] = [("rows", "", "error", "95% interval", "R2", "RMSE" if found.unit else "", "")]
    titles = {}
    for method in found.methods:
        titles[len(rows)] = _title(found, method)
        ends = [] if method.end is None or not method.end.in_range[0] else [method.end]
        rows += [_row(found, points, i) for points in (*ends, method.points) for i in range(points.n.size)]
    for i, line in enumerate(table(rows)):
        lines += [titles[i], line] if i in titles else [line]
    if found.checked:
        lines += ["", *_check_lines(found.checked), "", paragraph(found.verdict())]
    if found.without is not None:
        lines += ["", *_column_lines(found.without)]
    return "\n".join(lines)


def _title(found: Forecast, method: MethodForecast) -> str:
    words = f"{method.name}: {method.method.settings}; {_reach(method)}"
    if method.method.rows_used < found.rows:
        words += f"; from {method.method.rows_used} rows taken at random"
    if method.method.metric_gain is not None:
        words += "; the metric is held fixed, low ends allow for a better one"
    if method.method.gain_of_twice is not None:
        words += f"; twice the rows take away 0 to {method.method.gain_of_twice:.0%} of the error"
    return paragraph(words, 2)


def _reach(method: MethodForecast) -> str:
    if method.reach >= MULTIPLES[-1]:
        return "reliable up to 10x"
    return f"reliable up to {method.reach:.2g}x" if method.reach > 0 else "nowhere reliable"


def _row(found: Forecast, points: Curve, i: int) -> tuple[str, ...]:
    size = (f"{points.n[i]:.0f}", f"{points.n[i] / found.rows:.3g}x")
    if not points.in_range[i]:
        return (*size, "-", "", "", "", f"out of range: {points.reasons[i]}")
    error = points.test_error[i]
    unit = "" if found.unit is None else f"{np.sqrt(error) * found.unit:.4g}"
    interval = f"{share(points.low[i])}-{share(points.high[i])}" if points.high[i] >= EXACT else ""
    doubt = points.reasons[i] if points.reliable[i] else f"doubtful: {points.reasons[i]}"
    return (*size, share(error), interval, f"{1 - error:.3f}", unit, doubt)


def _column_lines(without: WithoutColumns) -> list[str]:
    """The error without each column, and the sentence on those that would not be missed."""
    title = (
        f"columns: {without.method} with all of them leaves {share(without.error)} of the variance ({without.rows} "
        "rows left out one by one); without one of them, with the same settings, that changes by"
    )
    rows: list[tuple[str, ...]] = [("column", "change", "95% interval", "")]
    rows += [
        (one.columns[0], _signed(one.rise), f"{_signed(one.low)} to {_signed(one.high)}", one.verdict)
        for one in without.alone
    ]
    lines = [paragraph(title), *table(rows)] if without.alone else ["columns: there is one only"]
    spare = [one.columns[0] for one in without.alone if one.verdict == NOT_MISSED]
    level = f"a rise below {SMALL_RISE:.0%} of the error, with 97.5%"
    told = f"Not missed, each alone ({level}): {listed(spare) if spare else 'none'}."
    if without.together is not None and len(spare) > 1:
        one = without.together
        told += (
            f" Not missed even together: {listed(list(one.columns))}, {_signed(one.rise)} ({_signed(one.low)} to "
            f"{_signed(one.high)}); of columns that say the same one has to stay."
        )
    return [*lines, paragraph(told)] if without.alone else lines


def _signed(value: float) -> str:
    """A change of a share of the variance."""
    return f"{100 * value:+.2g}%"


def _check_lines(checked: Sequence[Checked]) -> list[str]:
    from unlazy.diagnostics.forecasting.method import METRIC

    first, anew = checked[0], any(c.method == METRIC for c in checked)
    lines = [
        f"check: these learners with the settings above, forecast from random parts and trained on {first.n_to} rows;",
        f"errors on rows held out; medians of {len({c.split for c in checked})} splits; ratio: forecast/measured",
        *(["the metric machine learns all anew, from each part and in training"] if anew else []),
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
                f"{start} {share(middle[0]):>9} {share(middle[1]):>9} {typical:>12.2f} {off:>14}  "
                f"{sum(c.covered for c in known)} of {len(known)}{lost}"
            )
    return lines


def as_json(found: Forecast) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "columns": list(found.table.columns),
        "target_names": list(found.target_names),
        "classes": {name: list(two) for name, two in found.table.classes.items()},
        "notes": list(found.table.notes),
        "standard_deviation": found.unit,
        "noise_variance": found.noise_variance,
        "sentence": found.sentence(),
        "n": found.n,
        "methods": [_method_json(found, method) for method in found.methods],
        "without": None if found.without is None else without_json(found.without),
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
        "penalty": settings.penalty,
        "width": settings.width if np.isfinite(settings.width) else None,
        "rows_used": settings.rows_used,
        "metric_gain": None if settings.metric_gain is None else settings.metric_gain._asdict(),
        "reliable_up_to": method.reach,
        "noise_variance": settings.noise_variance,
        "test_error": points.test_error,
        "low": points.low,
        "high": points.high,
        "r_squared": points.r_squared,
        "root_test_error": None if found.unit is None else np.sqrt(points.test_error) * found.unit,
        "in_range": points.in_range,
        "reliable": points.reliable,
        "reasons": list(points.reasons),
    }


def _case(checked: Checked) -> dict[str, Any]:
    return {**checked._asdict(), "covered": checked.covered}


def figure_of(found: Forecast) -> Figure:
    """Error against rows for all methods; dashed and faint where it is not reliable."""
    return figure(found, _draw, width=4.6, height=3.2)


def _draw(axes: Axes, found: Forecast) -> None:
    trained = found.checked[0].n_to if found.checked else found.rows
    most = max(10.0 * found.rows, float(found.n.max()))
    least = min(found.rows / 4, float(found.n.min()), trained / 2)
    sizes = np.unique(np.round(np.geomspace(max(least, 2), most, _CURVE_POINTS)))
    doubtful = False
    for i, method in enumerate(found.methods):
        doubtful |= _draw_method(axes, method, sizes, i)
        cases = [c for c in found.checked if c.method == method.name]
        if cases:
            measured = np.array([c.measured for c in cases if c.factor == cases[0].factor])
            # beside each other, as all were trained on the same number of rows
            place = trained * 1.06 ** (i - (len(found.methods) - 1) / 2)
            ends = np.abs(np.array([[measured.min()], [measured.max()]]) - np.median(measured))
            axes.errorbar(
                [place], [np.median(measured)], yerr=ends, fmt=style.marker(i), color=style.colour(i), zorder=5
            )
    mark(axes, x=found.rows)
    style.log_scale(axes)
    if found.noise_variance > 0.1 * axes.get_ylim()[0]:
        mark(axes, y=found.noise_variance)
        axes.annotate(
            "noise or not learned", (0.01, found.noise_variance), xycoords=("axes fraction", "data"), fontsize=7,
            color="#666666", va="bottom",
        )  # fmt: skip
    if found.checked:
        axes.plot([], [], "o", color="#444444", label=f"trained on {trained} rows, range over splits")
    if doubtful:
        axes.plot([], [], "--", color="#444444", label="doubtful")
    title = f"{', '.join(found.target_names)}; dotted: the {found.rows} rows at hand"
    finish(axes, style.label("rows", "n"), "error / variance of the target", title)


def _draw_method(axes: Axes, method: MethodForecast, sizes: np.ndarray, index: int) -> bool:
    """Whether a part of the line is doubtful."""
    points, colour = method.method.at(sizes), style.colour(index)
    shown = points.in_range & (points.test_error > 0)
    if not shown.any():
        axes.plot([], [], color=colour, label=f"{method.name}: out of range")
        return False
    n = points.n[shown]
    band(axes, points, shown, index, alpha=0.12)
    axes.plot(n, points.test_error[shown], "--", color=colour, linewidth=1.0)
    sure = np.where(points.reliable[shown], points.test_error[shown], np.nan)
    axes.plot(n, sure, color=colour, label=method.name)
    return bool(np.isnan(sure).any())
