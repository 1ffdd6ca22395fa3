"""The report: one self-contained HTML file that needs no network."""

from __future__ import annotations

import html
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from unlazy.errors import InputError
from unlazy.lab.result import Run
from unlazy.lab.show import interval, number, verdict_word
from unlazy.plotting.style import svg

_VERSIONS = ("unlazy", "jax", "numpy", "scipy", "xarray")


def write_report(runs: Sequence[Run], file: Path, preset: str, broken: Mapping[str, str] | None = None) -> None:
    """Write the page: the table of verdicts and a section for every run; `broken` names studies that did not run."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = [_section(run) for run in runs]
    order = ("holds", "fails", "inconclusive", "untested")
    verdicts = sorted((v for run in runs for v in run.verdicts), key=lambda v: order.index(v.verdict))
    counts = Counter((v.verdict, verdict_word(v)) for v in verdicts)
    page = environment.get_template("report.html.j2").render(
        sections=sections,
        topics=list(dict.fromkeys(run.study.topic for run in runs)),
        counts=[(kind, word, count) for (kind, word), count in counts.items()],
        known=sum(1 for s in sections for c in s["claims"] if c["known"]),
        surprises=sum(1 for run in runs for v in run.verdicts if not v.as_documented),
        preset=preset,
        broken=broken or {},
        versions={"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seconds=sum(run.seconds for run in runs),
        cost=sum(run.cost for run in runs),
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"output {file} cannot be written: {error.strerror or error}") from None


def _section(run: Run) -> dict[str, Any]:
    study = run.study
    grids = list(run.grids.values())
    return {
        "name": study.name,
        "topic": study.topic,
        "question": study.question,
        "sources": study.sources,
        "figure": _drawing(run),
        "derived": any(part.derived is not None for part in run.parts.values()),
        "claims": [
            {
                "id": v.claim.id,
                "statement": v.claim.statement,
                "source": v.claim.source,
                "measured": number(v.measured),
                "interval": interval(v),
                "criterion": str(v.claim.criterion),
                "verdict": v.verdict,
                "word": verdict_word(v),
                "case": v.case,
                "reason": v.reason,
                "known": v.claim.known_negative or "",
                "theory": v.claim.theory is not None,
                "surprise": not v.as_documented,
            }
            for v in run.verdicts
        ],
        "parameters": [
            {
                "name": name,
                "label": parameter.label,
                "values": [_values(grid, name) for grid in grids],
            }
            for name, parameter in study.parameters().items()
        ],
        "parts": list(run.grids),
        "instances": sum(grid.size * grid.seeds for grid in grids),
        "seeds": " and ".join(f"{g.seeds} ({g.part})" if len(grids) > 1 else str(g.seeds) for g in grids),
        "cost": f"{run.cost:.1f}",
        "seconds": f"{run.seconds:.1f}",
        "computed": run.computed,
        "command": run.command,
    }


def _drawing(run: Run) -> str:
    """The figure as SVG, or why there is none: one figure must not take the page with it."""
    try:
        return svg(run.figure(), salt=run.study.name)
    except Exception as error:
        return html.escape(f"The figure could not be drawn: {type(error).__name__}: {error}")


def _values(grid: Any, name: str) -> str:
    for axis in grid.axes:
        if name in axis.names:
            others = [other for other in axis.names if other != name]
            return ", ".join(_number(v) for v in axis.column(name)) + (f" (with {', '.join(others)})" if others else "")
    value = grid.fixed[name]
    if not isinstance(value, tuple):
        return _number(value)
    if len(value) > 8:
        return f"{len(value)} values from {_number(min(value))} to {_number(max(value))}"
    return ", ".join(_number(v) for v in value)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
