"""The store: one SQLite file with a row per (point, seed). Finished means committed.

Only the submitting process writes, one transaction per chunk; several processes may use one file at once. Arrays are
kept as bytes with dtype, shape and checksum; nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.running.arithmetic import made_wrong
from unlazy.words import brief, in_one_line

SCHEMA = 1
_APPLICATION = 0x756E6C7A
"""'unlz': SQLite's application id, by which a foreign database is known."""

_WAIT_SECONDS = 60
"""How long one process waits for another that writes."""

_TABLES = """
CREATE TABLE points (
    point BLOB PRIMARY KEY, study TEXT NOT NULL, fingerprint TEXT NOT NULL, parameters TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX points_by_study ON points (study, fingerprint);
CREATE TABLE results (
    point BLOB NOT NULL, seed INTEGER NOT NULL, seconds REAL NOT NULL, created REAL NOT NULL, versions TEXT NOT NULL,
    layout TEXT NOT NULL, data BLOB NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (point, seed)) WITHOUT ROWID;
"""


class Row(NamedTuple):
    """One finished instance."""

    point: bytes
    seed: int
    seconds: float
    arrays: Mapping[str, np.ndarray]
    versions: str
    """By what it was made, as JSON."""


class Contents(NamedTuple):
    """What a store holds of one study."""

    study: str
    fingerprint: str
    instances: int
    bytes: int
    seconds: float


def default_path() -> Path:
    """Where results are kept unless the user says otherwise: $UNLAZY_STORE, or the user's data directory."""
    if os.environ.get("UNLAZY_STORE"):
        return Path(os.environ["UNLAZY_STORE"])
    import platformdirs

    return Path(platformdirs.user_data_dir("unlazy")) / "results.sqlite"


