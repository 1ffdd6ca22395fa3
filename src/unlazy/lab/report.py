"""The report: one self-contained HTML file that needs no network."""

from __future__ import annotations

import html
import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from unlazy.errors import InputError
from unlazy.lab.claims import Verdict
from unlazy.lab.result import Run
from unlazy.lab.show import interval, number, verdict_word
from unlazy.plotting.style import svg

_TITLES = {"in_context": "in-context learning", "signal_noise": "signal and noise"}
_KINDS = {
    "holds": "hold",
    "known": "fail, as documented",
    "fails": "fail, not documented",
    "inconclusive": "inconclusive",
    "untested": "untested",
}
_SHORT = {**_KINDS, "holds": "holds", "known": "fails (known)", "fails": "fails"}
_VERSIONS = ("unlazy", "jax", "numpy", "scipy", "xarray")


def write_report(
    runs: Sequence[Run],
    file: Path,
    preset: str,
    broken: Mapping[str, str] | None = None,
    drawn: Mapping[str, dict[str, Any]] | None = None,
) -> None:
    """Write the page: a summary, the verdicts by topic, a section for every run.

    `broken` names what did not run and why; `drawn` has sections by the name of the study that are made already.
    """
    import jinja2

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    order = list(dict.fromkeys(run.study.topic for run in runs))
    ready = drawn or {}
    sections = [
        ready.get(run.study.name) or section(run) for run in sorted(runs, key=lambda run: order.index(run.study.topic))
    ]
    topics = []
    for topic in order:
        inside = [s for s in sections if s["topic"] == topic]
        about = next(_about(run) for run in runs if run.study.topic == topic)
        topics.append(
            {"topic": topic, "title": topic_title(topic), "about": about, "sections": inside, "counts": _sum(inside)}
        )
    counts = _sum(sections)
    page = environment.get_template("report.html.j2").render(
        css=(folder / "report.css").read_text(encoding="utf-8"),
        script=(folder / "report.js").read_text(encoding="utf-8"),
        sections=sections,
        topics=topics,
        kinds=_KINDS,
        short=_SHORT,
        counts=counts,
        total=counts.total(),
        surprises=sum(claim["surprise"] for s in sections for claim in s["claims"]),
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


def _sum(sections: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return sum((s["counts"] for s in sections), Counter())


def _about(run: Run) -> str:
    """The topic in a sentence: the docstring of its folder; a study of the user's own has none."""
    package = sys.modules.get(run.study.__module__.rpartition(".")[0])
    return (package.__doc__ or "").strip().split("\n\n")[0] if package is not None else ""


def topic_title(topic: str) -> str:
    """A topic in words: "signal_noise" is "signal and noise"."""
    return _TITLES.get(topic, topic.replace("_", " "))


def section(run: Run) -> dict[str, Any]:
    """What a page shows of a run: texts, not escaped, and the figure as HTML; the report and the gallery share it."""
    study = run.study
    grids = list(run.grids.values())
    return {
        "name": study.name,
        "topic": study.topic,
        "title": topic_title(study.topic),
        "question": study.question,
        "sources": study.sources,
        "figure": _drawing(run),
        "counts": Counter(_kind(v) for v in run.verdicts),
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
                "kind": _kind(v),
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


def _kind(verdict: Verdict) -> str:
    """The verdict, with failures that the study documents apart."""
    return "known" if verdict.verdict == "fails" and verdict.claim.known_negative is not None else verdict.verdict


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
