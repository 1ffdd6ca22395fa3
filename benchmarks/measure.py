"""Interleaved timing with spread, and the rows of the one table that all benchmarks print.

Other work on the machine comes in bursts, so contestants take turns: a burst then hits all of them, and the ratio of
two times of the same round is steadier than either. Every number is a median over rounds, shown with its range.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One measured quantity: its repeated values, and the target for their median if there is one."""

    what: str
    values: Sequence[float]
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        return f"{_short(min(self.values))} - {_short(max(self.values))}" if len(self.values) > 1 else ""

    @property
    def measured(self) -> str:
        return f"{_short(self.median)} {self.unit}"

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g} {self.unit}"
        return "" if self.at_least is None else f">= {self.at_least:g} {self.unit}"

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
