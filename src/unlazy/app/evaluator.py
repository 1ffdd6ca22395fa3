"""Theory in processes of its own, which a deadline and a limit of memory end: a link may ask for anything."""

from __future__ import annotations

import queue
from typing import Any

from unlazy.app.setting import ExplorerSetting
from unlazy.app.theory import PATIENCE, FoundTheory, TheoryLines, request
from unlazy.checks import InputError
from unlazy.lab.running.child import Child

DEADLINE = 6.0
"""Seconds of the clock for a redrawing's theory."""
LONG_DEADLINE = 60.0
"""The same where the visitor asked for slow theory."""
MEMORY = 3 << 30
"""Bytes of address space of such a process; about a tenth is its libraries."""
_PROCESSES = 2
_STARTING = 30.0


class Evaluator:
    """A few processes that evaluate theory, each started when it is first needed."""

    def __init__(self, processes: int = _PROCESSES) -> None:
        self._idle: queue.LifoQueue[Child | None] = queue.LifoQueue()
        self._running: set[Child] = set()
        for _ in range(processes):
            self._idle.put(None)

    def lines(self, setting: ExplorerSetting, slow: bool = False, deadline: float | None = None) -> TheoryLines:
        """The theory's lines, as dense as `theory.found` has them; `waits` if they take longer than the deadline."""
        if not setting.study.defines("predict"):
            return TheoryLines(None, 0.0, True)
        allowed = deadline if deadline is not None else LONG_DEADLINE if slow else DEADLINE
        child = self._idle.get()
        try:
            if child is None or child.code is not None:
                child = self._start()
            child.send(request(setting, allowed if slow else PATIENCE))
            answer = child.hear(allowed)
        except BaseException:
            self._end(child)
            child = None
            raise
        finally:
            self._idle.put(child)
        if answer is None:
            self._end(child)
            return TheoryLines(None, allowed, False, waits=True, stopped=True)
        return _found(answer).lines(setting)

    def warm(self) -> None:
        """Start one of them before it is needed."""
        child = self._idle.get()
        try:
            child = child or self._start()
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """End the processes."""
        for child in list(self._running):
            self._end(child)

    def _start(self) -> Child:
        child = Child("unlazy.app.theory:serve", address_space=MEMORY, quiet=True)
        self._running.add(child)
        # The deadline is for theory; the libraries are loaded before it begins.
        if child.hear(_STARTING) is None:
            raise InputError("the process for theory did not start")
        return child

    def _end(self, child: Child | None) -> None:
        if child is not None:
            child.kill()
            child.finish()
            self._running.discard(child)


EVALUATOR = Evaluator()


def _found(answer: dict[str, Any]) -> FoundTheory:
    kind = answer.pop("kind")
    if kind == "refused":
        raise InputError(answer["message"])
    if kind == "failed":
        raise RuntimeError(answer["message"])
    return FoundTheory(**answer)
