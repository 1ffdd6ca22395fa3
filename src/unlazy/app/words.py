"""The explorer's words, as HTML: what a study asks, where the lines come from, how a simulation goes."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlazy.app.job import Job, duration
from unlazy.app.picture import in_short, size
from unlazy.app.server import OWN_STORE
from unlazy.app.setting import ExplorerSetting
from unlazy.app.theory import TheoryLines
from unlazy.checks import InputError
from unlazy.lab.claims import Claim
from unlazy.lab.running.events import Event
from unlazy.lab.running.store import default_path
from unlazy.lab.study import Study
from unlazy.words import listed, plain


def sources(study: type[Study]) -> str:
    """The question of a study and its sources."""
    listed = "".join(
        f"<li>{html.escape(s.short)}: {html.escape(s.title)}. <i>{html.escape(s.place)}</i></li>" for s in study.sources
    )
    return plain(
        f'<p class="unlazy-question">{html.escape(study.question)}</p>'
        f'<ul class="unlazy-sources unlazy-soft">{listed}</ul>'
    )


def what_you_see(setting: ExplorerSetting, drawn: Sequence[str], theory: TheoryLines, points: Any) -> str:
    """Two sentences under the panels: what is drawn against what, and what the study claims of it, with its source."""
    study, shown = setting.study, [d for d in (theory.dataset, points) if d is not None]
    if not drawn:
        return ""
    outputs = listed([in_short(study.outputs[name].label) for name in drawn])
    along = [
        str(dim)
        for dataset in shown
        for name in drawn
        if name in dataset
        for dim in dataset[name].dims
        if dim not in (setting.x, "seed") and dataset.sizes[dim] > 1
    ]
    family = listed([_called(study, dim) for dim in dict.fromkeys(along)]) if along else ""
    lines = theory.dataset is not None and any(name in theory.dataset for name in drawn)
    kinds = ["lines are the theory"] * lines + ["points are the simulation"] * (points is not None)
    first = (
        f"{outputs[:1].upper()}{outputs[1:]} against {_called(study, setting.x)}"
        f"{f', a curve for each {family}' if family else ''}: {' and '.join(kinds)}."
    )
    claim = _claim(setting, drawn)
    if claim is None:
        return plain(first)
    known = "; known not to hold here" if claim.known_negative is not None else ""
    return plain(f"{first} The study claims: {claim.statement.rstrip('.')} ({claim.source}{known}).")


def _called(study: type[Study], name: str) -> str:
    known = study.parameters().get(name)
    return in_short(known.label, 0) if known is not None else name.replace("_", " ")


def _claim(setting: ExplorerSetting, drawn: Sequence[str]) -> Claim | None:
    """The claim of this part to look at: one on what is drawn first, then one that holds, then one of a paper."""
    here = [claim for claim in setting.study.claims if setting.part in claim.parts]

    def rank(claim: Claim) -> tuple[bool, ...]:
        code = getattr(claim.number, "__code__", None)
        named = {str(c) for c in (*code.co_names, *code.co_consts)} if code is not None else set()
        return not named & set(drawn), claim.known_negative is not None, not claim.keys

    return min(here, key=rank, default=None)


def theory_note(setting: ExplorerSetting, theory: TheoryLines, points: Any) -> str:
    """What the figure shows: where its lines come from, whether there are points, and how to get them."""
    said = []
    study, drawn = setting.study, set(setting.outputs)
    predicted = drawn & set(theory.dataset.data_vars) if theory.dataset is not None else set()
    if not study.defines("predict"):
        said.append("This study has no theory without simulation: add simulated points to see it.")
    elif theory.stopped:
        said.append(
            f"The theory was stopped after {duration(theory.seconds)}, the most that it may take here: switch on 'slow "
            "theory' for a minute of it, or choose smaller sizes or fewer values."
        )
    elif theory.waits:
        said.append(
            f"The theory would take about {duration(theory.seconds)} here: switch on 'slow theory', or choose fewer "
            "values."
        )
    elif theory.dataset is None:
        said.append("The theory does not cover this setting: add simulated points to see it.")
    elif not predicted:
        said.append("The theory does not predict what is shown here: add simulated points, or show other outputs.")
    elif not theory.dense:
        said.append(
            f"The theory takes {theory.seconds:.1f} s here, so that its lines join the values of the axis and have no "
            "points between."
        )
    if points is None:
        count = setting.grid.instances
        said.append(f"Nothing is simulated of these points yet ({setting.grid.size} x {setting.seeds} seeds = "
                    f"{count} instances).")  # fmt: skip
    else:
        missing = points.attrs.get("missing", 0)
        said.append(f"Points are means over {setting.seeds} seeds" + (
            ", with 99% intervals." if setting.seeds > 1 else ", without an interval."))  # fmt: skip
        if missing:
            count = setting.grid.instances
            said.append(
                f"The store has {count - missing} of these {count} instances: hollow points have fewer seeds, "
                "and some points may be missing."
            )
    return " ".join(said)


def progress(event: Event | None, job: Job | None = None) -> str:
    """How a simulation goes."""
    if event is None:
        return _bar("Starting: compiles, and times one chunk …", None)
    if event.kind == "estimated":
        if not event.count:
            return _bar("All of it is in the store.", 1.0)
        return _bar(f"{event.count} instances, about {duration(event.seconds)}, {size(event.bytes)} of memory …", 0.0)
    if event.kind in ("begun", "advanced") and job is not None:
        return _bar(f"{job.done} of {job.total} instances", job.done / max(job.total, 1))
    if event.kind == "ended":
        return _bar("Done.", 1.0)
    if event.kind in ("waiting", "warned"):
        return _bar(without_paths(event.message), None)
    words = {"refused": "Not simulated: ", "failed": "The simulation failed: ", "cancelled": ""}[event.kind]
    return f'<p class="unlazy-wrong" role="alert">{html.escape(plain(words + without_paths(event.message)))}</p>'


def _bar(text: str, share: float | None) -> str:
    value = "" if share is None else f' value="{share:.3f}"'
    return (
        f'<div class="unlazy-progress" role="status"><progress max="1"{value}></progress>'
        f"<span>{html.escape(plain(text))}</span></div>"
    )


def wrong(message: str) -> str:
    """A message to a visitor, in which long values are cut."""
    short = re.sub(r"'([^']{80})[^']+'", r"'\1...'", plain(without_paths(message)))
    return f'<p class="unlazy-told">{html.escape(short if len(short) <= 800 else short[:800] + "...")}</p>'


_PATH = re.compile(r"(?<![\w/\\:.])(?:[A-Za-z]:)?(?:[/\\]+[^\s/\\:'\"<>]+)*[/\\]+(?=[^\s/\\:'\"<>])")


def without_paths(text: str) -> str:
    """A text in which files have their names and no folders: a page may be seen by others, or be shown to them."""
    for folder in {Path(os.environ.get(OWN_STORE) or default_path()).parent, Path.home(), Path.cwd()}:
        if folder != folder.parent:
            text = text.replace(f"{folder}{os.sep}", "")
    return _PATH.sub("", text)


def failure(error: Exception) -> str:
    """An exception of a study in one line; it is a refusal, or a limit of the theory."""
    text = str(error).splitlines()[0] if str(error) else ""
    if isinstance(error, InputError):
        return text
    return f"A number of this study cannot be computed at these parameters: {type(error).__name__}: {text}"
