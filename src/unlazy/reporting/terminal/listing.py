"""The list of studies, in columns of plain text: a table of rich's takes longer than all the rest of `unlazy list`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from unlazy.lab.catalogue import Entry
from unlazy.words import plain

_HEADS = ("study", "topic", "claims", "question", "source")
_NARROW = 40
"""Letters for question and source together below which they stand under the study, not beside it."""


def studies(found: Sequence[Entry]) -> str:
    """The table of studies, as wide as the terminal; 120 columns where there is none."""
    columns = shutil.get_terminal_size((120, 24)).columns
    rows = [_HEADS, *((e.name, e.topic, str(len(e.claims)), e.question, e.source) for e in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = columns - sum(widths[:3]) - 2 * (len(widths) - 1)
    if room < _NARROW:
        return plain("\n".join(line for entry in found for line in _under(entry, columns)))
    widths[4] = min(widths[4], room // 3)
    widths[3] = min(widths[3], room - widths[4])
    lines = []
    for row in rows:
        cells = [textwrap.wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
        for pieces in zip_longest(*cells, fillvalue=""):
            lines.append("  ".join(p.ljust(w) for p, w in zip(pieces, widths, strict=True)).rstrip())
    return plain("\n".join(lines))


def _under(entry: Entry, columns: int) -> Iterator[str]:
    yield f"{entry.name} ({entry.topic}, {len(entry.claims)} claims)"
    for text in (entry.question, entry.source):
        yield from textwrap.wrap(text, max(columns, _NARROW), initial_indent="  ", subsequent_indent="  ")
