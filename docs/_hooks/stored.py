"""What a store, or the shipped results, hold of the studies: looked at and not changed; the site simulates nothing."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import platformdirs

import unlazy
from unlazy.checks import InputError
from unlazy.lab.grid import Grids, preset_grids
from unlazy.lab.running import pack
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.run import command_line
from unlazy.lab.running.store import Store, default_path
from unlazy.lab.study import Study
from unlazy.reporting.html.report import section

PRESET = "quick"
_PACKAGE = Path(unlazy.__file__).parent


class Incomplete(Exception):
    """The store lacks results of the grids."""


class _Untouched(Store):
    def discard(self, point: bytes, seeds: Iterable[int]) -> None:
        """Damaged rows count as missing, and stay."""

    def write(self, *_: Any) -> None:
        raise AssertionError("the site must not write results")


class _Shelf(Laboratory):
    def simulate(self, study: type[Study], grids: Grids) -> tuple[dict[str, Any], int]:
        """What is stored or shipped, whole; where something is missing it is not computed."""
        collectors, _ = self.load(study, grids)
        for collector in collectors.values():
            pack.fill(collector)
            if collector.missing.any():
                raise Incomplete(study.name)
        return collectors, 0


def store_file() -> Path:
    """The store that the site shows: $UNLAZY_DOCS_STORE, or the user's."""
    return Path(os.environ.get("UNLAZY_DOCS_STORE") or default_path())


def sections(studies: Sequence[type[Study]], file: Path) -> dict[str, dict[str, Any]]:
    """By study the data of its section of the report, figure included; only studies whose quick results are whole."""
    found = {}
    with _opened(file) as store, _Shelf(store) as shelf:
        held = {(c.study, c.fingerprint): tuple(c) for c in store.contents()}
        report = _Progress(len(studies))
        for number, study in enumerate(studies, 1):
            report(number)
            stamp = held.get((study.name, fingerprint(study))), _checksum(pack.default_file())
            code = code_of(Path(inspect.getfile(study)))
            made = cached(f"section {study.name} {stamp}", code, partial(_section, shelf, study))
            if made is not None:
                found[study.name] = made
    return found


def _opened(file: Path) -> Store:
    """The store, or an empty one in memory where there is none."""
    try:
        return _Untouched(file, create=False)
    except InputError:
        return _Untouched(":memory:")


@cache
def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


class _Progress:
    """A line on stderr every few seconds, if it takes that long: a first build with a full store draws for minutes."""

    def __init__(self, total: int, seconds: float = 5.0) -> None:
        self.total, self.seconds, self.last = total, seconds, time.monotonic()

    def __call__(self, number: int) -> None:
        if time.monotonic() - self.last >= self.seconds:
            self.last = time.monotonic()
            print(f"gallery: {number} of {self.total}", file=sys.stderr, flush=True)


def _section(shelf: Laboratory, study: type[Study]) -> dict[str, Any] | None:
    try:
        run = shelf.run(study, preset_grids(study, PRESET), command_line(study, PRESET, None, None, None))
    except Incomplete:
        return None
    # The sources are asked of the study itself; all else is text and numbers.
    return {name: value for name, value in section(run).items() if name != "sources"}


def cached(key: str, code: str, make: Callable[[], Any]) -> Any:
    """`make()`, or what it gave before for the same key and the same code."""
    name = hashlib.sha256(f"{code} {key}".encode()).hexdigest()
    file = Path(platformdirs.user_cache_dir("unlazy")) / "docs" / f"{name}.json"
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        pass
    made = make()
    # What is read from the cache must be what was made: both go through JSON.
    text = json.dumps(made)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return json.loads(text)


def code_of(start: Path) -> str:
    """The hash of a file and of all modules of unlazy that it imports, directly or not; the lab's are always in."""
    found: set[Path] = set()
    queue = [start, Path(__file__), *(_PACKAGE / "lab").rglob("*.py"), *(_PACKAGE / "plotting").rglob("*.py")]
    while queue:
        file = queue.pop()
        if file not in found:
            found.add(file)
            queue += _imported(file)
    digest = hashlib.sha256()
    for file in sorted(found):
        digest.update(_content(file))
    return digest.hexdigest()


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _imported(file: Path) -> tuple[Path, ...]:
    names = set()
    for node in ast.walk(ast.parse(_content(file))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = [_PACKAGE.joinpath(*name.split(".")[1:]) for name in names if name.split(".")[0] == "unlazy"]
    candidates = [c for path in paths for c in (path.with_suffix(".py"), path / "__init__.py")]
    return tuple(sorted(c for c in candidates if c.is_file()))
