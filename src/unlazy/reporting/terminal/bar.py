"""What `unlazy run` shows while it works: a bar on standard error, if that is a terminal; warnings in any case."""

from __future__ import annotations

from typing import Any

from unlazy.lab.running.events import Event


class Bar:
    """Instances, their number per second, and the time left."""

    def __init__(self) -> None:
        from unlazy.reporting.terminal.show import open_console

        self.console = open_console(stderr=True)
        self._bar: Any = None

    def __call__(self, event: Event) -> None:
        if event.kind == "begun":
            self._begin(event)
        elif event.kind == "advanced" and self._bar is not None:
            (task,) = self._bar.tasks
            self._bar.advance(task.id, event.count)
            speed = task.finished_speed or task.speed
            self._bar.update(task.id, rate=f"{speed:.3g} instances/s" if speed else "running")
        elif event.kind == "waiting" and self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, rate="waits for another process")
        elif event.kind == "simulated" and self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif event.kind == "warned":
            self.console.print(f"warning: {event.message}", soft_wrap=True)

    def _begin(self, event: Event) -> None:
        if not self.console.is_terminal or event.count == 0:
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
        self._bar.add_task(event.study, total=event.count, rate="starting")
        self._bar.start()
