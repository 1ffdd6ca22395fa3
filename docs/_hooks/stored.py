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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import platformdirs

import unlazy
from unlazy.checks import InputError
from unlazy.lab import registry
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
_RUNNING, _SEEN = _PACKAGE / "lab" / "running", {"dataset.py", "evidence.py", "result.py"}
_FEW = 4
"""Fewer figures than these are drawn sooner than other processes have started."""


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
    """By study the data of its section of the report, figure included; only studies whose quick results are whole.

    What was drawn before with the same code, of the same results, is read again; the rest is drawn in two processes.
    """
    with _opened(file) as store:
        held = {(c.study, c.fingerprint): (c.instances, c.bytes) for c in store.contents()}
    shipped = _checksum(pack.default_file())
    tasks = []
    for study in studies:
        stamp = held.get((study.name, fingerprint(study)))
        if stamp is not None or shipped:
            key = f"section {study.name} {fingerprint(study)} {stamp} {shipped}"
            tasks.append((study, key, code_of(Path(inspect.getfile(study)))))
    report = _Progress(len(tasks))
    found: dict[str, Any] = {}
    left = []
    for study, key, code in tasks:
        known, made = remembered(key, code)
        if known:
            found[study.name] = made
        else:
            left.append((study, key, code))
    with _workers(len(left)) as run:
        for number, ((study, key, code), made) in enumerate(
            zip(left, run(file, [s for s, _, _ in left]), strict=True), 1
        ):
            found[study.name] = remember(key, code, made)
            report(len(tasks) - len(left) + number)
    return {study.name: found[study.name] for study in studies if found.get(study.name) is not None}


@contextlib.contextmanager
def _workers(many: int) -> Iterator[Callable[[Path, Sequence[type[Study]]], Iterable[Any]]]:
    """What draws studies: this process for a few, or two others, which must be able to import the studies."""
    if many < _FEW:
        yield lambda file, studies: (draw(file, study) for study in studies)
        return
    # mkdocs takes the folder of its hooks off the path; the other processes import this file
    if (here := str(Path(__file__).parent)) not in sys.path:
        sys.path.append(here)
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), get_context("spawn")) as pool:
        yield lambda file, studies: pool.map(draw, [file] * len(studies), [study.name for study in studies])


def draw(file: Path, study: type[Study] | str) -> dict[str, Any] | None:
    """The section of one study; None if store and shipped results lack some of it."""
    with _opened(file) as store, _Shelf(store) as shelf:
        return _section(shelf, registry.find(study))


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
    known, made = remembered(key, code)
    return made if known else remember(key, code, make())


def remembered(key: str, code: str) -> tuple[bool, Any]:
    """Whether something is in the cache, and what."""
    try:
        return True, json.loads(_cache_file(key, code).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False, None


def remember(key: str, code: str, made: Any) -> Any:
    """Put something into the cache; what it is when it is read again."""
    file, text = _cache_file(key, code), json.dumps(made)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return json.loads(text)


def _cache_file(key: str, code: str) -> Path:
    name = hashlib.sha256(f"{code} {key}".encode()).hexdigest()
    return Path(platformdirs.user_cache_dir("unlazy")) / "docs" / f"{name}.json"


def code_of(start: Path, whole: bool = False) -> str:
    """The hash of `files_of` a file."""
    digest = hashlib.sha256()
    for file in sorted(files_of(start, whole)):
        digest.update(_content(file))
    return digest.hexdigest()


def files_of(start: Path, whole: bool = False) -> set[Path]:
    """A file and all modules of unlazy that it imports, directly or not; the lab's and the plotting are always in.

    How results are computed and kept is not seen, and left out; `whole`: for what computes them, it is in.
    """
    found: set[Path] = set()
    queue = [start, Path(__file__), *(_PACKAGE / "lab").rglob("*.py"), *(_PACKAGE / "plotting").rglob("*.py")]
    while queue:
        file = queue.pop()
        if file not in found and (whole or file.parent != _RUNNING or file.name in _SEEN):
            found.add(file)
            queue += _imported(file)
    return found


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
