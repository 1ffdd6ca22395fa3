"""A grid of 10,000 points under a small memory budget: does the memory stay bounded, and at what speed?

The study is cheap and its program wants to be wide: one instance holds some matrices of 96 x 96, and 1024 of them at
once would need far more than the budget. Every run is a process of its own. The baseline is the resident memory after
a tiny run of another size, which has loaded JAX, xarray and the compiler; the peak is sampled every 5 ms from there on
and so includes compilation, the 10,000 results and the store's work.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Benchmark, Row, command
from unlazy.lab import Output, Study, static, value

BUDGET_MIB = 32
LARGE_BUDGET_MIB = 4096
SIDE = 100
ROUNDS = 3


@dataclass(frozen=True)
class PowerIteration(Study):
    name = "power-iteration"
    topic = "benchmark"
    question = "What is the largest eigenvalue of noise plus a spike?"
    sources = ()
    precision = "float32"
    chunk_width = 1024

    size: int = static(96, "size", low=2)
    spike: float = value(1.0, "strength of the spike", low=0)
    noise: float = value(1.0, "strength of the noise", low=0)

    outputs = {"eigenvalue": Output("largest eigenvalue")}
    presets = {"quick": {"seeds": 1}}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.random import normal

        drawn = normal(key, (self.size, self.size))
        matrix = self.noise * (drawn + drawn.T) / (2 * self.size) ** 0.5
        matrix = matrix.at[0, 0].add(self.spike) @ matrix

        def step(_: int, vector: Any) -> Any:
            vector = matrix @ vector
            return vector / jnp.linalg.norm(vector)

        vector = jax.lax.fori_loop(0, 10, step, jnp.ones(self.size))
        return {"eigenvalue": vector @ matrix @ vector}


def memory() -> Benchmark:
    small, large = [], []
    for _ in range(ROUNDS):
        for budget, found in ((BUDGET_MIB, small), (LARGE_BUDGET_MIB, large)):
            found.append(json.loads(command(sys.executable, "-m", "benchmarks.memory", str(budget))()))
    return Benchmark(
        [
            Row(f"budget {BUDGET_MIB} MiB: peak over the baseline", [m["peak"] for m in small], "MiB"),
            Row(f"budget {LARGE_BUDGET_MIB} MiB: peak over the baseline", [m["peak"] for m in large], "MiB"),
            Row(f"budget {BUDGET_MIB} MiB: speed", [SIDE**2 / m["seconds"] for m in small], "instances/s"),
            Row(f"budget {LARGE_BUDGET_MIB} MiB: speed", [SIDE**2 / m["seconds"] for m in large], "instances/s"),
            Row(f"budget {BUDGET_MIB} MiB: time inside compiled calls", [100 * m["inside"] for m in small], "%"),
        ],
        ["the budget covers what a compiled call holds, not the compiler, the results or the store"],
    )


def _measure(budget_mib: int) -> dict[str, float]:
    import psutil

    _run(size=8, side=2, gib=budget_mib / 1024)
    process, done, peak = psutil.Process(), threading.Event(), [0]
    baseline = process.memory_info().rss

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    seconds, inside = _run(size=96, side=SIDE, gib=budget_mib / 1024)
    done.set()
    thread.join()
    return {"peak": (peak[0] - baseline) / 2**20, "seconds": seconds, "inside": inside}


def _run(size: int, side: int, gib: float) -> tuple[float, float]:
    """The seconds of a run over side x side points, and the share of them inside compiled calls."""
    from unlazy.lab.grid import preset_grids
    from unlazy.lab.running.laboratory import Laboratory

    axis = [float(i) for i in range(1, side + 1)]
    grids = preset_grids(PowerIteration, "quick", set={"size": size}, over={"spike": axis, "noise": axis})
    with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder) / "store", memory=gib) as lab:
        start = time.perf_counter()
        lab.run(PowerIteration, grids)
        seconds = time.perf_counter() - start
        return seconds, sum(contents.seconds for contents in lab.store.contents()) / seconds


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
