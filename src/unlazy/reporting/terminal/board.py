"""What `unlazy reproduce` shows while it runs: a table of topics on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from unlazy.lab.claims import KINDS, count
from unlazy.lab.running.events import Event
from unlazy.lab.study import Study
from unlazy.reporting.terminal.show import SHORT_KINDS, clock, kind_cells, kinds_in_words, open_console, summary
from unlazy.words import in_one_line

_WIDE, _NARROW = 79, 66
"""Below these widths the headings are short, and the table gives way to its last line."""
_LEAST_SCROLL = 4
"""Lines that are left for what is finished."""
_JUDGED_SECONDS = 1.0
"""What a study takes of which all results are stored: its claims are judged and its figure is drawn."""
_MOST_WAITED = 0.9
"""A study none of whose instances is finished counts as done up to this part at most."""


class Silent:
    """Says nothing but warnings."""

    def __init__(self, studies: Sequence[type[Study]] = ()) -> None:
        self.studies = {study.name: study for study in studies}

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, event: Event) -> None:
        if event.kind == "warned":
            self.say(f"warning: {event.message}", "yellow")

    def say(self, line: str, style: str = "") -> None:
        """What is more than progress goes to standard error, if it has a style."""
        print(in_one_line(line), file=sys.stderr if style else sys.stdout, flush=True)


class ProgressLines(Silent):
    """A line for every study that is done."""

    def __init__(self, studies: Sequence[type[Study]]) -> None:
        super().__init__(studies)
        self._number = 0

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if event.kind == "oversized":
            self.say(f"{event.study} waits until it has all of the memory: {event.message}", "yellow")
        if event.kind not in ("ended", "failed"):
            return
        self._number += 1
        place = f"[{self._number}/{len(self.studies)}]"
        if event.kind == "ended":
            self.say(f"{place} {summary(event.run)}")
        else:
            self.say(f"{place} {event.study} did not run: {event.message}", "red")


class _Topic:
    def __init__(self) -> None:
        self.total = self.done = self.broken = 0
        self.counts: Counter[str] = Counter()


class Board(ProgressLines):
    """The table of topics, the studies that run now and the time left, below the lines of those that are done."""

    def __init__(self, studies: Sequence[type[Study]], console: Console) -> None:
        super().__init__(studies)
        self.console = console
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        for study in studies:
            self._topics.setdefault(study.topic, _Topic()).total += 1
        self._running: dict[str, tuple[float, int, int]] = {}
        self._expected = dict.fromkeys(self.studies, _JUDGED_SECONDS)
        self._all_expected = sum(self._expected.values())
        self._start = time.monotonic()
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Board:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def say(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style), soft_wrap=True)

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._note(event)
        if event.kind == "ended" and not event.run.as_documented:
            # Beside the lines of the others it stands out.
            self._number += 1
            self.say(f"[{self._number}/{len(self.studies)}] {summary(event.run)}", "yellow")
        else:
            super().__call__(event)

    def _note(self, event: Event) -> None:
        if event.kind == "estimated":
            self._all_expected += event.seconds - self._expected[event.study]
            self._expected[event.study] = event.seconds
        elif event.kind == "begun":
            self._running[event.study] = (time.monotonic(), 0, event.count)
        elif event.kind == "advanced":
            begun, done, total = self._running[event.study]
            self._running[event.study] = (begun, done + event.count, total)
        elif event.kind in ("oversized", "ended", "failed"):
            self._running.pop(event.study, None)
        if event.kind in ("ended", "failed"):
            self._expected.pop(event.study, None)
            topic = self._topics[self.studies[event.study].topic]
            topic.done += 1
            if event.run is None:
                topic.broken += 1
            else:
                topic.counts += count(event.run.verdicts)

    def _render(self) -> RenderableType:
        with self._lock:
            width, height = self.console.size
            running = sorted(self._running.items(), key=lambda item: item[1][0])
            room = height - _LEAST_SCROLL - 2
            small = width < _NARROW or len(self._topics) + 3 + min(len(running), 2) > room
            above = Text(self._counts()) if small else self._table(width)
            room -= 2 if small else len(self._topics) + 3
            shown = running[: max(1, room)]
            more = f", {len(running) - len(shown)} more running" if len(shown) < len(running) else ""
            return Group("", above, self._bars(shown, width), Text(self._times() + more, "dim"))

    def _counts(self) -> str:
        """The last line of the table alone, in words."""
        every = self._all()
        lost = [f"{every.broken} did not run"] if every.broken else []
        return ", ".join([f"{every.done}/{every.total} studies", *kinds_in_words(every.counts), *lost])

    def _all(self) -> _Topic:
        every = _Topic()
        for topic in self._topics.values():
            every.total += topic.total
            every.done += topic.done
            every.broken += topic.broken
            every.counts += topic.counts
        return every

    def _table(self, width: int) -> Table:
        every = self._all()
        wide = width >= _WIDE + (10 if every.broken else 0)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2 if wide else 1, 0, 0))
        table.add_column("topic", no_wrap=True)
        headings = ["done", *(KINDS if wide else SHORT_KINDS), *(["not run"] if every.broken else [])]
        for name in headings:
            table.add_column(name, justify="right", no_wrap=True)
        for name, topic in (*self._topics.items(), ("all", every)):
            style = "" if topic.done == topic.total else "dim" if topic.done == 0 else "bold"
            lost = [Text(str(topic.broken or ""), "bold red")] if every.broken else []
            table.add_row(Text(name, style), f"{topic.done}/{topic.total}", *kind_cells(topic.counts), *lost)
        return table

    def _bars(self, running: list[tuple[str, tuple[float, int, int]]], width: int) -> Table:
        bars = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        bars.add_column(no_wrap=True)
        if width >= _NARROW:
            bars.add_column(width=min(30, width - 50))
        bars.add_column(justify="right", no_wrap=True)
        bars.add_column(justify="right", no_wrap=True)
        for study, (begun, done, total) in running:
            bar = [ProgressBar(total, done)] if width >= _NARROW else []
            bars.add_row(study, *bar, f"{done}/{total}", clock(time.monotonic() - begun))
        return bars

    def _times(self) -> str:
        elapsed = time.monotonic() - self._start
        left = self._seconds_left(elapsed)
        return f"elapsed {clock(elapsed)}" + ("" if left is None else f", about {clock(left)} left")

    def _seconds_left(self, elapsed: float) -> float | None:
        """From what was expected and how the finished part compares with that; None until something is finished.

        Of a study that runs the part of its instances that is done counts, and as long as none is, its time. It takes
        no less than these instances tell: the last ones run alone.
        """
        if not self._expected:
            return None
        now, rest, alone = time.monotonic(), sum(self._expected.values()), 0.0
        for name, (begun, done, total) in self._running.items():
            expected = self._expected.get(name, 0.0)
            rest -= expected * done / total if done else min(now - begun, _MOST_WAITED * expected)
            alone = max(alone, (now - begun) * (total - done) / done) if done else alone
        achieved = self._all_expected - rest
        return None if achieved < 0.02 * self._all_expected else max(alone, rest * elapsed / achieved)


def watching(studies: Sequence[type[Study]], quiet: bool) -> Silent:
    """The right way to watch: nothing for a program that reads the result, the board on a terminal, else lines."""
    if quiet:
        return Silent(studies)
    console = open_console()
    return Board(studies, console) if console.is_terminal and not console.is_dumb_terminal else ProgressLines(studies)
