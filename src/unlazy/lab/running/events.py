"""What a run tells while it works, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Event:
    """What happened to a study.

    `kind` is estimated (`count` instances are missing and may take `seconds`), begun (`count` instances are missing),
    advanced (by `count`), waiting (for `count` that another process computes), simulated (`count` in all, also where
    that was cut short), warned. Of `reproduce`, and of a process that works for another, also ended (`count` were
    computed in `seconds`, and in `processor_seconds` of that process; `run` has the verdicts), oversized (it does not
    fit into its share of the memory), refused, failed or cancelled, and `message` says why.
    """

    kind: str
    study: str = ""
    count: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    bytes: int = 0
    message: str = ""
    run: Any = None

    def plain(self) -> dict[str, Any]:
        """The event for another process: what is not empty, without the run."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "run"}
        return {name: value for name, value in named.items() if value}


class OutOfTime(Exception):
    """The time that a run may take is used up; what was finished is stored."""


Listener = Callable[[Event], None]
"""Who is told; several threads may tell at once."""


def only_warn(event: Event) -> None:
    """The listener of a script: it hears nothing but warnings, from the `warnings` module."""
    if event.kind == "warned":
        warnings.warn(event.message, stacklevel=3)


@contextmanager
def heeding_interrupts() -> Iterator[Callable[[], None]]:
    """Ctrl-C as always, and a check that raises it again if it was lost.

    Python ignores what is raised in destructors and in the callbacks of its garbage collection, as JAX has one; some
    interrupts fall there while a program is compiled.
    """
    caught: list[int] = []

    def handle(number: int, frame: Any) -> None:
        caught.append(number)
        signal.default_int_handler(number, frame)

    def check() -> None:
        if caught:
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handle)
        try:
            yield check
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        yield check
