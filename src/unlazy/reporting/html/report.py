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

from unlazy.checks import write_at_once
from unlazy.lab import registry
from unlazy.lab.claims import KINDS, STANDINGS
from unlazy.lab.running.evidence import told
from unlazy.lab.running.result import Run
from unlazy.plotting.style import svg
from unlazy.reporting.html.formulas import marked
from unlazy.words import number, plain

_TITLES = {"in_context": "in-context learning", "signal_noise": "signal and noise"}
_WORDS = {
    "holds": "hold",
    "fails (known)": "fail, as documented",
    "fragile": "as documented, but fragile",
    "untested": "untested",
    "inconclusive": "inconclusive",
    "differs": "differ from what is documented",
}
_MARKS = {kind: "known" if kind == "fails (known)" else kind for kind in KINDS}
"""The kinds of verdicts as the page's classes and addresses name them."""
_VERSIONS = ("unlazy", "jax", "jaxlib", "numpy", "scipy", "xarray")


def write_report(
    runs: Sequence[Run],
    file: Path,
    preset: str,
    broken: Mapping[str, str] | None = None,
    drawn: Mapping[str, dict[str, Any]] | None = None,
    seconds: float | None = None,
) -> None:
    """Write the page: a summary, the verdicts by topic, a section for every run.

    `broken` names what did not run and why; `drawn` has sections by the name of the study that are made already;
    `seconds` is what the whole took.
    """
    import jinja2
    import markupsafe

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        # Nothing that a user wrote turns the direction of the page's text.
        finalize=lambda text: plain(text) if isinstance(text, str) else text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["formulas"] = lambda text: markupsafe.Markup(marked(plain(text)))
    broken, ready = broken or {}, drawn or {}
    known = registry.topic_of()
    lost = {name: known.get(name, "other") for name in broken}
    order = list(dict.fromkeys([*(run.study.topic for run in runs), *lost.values()]))
    sections = [
        ready.get(run.study.name) or section(run) for run in sorted(runs, key=lambda run: order.index(run.study.topic))
    ]
    topics = []
    for topic in order:
        inside = [s for s in sections if s["topic"] == topic]
        missing = {name: broken[name] for name in broken if lost[name] == topic}
        about = next((_about(run) for run in runs if run.study.topic == topic), "")
        topics.append(
            {
                "topic": topic,
                "title": topic_title(topic),
                "about": about,
                "sections": inside,
                "broken": missing,
                "counts": _sum(inside),
            }
        )
    counts = _sum(sections)
    page = environment.get_template("report.html.j2").render(
        css=(folder / "report.css").read_text(encoding="utf-8"),
        script=(folder / "report.js").read_text(encoding="utf-8"),
        sections=sections,
        topics=topics,
        kinds={_MARKS[kind]: _WORDS[kind] for kind in KINDS},
        short={_MARKS[kind]: kind for kind in KINDS},
        counts=counts,
        standings={each: sum(c["standing"] == each for s in sections for c in s["claims"]) for each in STANDINGS},
        total=counts.total(),
        preset=preset,
        broken=broken,
        versions={"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seconds=seconds,
        cost=sum(run.cost for run in runs),
        diverged={s["name"]: s["diverged"] for s in sections if s["diverged"]},
    )
    write_at_once(page, file)


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
    figure, caption = _drawing(run)
    return {
        "name": study.name,
        "topic": study.topic,
        "title": topic_title(study.topic),
        "question": study.question,
        "sources": study.sources,
        "figure": figure,
        "caption": caption,
        "notes": study.notes(),
        "counts": Counter(_MARKS[v.kind] for v in run.verdicts),
        "claims": [
            {
                "id": v.claim.id,
                "statement": v.claim.statement,
                "source": v.claim.source,
                "measured": number(v.measured),
                "interval": v.interval,
                "criterion": str(v.claim.criterion),
                "verdict": v.verdict,
                "kind": _MARKS[v.kind],
                "word": v.word,
                "case": v.case,
                "reason": v.reason,
                "chance": v.cells[-1],
                "standing": v.claim.standing,
                "notes": v.claim.notes,
                "evidence": told(study, v.claim),
                "theory": v.claim.kind == "theory",
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
        "instances": sum(grid.instances for grid in grids),
        "seeds": " and ".join(f"{g.seeds} ({g.part})" if len(grids) > 1 else str(g.seeds) for g in grids),
        "cost": f"{run.cost:.1f}",
        "seconds": f"{run.seconds:.1f}",
        "diverged": run.divergence,
        "computed": run.computed,
        "command": run.command,
    }


def _drawing(run: Run) -> tuple[str, str]:
    """The figure as SVG, or why there is none, and its caption: one figure must not take the page with it."""
    try:
        drawn = run.drawn(apart=True)
        left_out = f" Not shown: {'; '.join(drawn.left_out)}." if drawn.left_out else ""
        return svg(*drawn.rows, salt=run.study.name), drawn.caption + left_out
    except Exception as error:
        return html.escape(f"The figure could not be drawn: {type(error).__name__}: {error}"), ""


def _values(grid: Any, name: str) -> str:
    for axis in grid.axes:
        if name in axis.names:
            others = [other for other in axis.names if other != name]
            return ", ".join(number(v, 6) for v in axis.column(name)) + (
                f" (with {', '.join(others)})" if others else ""
            )
    value = grid.fixed[name]
    if not isinstance(value, tuple):
        return number(value, 6)
    if len(value) > 8:
        return f"{len(value)} values from {number(min(value), 6)} to {number(max(value), 6)}"
    return ", ".join(number(v, 6) for v in value)
