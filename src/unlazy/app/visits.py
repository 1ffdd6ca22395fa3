"""Who has the explorer's page open: how many may, and what ends when a visitor leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable

MOST_VISITS = 20
GRACE = 10.0
"""Seconds that a visitor may be away, as when the connection breaks, before what belongs to the visit ends."""


class Visits:
    """The open visits by the names that pages give them; a visit lasts until its last socket is closed for a while."""

    def __init__(self, ended: Callable[[str], None], most: int = MOST_VISITS, grace: float = GRACE) -> None:
        self._ended, self._most, self._grace = ended, most, grace
        self._sockets: dict[str, int] = {}
        self._lock = threading.Lock()

    def full(self, visit: str | None = None) -> bool:
        """Whether no further visit can begin; one that has begun may always come back."""
        with self._lock:
            return visit not in self._sockets and len(self._sockets) >= self._most

    def enter(self, visit: str) -> bool:
        """A socket of a visit opens; False if there are too many visits."""
        with self._lock:
            if visit not in self._sockets and len(self._sockets) >= self._most:
                return False
            self._sockets[visit] = self._sockets.get(visit, 0) + 1
            return True

    def leave(self, visit: str) -> None:
        """A socket of a visit closes."""
        with self._lock:
            self._sockets[visit] -= 1
        timer = threading.Timer(self._grace, self._end, (visit,))
        timer.daemon = True
        timer.start()

    def _end(self, visit: str) -> None:
        with self._lock:
            if self._sockets.get(visit, 1) > 0:
                return
            del self._sockets[visit]
        self._ended(visit)
