"""The gallery: a page per study, made from the study itself and from what a store holds of it."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from text import block, code, plain, prose, said, table

from unlazy.lab.claims import Claim
from unlazy.lab.grid import ParameterGrid, preset_grids
from unlazy.lab.sources import named
from unlazy.lab.study import Study
from unlazy.reporting.html.report import topic_title
from unlazy.words import number, shown

KINDS = {
    "static": "changes shapes or the program",
    "value": "a traced number",
    "path": "a vector that one instance evaluates at once",
}


def study_page(study: type[Study], stored: Mapping[str, Any] | None = None) -> str:
    """The page of a study; `stored` is its section of the report, or None if the store lacks some of it."""
    topic = topic_title(study.topic)
    parts = [
        f"---\ntitle: {study.name}\n---",
        f"# {study.name}",
        f'<p class="question">{said(study.question)}</p>',
        f"Theory: [{plain(topic)}](../theory/{study.topic}.md) · {plain(named(study.sources))}",
        *_result(study, stored),
        "## Claims",
        _counts(study, stored),
        *(f'<p class="negative">All claims. {said(note)}</p>' for note in study.notes()),
        *(_claim(claim, stored) for claim in study.claims),
        "## Run it",
        block(commands(study), "console"),
        "## Parameters",
        _parameters(study),
        *_outputs(study),
        "## Presets",
        _presets(study),
        *_notes(study),
        "## Sources",
        *(_source(source) for source in study.sources),
        "## Code",
        _code(study),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def commands(study: type[Study]) -> str:
    """The command lines that a reader may want to copy."""
    lines = [f"unlazy run {study.name}"]
    if study.defines("predict"):
        lines.insert(0, f"unlazy predict {study.name}")
    lines += [f"unlazy run {study.name} --preset {preset}" for preset in study.presets if preset != "quick"]
    lines += [f"unlazy run {study.name} --figure {study.name}.pdf", f"unlazy export {study.name} {study.name}.nc"]
    return "\n".join(lines)


def _result(study: type[Study], stored: Mapping[str, Any] | None) -> list[str]:
    if stored is None:
        return [
            f'!!! info "No results here"\n\n    Not in this build\'s store: `unlazy run {study.name}` makes the '
            "figure and judges the claims."
        ]
    return [
        f'<figure class="result">{stored["figure"]}</figure>',
        f'<p class="caption">Preset quick: {stored["instances"]} instances, seeds {plain(stored["seeds"])}; '
        f"the simulation took {plain(stored['cost'])} s when it was computed. {said(stored['caption'])}</p>",
    ]


def thumbnail(figure: str) -> str:
    """The largest piece of a figure as a file of its own, for the cards; empty if the figure could not be drawn."""
    pieces = re.findall(r"<svg[^>]*>.*?</svg>", figure, re.DOTALL)
    if not pieces:
        return ""
    _, (x, y, width, height), piece = max((area, box, piece) for area, box, piece in map(_sized, pieces))
    # A letter is defined where it is first used, which may be in another piece.
    shared = "".join(d for p in pieces if p != piece for d in re.findall(r"<defs>.*?</defs>", p, re.DOTALL))
    body = piece[piece.index(">") + 1 : -len("</svg>")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{x} {y} {width} {height}" width="{width}" height="{height}" '
        f'style="stroke-linejoin:round">{body}{shared}</svg>'
    )


def _sized(piece: str) -> tuple[float, tuple[float, ...], str]:
    found = re.search(r'viewBox="([^"]*)"', piece)
    box = tuple(float(number) for number in found[1].split()) if found else (0.0, 0.0, 0.0, 0.0)
    return box[2] * box[3], box, piece


def badge(kind: str, word: str) -> str:
    """A verdict as a coloured word."""
    return f'<span class="verdict {kind}">{plain(word)}</span>'


def _counts(study: type[Study], stored: Mapping[str, Any] | None) -> str:
    if stored is None:
        negatives = sum(claim.known_negative is not None for claim in study.claims)
        known = f", of which {negatives} known not to hold" if negatives else ""
        return f"{len(study.claims)} claims{known}."
    counts = Counter((claim["verdict"], claim["word"]) for claim in stored["claims"])
    return " ".join(badge(kind, f"{count} {word}") for (kind, word), count in counts.items())


def _claim(claim: Claim, stored: Mapping[str, Any] | None) -> str:
    judged = next((c for c in stored["claims"] if c["id"] == claim.id), None) if stored else None
    verdict = badge(judged["verdict"], judged["word"]) if judged else ""
    lines = [f"### {claim.id}", f"{verdict} {said(claim.statement)}".strip()]
    facts = [f"Criterion: {code(claim.criterion)}"]
    if judged:
        facts += measured(judged)
    facts.append(f"Source: {plain(claim.source)}")
    if claim.kind == "theory":
        facts.append("theory only, no simulation")
    lines.append(f'<p class="facts">{" · ".join(facts)}</p>')
    lines += [f'<p class="negative">{said(note)}</p>' for note in claim.notes]
    lines += [f'<p class="facts">{plain(line)}</p>' for line in judged["evidence"]] if judged else []
    return "\n\n".join(lines)


def measured(judged: Mapping[str, Any]) -> list[str]:
    """The measured number of a claim with its interval and worst case."""
    if judged["verdict"] == "untested":
        return [plain(judged["reason"])] if judged["reason"] else []
    interval = f" {plain(judged['interval'])}" if judged["interval"] else ""
    case = f" (worst case: {plain(judged['case'])})" if judged["case"] else ""
    chance = [f"Chance: {plain(judged['chance'])}"] if judged["chance"] else []
    return [f"Measured: {plain(judged['measured'])}{interval}{case}", *chance]


def _parameters(study: type[Study]) -> str:
    rows = []
    for name, parameter in study.parameters().items():
        default = _values(parameter.default) if parameter.kind == "path" else number(parameter.default, 6)
        paired = ", paired" if parameter.paired else ""
        kind = f'<span title="{KINDS[parameter.kind]}">{parameter.kind}</span>{paired}'
        rows.append([code(name), plain(parameter.label), plain(default), plain(parameter.allowed), kind])
    return table(("parameter", "meaning", "default", "allowed", "kind"), rows)


def _outputs(study: type[Study]) -> list[str]:
    rows = []
    for name, output in study.outputs.items():
        made = "theory only" if output.theory_only else f"theory for {output.predicts}" if output.predicts else ""
        rows.append([code(name), plain(output.label), plain(", ".join(output.dims)), plain(made)])
    return ["## Outputs", table(("output", "meaning", "dimensions", ""), rows)]


def _presets(study: type[Study]) -> str:
    rows = []
    for preset in study.presets:
        for part, grid in preset_grids(study, preset).items():
            rows.append([code(preset), plain(part), _axes(grid), str(grid.size), str(grid.seeds)])
    return table(("preset", "part", "what varies", "points", "seeds"), rows)


def _axes(grid: ParameterGrid) -> str:
    words = []
    for axis in grid.axes:
        values = [row[0] if len(row) == 1 else f"({_values(row)})" for row in axis.rows]
        words.append(f"{code(', '.join(axis.names))}: {plain(_values(values))}")
    for name, parameter in grid.study.parameters().items():
        if parameter.kind == "path":
            words.append(f"{code(name)}: {plain(_values(grid.fixed[name]))}")
    return "<br>".join(words)


def _values(values: Sequence[Any]) -> str:
    return shown(values, most=12, first=4, last=2)


def _notes(study: type[Study]) -> list[str]:
    written = study.__dict__.get("__doc__") or ""
    # A dataclass without a docstring gets its signature as one.
    if not written or written.startswith(f"{study.__name__}("):
        written = inspect.getmodule(study).__doc__ or ""
    return ["## Notes", prose(inspect.cleandoc(written))] if written.strip() else []


def _source(source: Any) -> str:
    reference = f"{source.authors.replace(' and ', '; ')} ({source.year}). {source.title}. {source.place}."
    return f"{plain(reference)}\n\n{block(source.bibtex, 'bibtex')}"


def _code(study: type[Study]) -> str:
    file = Path(inspect.getfile(study))
    shown = "/".join(file.parts[file.parts.index("unlazy") :]) if "unlazy" in file.parts else file.name
    return (
        f'<details class="code" data-search-exclude markdown="1">\n<summary>{plain(shown)}</summary>\n\n'
        f"{block(file.read_text(encoding='utf-8'), 'python')}\n\n</details>"
    )


def index(studies: Sequence[type[Study]], stored: Mapping[str, Mapping[str, Any]]) -> str:
    """The cards of all studies by topic."""
    claims = sum(len(study.claims) for study in studies)
    negatives = sum(claim.known_negative is not None for study in studies for claim in study.claims)
    parts = [
        f"{len(studies)} studies, {claims} claims, [{negatives} of them known not to hold](../negatives.md). "
        f"This build shows the stored results of {len(stored)} of {len(studies)} studies."
    ]
    for topic in dict.fromkeys(study.topic for study in studies):
        here = [study for study in studies if study.topic == topic]
        parts.append(f"## {topic_title(topic).capitalize()}")
        parts.append(f"{len(here)} studies, {sum(len(study.claims) for study in here)} claims.")
        cards = [_card(study, stored.get(study.name)) for study in here]
        parts.append('<div class="grid cards" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>")
    return "\n\n".join(parts)


def _card(study: type[Study], stored: Mapping[str, Any] | None) -> str:
    picture = f"    [![figure of {study.name}]({study.name}.svg){{ .thumbnail loading=lazy }}]({study.name}.md)\n\n"
    drawn = stored is not None and "<svg" in stored["figure"]
    return (
        f"-   **[{study.name}]({study.name}.md)**\n\n{picture if drawn else ''}    {said(study.question)}\n\n"
        f"    {_counts(study, stored)}"
    )


def topic_list(studies: Sequence[type[Study]], topic: str) -> str:
    """The studies of a topic, for the end of its theory note."""
    rows = [f"- [{s.name}](../gallery/{s.name}.md): {said(s.question)}" for s in studies if s.topic == topic]
    return "## The studies of this topic\n\n" + "\n".join(rows)
