"""A forecast as a paragraph, tables, JSON and a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.diagnostics._forecast_check import Checked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unlazy.diagnostics.forecast import Forecast, MethodForecast

_WIDTH = 100
_MULTIPLES = (1.0, 2.0, 5.0, 10.0)
# errors nearer than this are called the same
_SAME = 0.03
_CURVE_POINTS = 13


def sentence(found: Forecast) -> str:
    """Which method will do how well, whether that changes, what pays more, and what is noise."""
    errors = {m.name: m.method.at(found.rows * np.array(_MULTIPLES)) for m in found.methods}
    now = {name: points.error[0] for name, points in errors.items() if points.in_range[0]}
    if not now:
        return "no method has a forecast for as many rows as there are: too many rows for this ridge or these kernels"
    best = min(now, key=lambda name: now[name])
    parts = [_best(best, now), _growth(best, errors[best])]
    if len(errors) > 1:
        parts.append(_ranking(best, errors))
    if len(now) > 1:
        parts.append(_pays(best, now, errors[best]))
    noise = f"about {found.noise:.2g} of the variance is noise or what no method here learned from these rows"
    missing = [name for name in errors if name not in now]
    if missing:
        parts.append(f"nothing can be said of {_listed(missing)} with so many rows")
    return "; ".join([*parts, noise])


def _best(best: str, now: dict[str, float]) -> str:
    level = f"an error of {_number(now[best])} of the target's variance (R2 {1 - now[best]:.2f})"
    same = [name for name in now if name != best and now[name] <= (1 + _SAME) * now[best]]
    if len(now) == 1:
        return f"now {best} has {level}"
    if same:
        return f"now {_listed([best, *same])} do equally well with {level}"
    return f"best now: {best} with {level}"


def _growth(best: str, points: Any) -> str:
    words = []
    for i, multiple in enumerate(_MULTIPLES[1:], start=1):
        if points.in_range[i]:
            doubt = "" if points.reliable[i] else ", doubtful"
            interval = f"{_number(points.low[i])}-{_number(points.high[i])}"
            words.append(f"{_number(points.error[i])} ({interval}{doubt}) with {multiple:g}x the rows")
    if not words:
        return f"more rows are out of range for {best}"
    falls = [points.error[i] for i in range(1, len(_MULTIPLES)) if points.in_range[i]]
    verb = "should fall to" if falls[-1] < points.error[0] else "should stay, or rise to,"
    return f"the error of {best} {verb} {', '.join(words)}" + ("" if len(words) == 3 else "; more is out of range")


def _ranking(best: str, errors: dict[str, Any]) -> str:
    for i, multiple in enumerate(_MULTIPLES[1:], start=1):
        known = {name: points.error[i] for name, points in errors.items() if points.in_range[i]}
        if len(known) < 2 or best not in known:
            return f"which is best cannot be said beyond {_MULTIPLES[i - 1]:g}x"
        first = min(known, key=lambda name: known[name])
        if first != best and known[best] > (1 + _SAME) * known[first]:
            sure = errors[first].reliable[i] and errors[best].reliable[i]
            return f"with {multiple:g}x the rows {first} should overtake it" + ("" if sure else ", if anything")
    sure = all(points.reliable.all() for points in errors.values())
    return "more rows do not change which is best" + ("" if sure else ", as far as can be said")


def _pays(best: str, now: dict[str, float], points: Any) -> str:
    worst = max(now, key=lambda name: now[name])
    method = 1 - now[best] / now[worst]
    if not points.in_range[1]:
        return f"{best} in place of {worst} lowers the error by {method:.0%}"
    rows = 1 - points.error[1] / now[best]
    told = f"twice the rows lower it by {max(rows, 0.0):.0%}, {best} in place of {worst} by {method:.0%}"
    if max(rows, method) < _SAME:
        return f"{told}: neither pays much"
    if abs(rows - method) < _SAME:
        return f"{told}: about the same"
    return f"{told}: {'more rows pay' if rows > method else 'the method pays'} more"


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
    if method.reach >= _MULTIPLES[-1]:
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
    interval = f"{_number(points.low[i])}-{_number(points.high[i])}"
    doubt = "" if points.reliable[i] else f"doubtful: {points.reasons[i]}"
    return (*size, _number(error), interval, f"{1 - error:.3f}", unit, doubt)


def _check_lines(checked: Sequence[Checked]) -> list[str]:
    first = checked[0]
    lines = [
        f"check: forecasts from random parts against training on {first.n_to} rows, new rows held out; medians of "
        f"{len({c.split for c in checked})} splits",
        f"  {'method':<26} {'from':>6} {'':>4} {'forecast':>9} {'measured':>9} {'off by':>7} {'worst':>10}  covered",
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
            typical = np.expm1(np.median(np.abs(logs)))
            worst = logs[int(np.argmax(np.abs(logs)))]
            lost = f", {len(here) - len(known)} out of range" if len(known) < len(here) else ""
            off = f"{np.expm1(abs(worst)):.0%} {'low' if worst < 0 else 'high'}"
            lines.append(
                f"{start} {_number(middle[0]):>9} {_number(middle[1]):>9} {typical:>7.0%} {off:>10}  "
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


def _number(value: float) -> str:
    return f"{value:.3f}" if 0.01 <= value < 100 else f"{value:.2g}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
