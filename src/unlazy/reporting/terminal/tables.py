"""The last pages of `unlazy reproduce`: the verdicts of many studies, and what they would cost."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unlazy.lab.claims import KINDS, STANDINGS, count
from unlazy.reporting.terminal.show import (
    SHORT_KINDS,
    clock,
    kind_cells,
    kinds_in_words,
    open_console,
    plain_table,
    verdict_row,
)
from unlazy.words import number

if TYPE_CHECKING:
    from unlazy.lab.running.confirm import Confirmation
    from unlazy.lab.running.cost import Outlook
    from unlazy.lab.running.reproduce import Outcome
    from unlazy.lab.running.result import Run

_SLOW_SECONDS = 15
_INTERVAL, _CHANCE, _CRITERION, _MEASURED = 108, 84, 76, 56
"""The widths from which the verdicts have these columns: folded into several lines they do not read; the report has
them all."""
_WORDS, _SHORT_WORDS = 80, 60
"""The widths from which the counts are a table with whole words, and with short ones."""


_STANDING_WORDS = {
    "as stated": "simulate what the source states",
    "departs": "depart from it and say how",
    "own": "are this project's own",
}


def verdicts(outcome: Outcome) -> None:
    """The verdicts of many studies by topic, then the counts, what differs, and the slow ones."""
    console = open_console()
    by_topic: dict[str, list[Run]] = {}
    for result in outcome.runs:
        by_topic.setdefault(result.study.topic, []).append(result)
    console.print(_claims(by_topic, console.width))
    console.print()
    _print_counts(by_topic, console)
    everything = [claim for cls in outcome.studies for claim in cls.claims]
    standing = Counter(claim.standing for claim in everything)
    console.print(
        f"\n{len(everything)} claims: " + ", ".join(f"{standing[each]} {_STANDING_WORDS[each]}" for each in STANDINGS)
    )
    surprises = [(r, v) for r in outcome.runs for v in r.verdicts if not v.as_documented]
    if surprises:
        console.print(Text("\nnot what the studies document:", "bold"))
    for result, verdict in surprises:
        reason = f" ({verdict.reason})" if verdict.reason else ""
        console.print(f"  {result.study.name} {verdict.claim.id}: {verdict.word}{reason}")
    if outcome.broken:
        console.print(Text("\ndid not run:", "bold"))
    for name, reason in outcome.broken.items():
        console.print(f"  {name}: {reason}")
    if outcome.unfinished:
        console.print(Text("\nthe time was used up before these were finished; the same command goes on:", "bold"))
        console.print("  " + ", ".join(outcome.unfinished))
    slow = sorted((r for r in outcome.runs if r.seconds > _SLOW_SECONDS), key=lambda r: -r.seconds)
    if slow:
        console.print("\nslowest: " + ", ".join(f"{r.study.name} {r.seconds:.0f} s" for r in slow[:8]))
    console.print(f"\n{len(outcome.studies)} studies in {clock(outcome.seconds)}")


def _claims(by_topic: dict[str, list[Run]], width: int) -> Table:
    columns = {
        "verdict": 0,
        "measured": _MEASURED,
        "99% interval": _INTERVAL,
        "criterion": _CRITERION,
        "chance": _CHANCE,
    }
    shown = [width >= least for least in columns.values()]
    table = plain_table("claim", *(name for name, least in columns.items() if width >= least))
    for column in table.columns[1:3]:
        column.no_wrap = True
    for topic, results in by_topic.items():
        table.add_row("")
        table.add_row(Text(topic, "bold underline"))
        for result in results:
            table.add_row(Text(result.study.name, "bold"))
            for verdict in result.verdicts:
                cells = [cell for cell, there in zip(verdict_row(verdict), shown, strict=True) if there]
                table.add_row(f"  {verdict.claim.id}", *cells)
    return table


def confirmation(found: Confirmation) -> None:
    """Every claim with its documented verdict and that on fresh seeds, and those that differ."""
    console = open_console()
    table = plain_table("claim", "documented", "fresh", "measured", "fresh", "criterion", "chance")
    study, pairs = None, found.pairs
    for pair in pairs:
        if pair.study is not study:
            table.add_row(Text(pair.study.name, "bold"))
            study = pair.study
        *_, criterion, chance = pair.main.cells
        fresh = Text("raised" if pair.fresh.broken else pair.fresh.verdict, "bold red" if pair.differs else "green")
        numbers = (number(pair.main.measured), number(pair.fresh.measured))
        table.add_row(f"  {pair.fresh.claim.id}", pair.documented, fresh, *numbers, criterion, chance)
    console.print(table)
    differing = [pair for pair in pairs if pair.differs]
    if differing:
        console.print(Text("\nnot the documented verdict on fresh seeds:", "bold"))
    for pair in differing:
        reason = f" ({pair.fresh.reason})" if pair.fresh.reason else ""
        console.print(
            f"  {pair.study.name} {pair.fresh.claim.id}: {pair.fresh.verdict}{reason}, chance {pair.main.cells[-1]}"
        )
    for name, reason in found.broken.items():
        console.print(f"{name} did not run: {reason}")
    if found.unfinished:
        console.print(f"unfinished: {', '.join(found.unfinished)}")
    console.print(
        f"\nstream {found.stream}: {len(differing)} of {len(pairs)} verdicts are not the documented ones; the measured "
        f"spreads let expect {number(found.expected, 2)}"
    )
    if found.unfinished or differing:
        console.print(f"'unlazy confirm --stream {found.stream}' goes on with this stream")


def _print_counts(by_topic: dict[str, list[Run]], console: Console) -> None:
    """How many verdicts of each kind a topic has: a table, or lines where there is no room for one."""
    counts = {topic: count(v for run in runs for v in run.verdicts) for topic, runs in by_topic.items()}
    studies = {topic: len(runs) for topic, runs in by_topic.items()}
    counts["all"], studies["all"] = sum(counts.values(), Counter()), sum(studies.values())
    if console.width < _SHORT_WORDS:
        for topic, found in counts.items():
            console.print(f"{topic}: " + ", ".join(kinds_in_words(found)))
        return
    table = plain_table("topic", "studies", *(KINDS if console.width >= _WORDS else SHORT_KINDS))
    table.padding = (0, 2 if console.width >= _WORDS else 1, 0, 0)
    for topic, found in counts.items():
        table.add_row(Text(topic, "bold" if topic == "all" else ""), str(studies[topic]), *kind_cells(found))
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)


def outlook(planned: Outlook) -> None:
    """The table of what a reproduction would cost."""
    table = plain_table("study", "instances", "missing", "programs", "memory", "core hours", "basis")
    for column in table.columns[1:-1]:
        column.justify = "right"
    topic = ""
    for c in planned.studies:
        if c.topic != topic:
            table.add_row(Text(c.topic, "bold underline"))
            topic = c.topic
        if c.error is not None:
            table.add_row(f"  {c.study}", "", "", "", "", "", Text(c.error, "red"))
            continue
        memory = Text(f"{c.bytes / 2**20:.3g} MiB" if c.bytes else "–", "red" if c.bytes > planned.budget else "")
        row = (
            str(c.instances),
            str(c.missing),
            str(c.programs or ""),
            memory,
            number(c.seconds / 3600),
            c.known_from,
        )
        table.add_row(f"  {c.study}", *row)
    console = open_console()
    console.print(table)
    known = [c for c in planned.studies if not math.isnan(c.seconds)]
    console.print(
        f"\n{len(planned.studies)} studies, preset {planned.preset}: {sum(c.missing for c in planned.studies)} of "
        f"{sum(c.instances for c in planned.studies)} instances missing, {sum(c.programs for c in planned.studies)} "
        f"programs to compile, about {number(planned.core_seconds / 3600)} core hours for {len(known)} of them"
    )
    console.print(
        "Core hours are rough, within a factor of several where they are not on record: sizes scale the stored seconds "
        "of the quick preset, compilation goes by the length of the programs. Memory is that of the largest instance."
    )
    for c in planned.too_large:
        console.print(
            f"{c.study} does not fit: an instance needs about {c.bytes / 2**30:.2g} GiB, the budget here is "
            f"{planned.budget / 2**30:.2g} GiB; workers with more memory, or --memory"
        )
