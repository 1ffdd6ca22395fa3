"""The process that simulates for the explorer: it can be stopped at any time, and what it finished is stored.

It reads one line of JSON, the task, and writes lines of JSON: an estimate, then progress, then how it ended. It ends
with the process that started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from unlazy.app.setting import from_query
from unlazy.checks import InputError
from unlazy.lab import registry


class _Reports:
    """The laboratory's progress as lines of JSON."""

    def __init__(self, write: Any) -> None:
        self._write, self._done, self._total = write, 0, 0

    def begin(self, title: str, total: int) -> None:
        self._done, self._total = 0, total
        self._write(kind="progress", done=0, total=total)

    def advance(self, count: int) -> None:
        self._done += count
        self._write(kind="progress", done=self._done, total=self._total)

    def end(self) -> None:
        pass

    def warn(self, message: str) -> None:
        self._write(kind="warning", message=message)


def work(task: dict[str, Any], write: Any) -> None:
    """Estimate the task's cost and, if it is within the limit, simulate what the store lacks."""
    from unlazy.lab.running.estimate import estimate
    from unlazy.lab.running.laboratory import Laboratory

    own = registry.find(task["own"]) if task["own"] else None
    setting = from_query(task["query"], own)
    assert setting is not None
    study, grids = setting.study, {setting.part: setting.grid}
    with Laboratory(task["store"], None, task["memory"], _Reports(write)) as laboratory:
        costs = estimate(laboratory, study, grids)
        missing, seconds = sum(c.missing for c in costs), sum(c.seconds for c in costs)
        write(kind="estimate", missing=missing, seconds=seconds, bytes=max(c.bytes for c in costs))
        if seconds > task["limit"]:
            raise InputError(
                f"this would take about {duration(seconds)}, more than the limit of {duration(task['limit'])}: choose "
                "smaller sizes, fewer points or seeds, a higher limit, or run the command below in a terminal"
            )
        laboratory.simulate(study, grids)
    write(kind="done")


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 1:
        return "a second"
    for unit, size in (("hours", 5400.0), ("minutes", 90.0)):
        if seconds > size:
            return f"{seconds / (3600 if unit == 'hours' else 60):.0f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(3)


def main() -> None:
    # What studies print must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def write(**event: Any) -> None:
        answers.write(json.dumps(event) + "\n")

    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(task, write)
    except InputError as error:
        write(kind="refused", message=str(error))
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else ""
        write(kind="failed", message=f"{type(error).__name__}: {text}")


if __name__ == "__main__":
    main()
