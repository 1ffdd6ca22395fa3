"""The page of the benchmarks for the documentation: a figure of all ratios, then a section for each benchmark.

The figure is HTML with small SVG pictures whose coordinates are percentages, so that it reads at any width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.measure import RATIO, Row
from benchmarks.record import NAMES
from benchmarks.record import rows as rows_of

TIE = 1.05
"""Ratios from 1/TIE to TIE count as equal."""

_STYLE = """
<style>
.bench { --win: #1f6fb2; --loss: #c2410c; --tie: #6b7280; --line: #8888; }
.bench { font-size: .72rem; line-height: 1.3; margin: 1em 0; }
[data-md-color-scheme="slate"] .bench { --win: #6cb4f0; --loss: #fb923c; --tie: #a3a9b5; }
.bench h4 { margin: .9em 0 .1em; font-size: .75rem; }
.bench .row { display: grid; grid-template-columns: minmax(0, 42%) minmax(0, 1fr) 9.5em; }
.bench .row { column-gap: .8em; align-items: center; }
.bench .row > svg { display: block; width: 100%; height: 1.7em; overflow: visible; }
.bench .number { font-variant-numeric: tabular-nums; }
.bench .win { color: var(--win); } .bench .loss { color: var(--loss); } .bench .tie { color: var(--tie); }
.bench svg text { font-size: .62rem; fill: currentColor; text-anchor: middle; }
.bench .quoted { fill: var(--md-default-bg-color, #fff); stroke: currentColor; stroke-width: 1.6px; }
@media (max-width: 40em) {
  .bench .row { grid-template-columns: minmax(0, 1fr) 9.5em; margin-bottom: .35em; }
  .bench .row > .what { grid-column: 1 / -1; }
}
</style>
""".strip()


def markdown(results: Mapping[str, Any]) -> str:
    """The page for the record of `benchmarks.record.load()`: Markdown with the figures as inline SVG."""
    if not results:
        return "# Benchmarks\n\nNothing is recorded yet: `make bench` runs all benchmarks.\n"
    found = {name: rows_of(entry) for name, entry in results.items()}
    shown = {name: [row for row in rows if _ratio(row) and not row.detail] for name, rows in found.items()}
    judged = [row for rows in found.values() for row in rows if row.verdict]
    met = sum(row.verdict == "met" for row in judged)
    missing = [_title(name).lower() for name in NAMES if name not in results]
    parts = [
        "# Benchmarks",
        "`make bench` runs all of this, a benchmark per process, and `python -m benchmarks NAME` one of them. "
        "Contestants take turns, so that other work on the machine hits all of them: ratios are fair on a busy "
        "machine, seconds are not, and every section says how busy it was.",
        f"In {len(results)} benchmarks {met} of {len(judged)} targets are met, {len(judged) - met} missed. "
        f"All of them took {sum(entry['seconds'] for entry in results.values()) / 60:.0f} minutes."
        + (f" Not recorded yet: {', '.join(missing)}." if missing else ""),
        "## All ratios",
        "A ratio is the peer's time or error over that of unlazy: **right of 1 unlazy is faster or more accurate**. A "
        f"mark is the median, the line the range over rounds or data sets. {_legend()} The best other is the one of "
        "least error on the test rows of each data set, which nobody could have chosen before; its time is that of the "
        "same one. The sections have the ratios to every single peer.",
        figure({name: rows for name, rows in shown.items() if rows}),
        _missed(found),
        *(_section(name, results[name], rows) for name, rows in found.items()),
    ]
    return _STYLE + "\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def figure(groups: Mapping[str, Sequence[Row]]) -> str:
    """All ratios of some benchmarks on one logarithmic axis."""
    scale = _Scale(value for rows in groups.values() for row in rows for value in row.values)
    lines = ['<div class="bench" role="figure" aria-label="ratios to peers, on a logarithmic axis">', _axis(scale)]
    for name, rows in groups.items():
        if len(groups) > 1:
            lines.append(f'<h4><a href="#{name}">{escape(_title(name))}</a></h4>')
        lines += [_line(row, scale) for row in rows]
    return "\n".join([*lines, _axis(scale), "</div>"])


def outcome(row: Row) -> str:
    """Whether a ratio is a win, a loss or a tie for unlazy, by its median."""
    return "win" if row.median > TIE else "loss" if row.median < 1 / TIE else "tie"


class _Scale:
    """Places in percent on a logarithmic axis that has 1 on it."""

    def __init__(self, values: Iterable[float]) -> None:
        places = [math.log10(value) for value in values if value > 0]
        self.low = min([-0.35, *places]) - 0.08
        self.high = max([0.35, *places]) + 0.08

    def place(self, value: float) -> float:
        position = math.log10(value) if value > 0 else self.low
        return round(100 * (position - self.low) / (self.high - self.low), 2)

    def ticks(self) -> list[float]:
        decades = [10.0**k for k in range(math.ceil(self.low), math.floor(self.high) + 1)]
        every = max(1, math.ceil(len(decades) / 7))
        kept = [tick for tick in decades if round(math.log10(tick)) % every == 0]
        return kept if len(kept) > 2 else sorted({*kept, *(t for t in (0.5, 2.0, 5.0) if self._holds(t))})

    def _holds(self, value: float) -> bool:
        return self.low < math.log10(value) < self.high


def _axis(scale: _Scale) -> str:
    ticks = "".join(f'<text x="{scale.place(tick)}%" y="75%">{tick:g}</text>' for tick in scale.ticks())
    return f'<div class="row"><span class="what"></span><svg aria-hidden="true">{ticks}</svg><span></span></div>'


def _line(row: Row, scale: _Scale) -> str:
    grid = "".join(_gridline(scale.place(tick), tick == 1) for tick in scale.ticks())
    low, middle, high = (scale.place(value) for value in (min(row.values), row.median, max(row.values)))
    kind = outcome(row)
    # Colour is not the only sign: a loss is a diamond, a win a circle, a tie a bar.
    shape = {
        "win": '<circle r="5"{}/>',
        "loss": '<path d="M0-6 6 0 0 6-6 0z"{}/>',
        "tie": '<rect x="-2" y="-6" width="4" height="12"{}/>',
    }
    mark = shape[kind].format(' class="quoted"' if row.quoted else ' fill="currentColor"')
    picture = (
        f'<svg role="img" aria-label="{escape(row.measured)}">{grid}<g class="{kind}">'
        f'<line x1="{low}%" x2="{high}%" y1="50%" y2="50%" stroke="currentColor" stroke-width="2.5"/>'
        f'<svg x="{middle}%" y="50%" overflow="visible">{mark}</svg></g></svg>'
    )
    numbers = _two_digits(row.median)
    if row.spread:
        numbers += f" ({_two_digits(min(row.values))} - {_two_digits(max(row.values))})"
    return (
        f'<div class="row"><span class="what">{escape(row.what)}: {escape(row.kind)} of '
        f"<b>{escape(row.peer)}</b></span>"
        f'{picture}<span class="number {kind}">{numbers}</span></div>'
    )


def _two_digits(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def _gridline(place: float, at_one: bool) -> str:
    pen = 'stroke="currentColor" stroke-width="1.4"' if at_one else 'stroke="var(--line)" stroke-width="0.6"'
    return f'<line x1="{place}%" x2="{place}%" y1="0" y2="100%" {pen}/>'


def _legend() -> str:
    return (
        "Blue circles are wins, grey bars are ties (less than 5 % apart), orange diamonds are losses; a hollow mark is "
        "a peer whose number was measured elsewhere and is only quoted."
    )


def _missed(found: Mapping[str, Sequence[Row]]) -> str:
    lines = [
        f"- {_title(name)}: {_cell(row.label)}: {row.measured}, wanted {row.target}"
        for name, rows in found.items()
        for row in rows
        if row.verdict == "MISSED"
    ]
    return "\n".join(["## Missed targets", "", *lines]) if lines else ""


def _section(name: str, entry: Mapping[str, Any], rows: Sequence[Row]) -> str:
    ratios = [row for row in rows if _ratio(row)]
    parts = [f"## {_title(name)} {{#{name}}}", _paragraphs(entry["about"])]
    if "failed" in entry:
        parts.append(f"**This benchmark broke:** `{entry['failed']}`")
    if ratios:
        parts.append(figure({name: ratios}))
    if rows:
        parts.append(_table(rows))
    parts += [_note(note) for note in entry["notes"]]
    parts.append(_run(entry))
    return "\n\n".join(parts)


def _table(rows: Sequence[Row]) -> str:
    lines = ["| what | median | range | target | |", "| --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        verdict = "**MISSED**" if row.verdict == "MISSED" else row.verdict
        cells = (row.label, row.measured, row.spread, row.target)
        lines.append(f"| {' | '.join(map(_cell, cells))} | {verdict} |")
    return "\n".join(lines)


def _note(note: str) -> str:
    """A sentence, and the table that may follow it as it was printed."""
    first, _, rest = note.partition("\n")
    sentence = _cell(first[:1].upper() + first[1:])
    return f"{sentence}:\n\n```text\n{rest}\n```" if rest else sentence + "."


def _run(entry: Mapping[str, Any]) -> str:
    machine = entry["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    busy = entry["load"][0] > machine["cores"] or entry["load"][-1] > machine["cores"]
    caution = " **The machine was busy with other work: all seconds here are too long.**" if busy else ""
    peak = f", at most {entry['peak_mib']:,} MiB of memory" if "peak_mib" in entry else ""
    return (
        f"*Run of {entry['date']}: {entry['seconds']:.0f} s{peak}, load {entry['load'][0]:g} before and "
        f"{entry['load'][-1]:g} after, on {machine['cores']} cores, {machine['cpu']}, Python {machine['python']}, "
        f"{versions}.*{caution}"
    )


def _paragraphs(text: str) -> str:
    """A docstring as Markdown: its lists keep their lines."""
    return text.replace("<", "&lt;")


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _ratio(row: Row) -> bool:
    return row.unit == RATIO


def _cell(text: str) -> str:
    for character in "\\|*_<[":
        text = text.replace(character, f"&#{ord(character)};")
    return text
