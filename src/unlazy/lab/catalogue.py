"""The catalogue: what `unlazy list` says of each study of the package, without importing any.

`index.json` beside the studies has it, one line for each; `make index` writes it from the studies themselves. An entry
counts as long as the files are the same from which it was made; a study without such an entry is imported, so that a
missing or old index costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unlazy.checks import write_at_once
from unlazy.lab import registry
from unlazy.lab.sources import FILE as REFERENCES
from unlazy.lab.sources import named
from unlazy.lab.study import Study

INDEX = "index.json"


class Entry(NamedTuple):
    """A study in the catalogue; `source` names all its sources, and of claims there are id, statement and source."""

    name: str
    topic: str
    question: str
    source: str
    claims: list[dict[str, str]]


def entries(topics: list[str] | None = None) -> list[Entry]:
    """The studies of the package, or those of the selected topics."""
    index, digests = _read(registry.folder() / INDEX), _digests()
    chosen = registry.names_of(topics)
    return [_known(index.get(name), digests[name]) or _entry(registry.find(name)) for name in chosen]


def write() -> Path:
    """Write the index anew, from all studies."""
    file = registry.folder() / INDEX
    write_at_once(made(), file)
    return file


def made() -> str:
    """What the index should be: read and compared by a test, written by `write`."""
    lines = []
    for name, digest in _digests().items():
        found = {"made_from": digest, **_entry(registry.find(name))._asdict()}
        lines.append(f"{json.dumps(name)}: {json.dumps(found)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _known(found: Any, digest: str) -> Entry | None:
    if not isinstance(found, dict) or found.pop("made_from", "") != digest:
        return None
    try:
        return Entry(**found)
    except TypeError:
        return None


def _entry(study: type[Study]) -> Entry:
    claims = [{"id": c.id, "statement": c.statement, "source": c.source} for c in study.claims]
    return Entry(study.name, study.topic, study.question, named(study.sources), claims)


def _digests() -> dict[str, str]:
    """By study a hash of its file, of what the studies of its topic share, and of the references."""
    top, shared = registry.folder(), dict[str, bytes]()
    found = {}
    for name, module in registry.names().items():
        topic, stem = module.split(".")[-2:]
        if topic not in shared:
            shared[topic] = _hash(_content(top / topic / "shared.py"), _content(top / REFERENCES))
        found[name] = _hash(shared[topic], _content(top / topic / f"{stem}.py")).hex()
    return found


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _hash(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).digest()
