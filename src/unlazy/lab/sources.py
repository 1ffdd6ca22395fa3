"""The papers and talks behind studies: read from `references.bib` beside them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from unlazy.checks import InputError, suggest

FILE = "references.bib"
_PLACES = {"article": "journal", "inproceedings": "booktitle"}
_DETAILS = ("volume", "number", "pages", "note")


@dataclass(frozen=True)
class Source:
    """A paper or talk."""

    key: str
    authors: str
    year: int
    title: str
    venue: str
    kind: str = "article"
    volume: str = ""
    number: str = ""
    pages: str = ""
    note: str = ""

    @property
    def short(self) -> str:
        """'Bartlett et al. 2020'."""
        names = [name.split(",")[0].strip() for name in self.authors.split(" and ")]
        head = names[0] if len(names) == 1 else " & ".join(names) if len(names) == 2 else f"{names[0]} et al."
        return f"{head} {self.year}"

    @property
    def place(self) -> str:
        """'The Annals of Statistics 50(2), 949-986': where it stands, for people."""
        issue = self.volume + (f"({self.number})" if self.number else "")
        where = ", ".join(filter(None, (f"{self.venue} {issue}".strip(), self.pages.replace("--", "-"))))
        return "; ".join(filter(None, (where, self.note)))

    @property
    def bibtex(self) -> str:
        details = {name: getattr(self, name) for name in _DETAILS}
        fields = {
            "author": self.authors,
            "title": self.title,
            _PLACES.get(self.kind, "howpublished"): self.venue,
            **{name: text for name, text in details.items() if text},
            "year": self.year,
        }
        lines = ",\n".join(f"  {name} = {{{text}}}" for name, text in fields.items())
        return f"@{self.kind}{{{self.key},\n{lines}\n}}"


def named(sources: Iterable[Source]) -> str:
    """Sources in a few words: 'Bartlett et al. 2020; Tsigler & Bartlett 2023'."""
    return "; ".join(source.short for source in sources)


def cite(*keys: str) -> tuple[Source, ...]:
    """Sources by their keys in `references.bib`, which stands in the folder of the calling file or in one above it."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    start = Path(frame.f_back.f_globals["__file__"]).resolve()
    files = [folder / FILE for folder in start.parents if (folder / FILE).is_file()]
    if not files:
        raise InputError(f"there is no {FILE} beside {start.name} or in a folder above it")
    known = references(files[0])
    for key in keys:
        if key not in known:
            raise InputError(f"{files[0].name} has no source {key!r}{suggest(key, known)}")
    return tuple(known[key] for key in keys)


@cache
def references(file: Path) -> dict[str, Source]:
    """The entries of a BibTeX file whose fields stand in braces, one to a line."""
    found: dict[str, Source] = {}
    for entry in re.finditer(r"^@(\w+)\{([^,\s]+),\n(.*?)^\}", file.read_text(encoding="utf-8"), re.M | re.S):
        kind, key, body = entry.groups()
        fields = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", body, re.M))
        lacking = [name for name in ("author", "title", "year") if name not in fields]
        if lacking:
            raise InputError(f"{file.name}: entry {key} lacks {lacking[0]}")
        if key in found:
            raise InputError(f"{file.name}: entry {key} stands there twice")
        venue = fields.get(_PLACES.get(kind, "howpublished"), "")
        details = {name: fields[name] for name in _DETAILS if name in fields}
        found[key] = Source(key, fields["author"], int(fields["year"]), fields["title"], venue, kind, **details)
    return found
