"""Who computes what: processes that share a store take a lease on instances before they compute them.

An owner is one run. It renews its leases while it lives; those that have run out, or whose owner's process has ended,
are anybody's. A lease saves work and nothing else: two owners of one instance store the same row.
"""

from __future__ import annotations

import os
import platform
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path

from unlazy.checks import InputError
from unlazy.lab.running.store import Store

LEASE_SECONDS = 60.0
_RENEWALS = 4
"""How often a lease is renewed before it would run out: a process may be slow, or wait for the store."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS owners (owner INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, "
    "expires REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS leases (point BLOB NOT NULL, seed INTEGER NOT NULL, owner INTEGER NOT NULL, "
    "PRIMARY KEY (point, seed)) WITHOUT ROWID",
)
"""Made with the first lease: a store from before there were any has none, and an older unlazy does not see them."""

Instance = tuple[bytes, int]
"""A point's key and a seed."""


class Answer(Enum):
    """What became of an instance that somebody wants to compute."""

    OURS = "nobody computed it yet, it is now ours"
    BUSY = "a living owner computes it, another or this one"
    STORED = "its row is there"


class Leases:
    """The leases of one run on the instances of a store, from the first to the end of the `with` block."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owner = secrets.randbits(63)
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Leases:
        self._renewing.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._renewing.join()
        # In a store that cannot be written any more they run out.
        with suppress(InputError), self._store.changing() as db:
            _forget(db, self._owner)

    def take(self, instances: Sequence[Instance]) -> list[Answer]:
        """Take what is neither stored nor taken by a living owner; the answers are in the order asked."""
        with self._store.changing() as db:
            for statement in _TABLES:
                db.execute(statement)
            db.execute(
                "INSERT INTO owners VALUES (?, ?, ?, ?) ON CONFLICT (owner) DO UPDATE SET expires = excluded.expires",
                (self._owner, _host(), os.getpid(), time.time() + LEASE_SECONDS),
            )
            for owner, host, pid, expires in db.execute("SELECT * FROM owners").fetchall():
                if expires < time.time() or (host == _host() and _has_ended(pid)):
                    _forget(db, owner)
            return [self._take_one(db, instance) for instance in instances]

    def _take_one(self, db: sqlite3.Connection, instance: Instance) -> Answer:
        if db.execute("SELECT 1 FROM results WHERE point = ? AND seed = ?", instance).fetchone():
            return Answer.STORED
        taken = db.execute("INSERT OR IGNORE INTO leases VALUES (?, ?, ?)", (*instance, self._owner)).rowcount
        return Answer.OURS if taken else Answer.BUSY

    def release(self, instances: Iterable[Instance]) -> None:
        """Give up what is stored now."""
        with self._store.changing() as db:
            db.executemany(
                "DELETE FROM leases WHERE point = ? AND seed = ? AND owner = ?", [(*i, self._owner) for i in instances]
            )

    def _renew(self) -> None:
        """The life of a thread with a connection of its own: the run's may be in use."""
        while not self._ended.wait(LEASE_SECONDS / _RENEWALS):
            with suppress(InputError), Store(self._store.path, create=False) as store, store.changing() as db:
                expires = time.time() + LEASE_SECONDS
                db.execute("UPDATE owners SET expires = ? WHERE owner = ?", (expires, self._owner))


def _forget(db: sqlite3.Connection, owner: int) -> None:
    db.execute("DELETE FROM leases WHERE owner = ?", (owner,))
    db.execute("DELETE FROM owners WHERE owner = ?", (owner,))


@cache
def _host() -> str:
    """Where the number of a process means that process: one boot of a machine, or a container that counts anew."""
    words = [platform.node()]
    with suppress(OSError):
        words += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(words)


def _has_ended(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