class Store:
    """An open store. Errors of the file become one clear InputError that names it."""

    def __init__(self, path: str | os.PathLike | None = None, *, create: bool = True) -> None:
        if path is not None and not isinstance(path, str | os.PathLike):
            raise InputError(f"store must be a file name, got {brief(path)}")
        self.path = Path(path) if path is not None else default_path()
        try:
            if not create and not self.path.is_file():
                raise InputError(f"store {self.path} is no file; 'unlazy run' makes one")
            if not create and self.path.stat().st_size == 0:
                raise InputError(f"store {self.path} is an empty file; 'unlazy run' makes a store of it")
            if not self.path.parent.is_dir():
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connect(str(self.path))
            try:
                self._open()
            except sqlite3.OperationalError as error:
                # Where nothing can be written SQLite reads only what it is told that nobody changes.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY or self._has_log():
                    raise
                self._db.close()
                self._connect(f"{self.path.resolve().as_uri()}?immutable=1")
                self._check_owner()
        except (sqlite3.Error, OSError, ValueError) as error:
            if hasattr(self, "_db"):
                self._db.close()
            if isinstance(error, InputError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"store {self.path} cannot be used: {reason}") from None

    def _connect(self, name: str) -> None:
        self._db = sqlite3.connect(name, timeout=_WAIT_SECONDS, isolation_level=None, uri=name.startswith("file:"))
        # Damaged text becomes text with another checksum, a damaged row like any other.
        self._db.text_factory = lambda text: text.decode(errors="replace")

    def _has_log(self) -> bool:
        """Whether some of what was committed stands beside the file."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.is_file() and log.stat().st_size > 0

    def _check_owner(self) -> bool:
        """Refuse a file of another program or a later unlazy; returns whether it has no tables yet."""
        db = self._db
        # One transaction: between two readings another process could make the tables.
        db.execute("BEGIN")
        empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        application = db.execute("PRAGMA application_id").fetchone()[0]
        schema = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute("COMMIT")
        if application == _APPLICATION and schema > SCHEMA:
            raise InputError(
                f"store {self.path} has schema {schema}, newer than {SCHEMA} of this unlazy; update unlazy or choose "
                "another file with --store"
            )
        if not empty and application != _APPLICATION:
            raise InputError(f"store {self.path} is a database of another program; choose another file with --store")
        return empty

    def _open(self) -> None:
        db = self._db
        if self._check_owner():
            db.execute("BEGIN IMMEDIATE")
            # Another process may have made the tables while this one waited for the lock.
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _TABLES.strip().split(";\n"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id={_APPLICATION}")
                db.execute(f"PRAGMA user_version={SCHEMA}")
            db.execute("COMMIT")
        self._write_ahead()
        db.execute("PRAGMA synchronous=NORMAL")

    def _write_ahead(self) -> None:
        """Readers and the writer do not wait for each other. SQLite itself does not wait for this change of mode."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def points(self, study: str, fingerprint: str) -> set[bytes]:
        """The keys of all points of a study that were stored by this code."""
        found = self._query("SELECT point FROM points WHERE study = ? AND fingerprint = ?", (study, fingerprint))
        return {point for (point,) in found}

    def read(self, point: bytes, seeds: int) -> tuple[dict[int, Row], list[int]]:
        """The stored rows of a point below `seeds`, and the seeds whose rows are damaged."""
        rows, damaged = {}, []
        found = self._query(
            "SELECT seed, seconds, versions, layout, data, checksum FROM results WHERE point = ? AND seed < ?",
            (point, seeds),
        )
        for seed, seconds, versions, layout, data, checksum in found:
            try:
                arrays = _unpack(point, seed, layout, data, checksum)
            except ValueError:
                damaged.append(seed)
            else:
                rows[seed] = Row(point, seed, seconds, arrays, versions)
        return rows, damaged

    def discard(self, point: bytes, seeds: Iterable[int], before: float = math.inf) -> None:
        """Forget rows, so that they count as missing; not those that were written since `before`."""
        for seed in seeds:
            self._change("DELETE FROM results WHERE point = ? AND seed = ? AND created < ?", (point, seed, before))

    def write(self, study: str, fingerprint: str, points: Mapping[bytes, str], rows: Iterable[Row]) -> None:
        """Commit rows in one transaction. `points` maps the points' keys to their parameters as JSON."""
        now = time.time()
        packed = [(r.point, r.seed, r.seconds, now, r.versions, *_pack(r)) for r in rows]
        with self.changing() as db:
            db.executemany(
                "INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?)",
                [(key, study, fingerprint, text) for key, text in points.items()],
            )
            db.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)", packed)

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which waits for those of other processes: all of it happens or nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise InputError(f"store {self.path} cannot be written: {error}") from None

    def seconds_per_instance(self, study: str, fingerprint: str) -> dict[str, float]:
        """Measured seconds per instance by the parameters' JSON."""
        found = self._query(
            "SELECT parameters, avg(seconds) FROM points JOIN results USING (point) "
            "WHERE study = ? AND fingerprint = ? GROUP BY point",
            (study, fingerprint),
        )
        return dict(found)

    def contents(self) -> list[Contents]:
        """What the store holds, by study and fingerprint."""
        found = self._query(
            "SELECT study, fingerprint, count(*), sum(length(data)), sum(seconds) FROM points "
            "JOIN results USING (point) GROUP BY study, fingerprint ORDER BY study",
        )
        return [Contents(*row) for row in found]

    def damage(self) -> str:
        """What is wrong with the file, also in pages that nobody asked for; empty if nothing is."""
        (found,) = next(self._query("PRAGMA quick_check(1)"))
        return "" if found == "ok" else f"store {self.path} is damaged ({in_one_line(found)}); move it away"

    def made_by(self) -> dict[str, int]:
        """How many instances there are by the versions that made them."""
        return dict(self._query("SELECT versions, count(*) FROM results GROUP BY versions"))

    def prune(self, current: Iterable[tuple[str, str]]) -> int:
        """Delete the results of known studies that were computed by other code, and all that a refused jaxlib made;
        returns how many instances went.

        `current` lists (study, fingerprint); studies that it does not name, such as a user's own, are kept.
        """
        removed = sum(
            self._change("DELETE FROM results WHERE versions = ?", (versions,))
            for versions in self.made_by()
            if made_wrong(versions)
        )
        for study, fingerprint in current:
            stale = "SELECT point FROM points WHERE study = ? AND fingerprint != ?"
            removed += self._change(f"DELETE FROM results WHERE point IN ({stale})", (study, fingerprint))
            self._change("DELETE FROM points WHERE study = ? AND fingerprint != ?", (study, fingerprint))
        self._change("VACUUM")
        return removed

    def _query(self, sql: str, arguments: tuple = ()) -> Iterator[tuple]:
        try:
            yield from self._db.execute(sql, arguments)
        except sqlite3.Error as error:
            raise InputError(
                f"store {self.path} is damaged ({error}); move it away or choose another file with --store"
            ) from None

    def _change(self, sql: str, arguments: tuple = ()) -> int:
        try:
            return self._db.execute(sql, arguments).rowcount
        except sqlite3.Error as error:
            raise InputError(f"store {self.path} cannot be written: {error}") from None


def _pack(row: Row) -> tuple[str, bytes, bytes]:
    layout = json.dumps([(name, array.dtype.str, array.shape) for name, array in row.arrays.items()])
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in row.arrays.values())
    return layout, data, _checksum(row.point, row.seed, layout, data)


def _unpack(point: bytes, seed: int, layout: str, data: bytes, checksum: bytes) -> dict[str, np.ndarray]:
    whole = isinstance(layout, str) and isinstance(data, bytes)
    if not whole or _checksum(point, seed, layout, data) != checksum:
        raise ValueError("checksum differs")
    arrays, offset = {}, 0
    for name, dtype, shape in json.loads(layout):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, dtype, count, offset).reshape(shape)
        offset += arrays[name].nbytes
    return arrays


def _checksum(point: bytes, seed: int, layout: str, data: bytes) -> bytes:
    """Over the row's place too: a row that a damaged file shows elsewhere is damaged."""
    return hashlib.blake2b(point + f"{seed} {layout}".encode() + b"\0" + data, digest_size=16).digest()
