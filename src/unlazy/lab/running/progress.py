"""Progress on the terminal: chunks, instances per second, time left, and Ctrl-C. Quiet where there is no terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Progress(Protocol):
    """What a run tells while it works."""

    def begin(self, title: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...

    def end(self) -> None: ...

    def warn(self, message: str) -> None: ...


class Quiet:
    """Says nothing but warnings, which go to the `warnings` module."""

    def begin(self, title: str, total: int) -> None:
        pass

    def advance(self, count: int) -> None:
        pass

    def end(self) -> None:
        pass

    def warn(self, message: str) -> None:
        import warnings

        warnings.warn(message, stacklevel=3)


class Terminal:
    """A bar on standard error, if that is a terminal; warnings are printed in any case."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True)
        self._bar: Any = None
        self._task: Any = None

    def begin(self, title: str, total: int) -> None:
        if not self.console.is_terminal or total == 0:
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self.console,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=total, rate="starting")
        self._bar.start()

    def advance(self, count: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._task, count)
            speed = self._bar.tasks[0].finished_speed or self._bar.tasks[0].speed
            self._bar.update(self._task, rate=f"{speed:.3g} instances/s" if speed else "running")

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def warn(self, message: str) -> None:
        self.console.print(f"warning: {message}", markup=False, highlight=False, soft_wrap=True)


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
