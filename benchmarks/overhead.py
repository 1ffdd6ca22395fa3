"""What the laboratory costs beyond the simulation itself, for studies of several seconds.

The bare computation is the same chunks without the laboratory, ready to run, in a plain thread pool of as many threads.
Against it stand `Laboratory.simulate` (plan, keys, store) and `Laboratory.run` (also data sets, theory and its denser
lines, verdicts), each with an empty store. Programs are compiled before the clock starts, and are the same for all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Benchmark, Row, interleaved, ratios

MEMORY_GIB = 2.0


def overhead() -> Benchmark:
    from unlazy.lab.grid import preset_grids
    from unlazy.lab.registry import find

    rows = []
    # Enough seeds for several seconds: the fixed cost of datasets and verdicts is about a tenth of a second.
    for name, seeds in (("lazy-vs-feature", 64), ("ridge-equivalent", 48)):
        study = find(name)
        grids = preset_grids(study, "quick", seeds=seeds)
        seconds = interleaved(
            {
                "bare": _bare_calls(study, grids),
                "simulate": _with_empty_store(lambda lab, s=study, g=grids: lab.simulate(s, g)),
                "run": _with_empty_store(lambda lab, s=study, g=grids: lab.run(s, g)),
            },
            rounds=3,
        )
        extra = {key: [100 * (r - 1) for r in ratios(seconds[key], seconds["bare"])] for key in ("simulate", "run")}
        rows += [
            Row(f"{name}: the bare calls", seconds["bare"], "s"),
            Row(f"{name}: simulate and store, beyond the bare calls", extra["simulate"], "%"),
            Row(f"{name}: the whole run, beyond the bare calls", extra["run"], "%", at_most=10),
            Row(f"{name}: the whole run, fastest against fastest", [_fastest(seconds)], "%"),
        ]
    return Benchmark(rows)


def _fastest(seconds: dict[str, list[float]]) -> float:
    """The least disturbed round of each: on a busy machine steadier than the median of the ratios."""
    return 100 * (min(seconds["run"]) / min(seconds["bare"]) - 1)


def _with_empty_store(work: Callable[[Any], Any]) -> Callable[[], Any]:
    from unlazy.lab.running.laboratory import Laboratory

    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder) / "store", memory=MEMORY_GIB) as lab:
            return work(lab)

    return call


def _chunks(study: Any, grids: Any) -> list[Any]:
    """All chunks of the grids, as the laboratory plans them for an empty store."""
    from unlazy.lab.running.fingerprint import fingerprint
    from unlazy.lab.running.plan import PointSeed, group_points

    code = fingerprint(study)
    chunks = []
    for group in (group for grid in grids.values() for group in group_points(grid, code)):
        instances = [PointSeed(p, s) for p in group.points for s in range(group.grid.seeds)]
        chunks += [group.chunk(instances[i : i + group.width]) for i in range(0, len(instances), group.width)]
    return chunks


def _bare_calls(study: Any, grids: Any) -> Callable[[], Any]:
    """The same chunks, ready to run, on the same number of threads."""
    from concurrent.futures import ThreadPoolExecutor

    from unlazy.lab.running.arithmetic import cores
    from unlazy.lab.running.execute import _threads_set, prepare

    tasks = [prepare(chunk, int(MEMORY_GIB * 2**30)) for chunk in _chunks(study, grids)]

    def call() -> Any:
        with _threads_set(study), ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(lambda task: task.run(), tasks))

    return call
