"""A method that takes longer than it may is broken off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfTimeError(BaseException):
    """No `Exception`, of which a method may catch its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` inside after so many seconds, as soon as Python runs again.

    That needs the alarm of Unix in the main thread, which no one else uses; elsewhere nothing is broken off.
    """
    if not _has_alarm():
        yield
        return

    def stop(*_: Any) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _has_alarm() -> bool:
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
