"""Interleaved timing with spread, and the rows that all benchmarks record.

Other work on the machine comes in bursts, so contestants take turns: a burst then hits all of them, and the ratio of
two times of the same round is steadier than either. Every number is a median over rounds or data sets, shown with its
range. A ratio is always the peer's number over unlazy's, so that more than 1 is in favour of unlazy.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

RATIO = "x"
"""The unit of ratios to a peer, and of nothing else."""
BEST = "the best other"


class Row(NamedTuple):
    """One measured quantity: its repeated values, and the target for their median if there is one."""

    what: str
    values: Sequence[float]
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    peer: str = ""
    """Whose number is divided by unlazy's, in a ratio."""
    kind: str = ""
    """What is divided: time, error, or another number of which less is better."""
    quoted: bool = False
    """Whether the peer's number was published or measured elsewhere."""
    detail: bool = False
    """Whether the figure of all benchmarks leaves the ratio out; its own benchmark's shows it."""

    @property
    def label(self) -> str:
        return f"{self.what}: {self.kind} of {self.peer} / unlazy" if self.peer else self.what

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        return f"{_short(min(self.values))} - {_short(max(self.values))}" if len(self.values) > 1 else ""

    @property
    def measured(self) -> str:
        return f"{_short(self.median)} {self.unit}".rstrip()

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:.3g} {self.unit}".rstrip()
        return "" if self.at_least is None else f">= {self.at_least:.3g} {self.unit}".rstrip()

    @property
    def verdict(self) -> str:
        """'met' or 'MISSED', empty where there is no target."""
        if self.at_most is None and self.at_least is None:
            return ""
        low = self.at_least is None or self.median >= self.at_least
        high = self.at_most is None or self.median <= self.at_most
        return "met" if low and high else "MISSED"


class Benchmark(NamedTuple):
    """The rows of one benchmark and the sentences without which they would mislead."""

    rows: list[Row]
    notes: list[str] = []


def against(
    peer: str,
    what: str,
    values: Sequence[float],
    *,
    kind: str = "time",
    at_least: float | None = None,
    quoted: bool = False,
    detail: bool = False,
) -> Row:
    """The ratio of a peer's numbers to unlazy's, of which less is better: above 1 unlazy is faster, or nearer."""
    return Row(what, list(values), RATIO, None, at_least, peer, kind, quoted, detail)


def against_all(
    what: str,
    ours: str,
    errors: Mapping[str, Sequence[float]],
    seconds: Mapping[str, Sequence[float]] | None = None,
    *,
    kind: str = "error",
) -> list[Row]:
    """Errors and times of all contestants over those of `ours`, on each data set.

    The best other is that of least error on the test rows of each data set, a choice that nobody could have made
    before; its time is that of the same one.
    """
    others = [name for name in errors if name != ours]
    sets = range(len(errors[ours]))
    best = [min(others, key=lambda name: math.inf if math.isnan(errors[name][i]) else errors[name][i]) for i in sets]
    rows = []
    for divided, found in ((kind, errors), ("time", seconds or {})):
        if not found:
            continue
        values = [found[name][i] / found[ours][i] for i, name in enumerate(best)]
        rows.append(against(BEST, what, values, kind=divided))
        for name in others:
            known = [a / b for a, b in zip(found[name], found[ours], strict=True) if not math.isnan(a)]
            if known:
                rows.append(against(name, what, known, kind=divided, detail=True))
    return rows


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int = 7,
    *,
    warm: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each call, `rounds` times in turn, after one call of each that is not counted."""
    if warm:
        for call in calls.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            seconds[name].append(clock() - start)
    return seconds


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The ratio of two contestants in each round."""
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def command(*words: str) -> Callable[[], str]:
    """A call that runs a command to its end and returns what it printed."""

    def call() -> str:
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        # 1 is a run whose verdicts differ from the documented ones: still a whole run.
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr}")
        return done.stdout

    return call


def _short(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"
