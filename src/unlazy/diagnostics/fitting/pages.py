"""`FittedTable` as text, figure, JSON and page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError, write_at_once
from unlazy.diagnostics.fitting.candidates import CLASSES, CONSTANT, LINEAR, YARDSTICK
from unlazy.diagnostics.pages import figure, item, mark, paragraph, table, web_page
from unlazy.plotting import style
from unlazy.words import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.diagnostics.fitting.answer import ExplainedShare, FittedTable

_SHOWN_COLUMNS, _SAID_COLUMNS = 12, 3
_GREY = "0.55"


def sentences(found: FittedTable) -> tuple[str, str]:
    """Which method does how well, and what it needs."""
    return _result(found), _columns(found)


def text(found: FittedTable) -> str:
    lines = [f"fit of {found.target}: {found.n} rows, {_kind(found)}"]
    lines += [item("note", note) for note in found.notes]
    lines += table(_rows(found))
    lines += [item("not tried", f"{name}: {why}") for name, why in found.skipped.items()]
    return "\n".join([*lines, *(paragraph(sentence) for sentence in sentences(found))])


def figure_of(found: FittedTable) -> Figure:
    return figure(found, _draw_methods, _draw_columns, width=3.6, height=2.9)


def as_json(found: FittedTable) -> dict[str, Any]:
    return {
        "target": found.target,
        "kind": found.kind,
        "n": found.n,
        "chosen": found.chosen,
        "score": found.score.value,
        "low": found.score.low,
        "high": found.score.high,
        "gain": None if found.gain is None else vars(found.gain),
        "as_good": list(found.as_good),
        "methods": [
            {"name": name, "score": one.value, "low": one.low, "high": one.high}
            | {"error": found.errors[name], "seconds": found.seconds[name]}
            for name, one in found.scores.items()
        ],
        "skipped": [{"name": name, "reason": why} for name, why in found.skipped.items()],
        "columns": [
            {"name": name, "value": one.value, "low": one.low, "high": one.high}
            for name, one in found.importances.items()
        ],
        "notes": list(found.notes),
        "sentences": list(sentences(found)),
    }


def save(found: FittedTable, file: str | os.PathLike) -> None:
    path = check_page(file)
    parts = [*sentences(found), *(f"Note: {note}" for note in found.notes)]
    parts += [f"Not tried: {name}: {why}" for name, why in found.skipped.items()]
    write_at_once(web_page(f"What predicts {found.target}", parts, found.figure(), rows=_rows(found)), path)


def check_page(file: str | os.PathLike) -> Path:
    path = Path(file)
    if path.suffix != ".html":
        raise InputError(f"the page must end in .html, got {path.name!r}")
    return path


def _kind(found: FittedTable) -> str:
    return "classes" if found.kind == CLASSES else "numbers"


def _score_word(found: FittedTable) -> str:
    return "share of log loss explained" if found.kind == CLASSES else "R² on held-out rows"


def _rows(found: FittedTable) -> list[tuple[str, ...]]:
    error = "wrong" if found.kind == CLASSES else "error"
    rows: list[tuple[str, ...]] = [("method", "score", "95% interval", error, "seconds", "")]
    for name, score in sorted(found.scores.items(), key=lambda pair: -pair[1].value):
        missed = found.errors[name]
        rows.append(
            (
                name,
                f"{score.value:.3f}",
                f"{score.low:.3f} to {score.high:.3f}",
                f"{100 * missed:.1f}%" if found.kind == CLASSES else f"{missed:.4g}",
                f"{found.seconds[name]:.1f}",
                "chosen" if name == found.chosen else "",
            )
        )
    return rows


def _result(found: FittedTable) -> str:
    """What was chosen, in words that are no surer than the intervals.

    Scores of methods are compared with one another, each on all held-out rows. What the choice is worth, which is
    made on other rows than it is judged on, has a sentence of its own.
    """
    if found.chosen == CONSTANT:
        return f"These rows do not tell how to predict {found.target} better than by a constant."
    unit = "of the log loss" if found.kind == CLASSES else "of the variance"
    here = f"{found.scores[found.chosen].value:.0%} {unit} of rows it has not seen"
    others = [
        f"{found.scores[name].value:.0%} by {said}"
        for name, said in ((LINEAR, "a linear model"), (YARDSTICK, "boosting"))
        if name in found.scores and name != found.chosen
    ]
    here += f", against {listed(others)}" if others else ""
    worth = f"{found.score.value:.0%} ({found.score.low:.0%} to {found.score.high:.0%})"
    name = {LINEAR: "a linear model", YARDSTICK: "boosting"}.get(found.chosen, f"the method {found.chosen!r}")
    if found.score.low <= 0:
        return (
            f"Nothing predicts {found.target} surely: {name} explains {here}, but on rows that had no part in the "
            f"choice, what was chosen explains {worth}, which may be nothing."
        )
    best = max(found.scores, key=lambda one: found.scores[one].value)
    start = f"{name[0].upper()}{name[1:]} predicts {found.target} best"
    if found.chosen == LINEAR and best != LINEAR:
        start = f"A linear model predicts {found.target} as well as any other, up to chance"
    elif found.gain is not None and found.gain.low <= 0:
        start = f"{name[0].upper()}{name[1:]} was chosen for {found.target}, but a linear model may be as good"
    elif found.as_good:
        start += f", {listed([repr(one) for one in found.as_good])} as well up to chance"
    return f"{start}: it explains {here}. On rows that had no part in the choice, what was chosen explains {worth}."


def _columns(found: FittedTable) -> str:
    needed = [(name, one) for name, one in found.importances.items() if one.low > 0]
    if not needed:
        return "No single column is clearly needed."
    said = listed([f"{name} ({one.value:.2f})" for name, one in needed[:_SAID_COLUMNS]])
    rest = len(found.importances) - len(needed)
    more = f" {rest} of {len(found.importances)} columns are not clearly needed." if rest else ""
    return f"What it needs most, by the loss of score when a column is shuffled: {said}.{more}"


def _draw_methods(axes: Axes, found: FittedTable) -> None:
    _bars(axes, found.scores, marked=found.chosen)
    axes.set(xlabel=_score_word(found), title="methods on held-out rows")


def _draw_columns(axes: Axes, found: FittedTable) -> None:
    _bars(axes, dict(list(found.importances.items())[:_SHOWN_COLUMNS]))
    axes.set(xlabel="loss of score when shuffled", title="columns that it needs")


def _bars(axes: Any, scores: dict[str, ExplainedShare], marked: str = "") -> None:
    ordered = sorted(scores.items(), key=lambda pair: pair[1].value)
    for place, (name, one) in enumerate(ordered):
        colour = style.colour(0) if not marked or name == marked else _GREY
        spread = [[one.value - one.low], [one.high - one.value]]
        axes.errorbar([one.value], [place], xerr=spread, fmt="o", color=colour, markersize=4, capsize=2)
    axes.set_yticks(range(len(ordered)), [name if len(name) <= 22 else f"{name[:20]}…" for name, _ in ordered])
    mark(axes, x=0.0)
