"""What a child process does that simulates for another: for `reproduce`, or for the explorer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.arithmetic import WrongNumbers
from unlazy.lab.running.cost import costs
from unlazy.lab.running.events import Event
from unlazy.lab.running.execute import TooLarge, share_compilations
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.study import Study

SERVE = "unlazy.lab.running.worker:serve"


def request(study: type[Study], preset: str, **options: Any) -> dict[str, Any]:
    """What to ask a worker for: a preset of a study, or what `set`, `over`, `seeds` and `part` make of it.

    With `estimate` it tells what that would cost, else it simulates what the store lacks.
    """
    return {"study": registry.reference(study), "preset": preset, **options}


def serve(
    requests: Iterable[Mapping[str, Any]],
    tell: Callable[[dict], None],
    store: str | None,
    memory: float | None,
    threads: int | None = None,
) -> None:
    """Answer requests with events; the last one of each request is estimated or ended, or says why not."""
    share_compilations()
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads, user_api="blas")

    def say(event: Event) -> None:
        tell(event.plain())

    warnings.showwarning = lambda message, *_: say(Event("warned", message=str(message)))
    try:
        laboratory = Laboratory(store, memory=memory, progress=say)
    except InputError as error:
        say(Event("refused", message=str(error)))
        return
    with laboratory:
        say(Event("ready"))
        for asked in requests:
            try:
                say(_answer(laboratory, **asked))
            except WrongNumbers as error:
                say(Event("unfit", message=str(error)))
            except TooLarge as error:
                say(Event("oversized", message=str(error)))
            except InputError as error:
                say(Event("refused", message=str(error)))
            except Exception as error:
                say(Event("failed", message=f"{type(error).__name__}: {error}"))


def _answer(laboratory: Laboratory, study: str, preset: str, estimate: bool = False, **options: Any) -> Event:
    start, busy = time.perf_counter(), time.process_time()
    cls = registry.find(study)
    grids = preset_grids(cls, preset, **options)
    if estimate:
        found = costs(laboratory, cls, grids, measure=True)
        expected, most = sum(c.seconds for c in found), max(c.bytes for c in found)
        return Event("estimated", count=sum(c.missing for c in found), seconds=expected, bytes=most)
    _, computed = laboratory.simulate(cls, grids)
    busy = time.process_time() - busy
    return Event("ended", count=computed, seconds=time.perf_counter() - start, processor_seconds=busy)
