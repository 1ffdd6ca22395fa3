"""A learning curve of ridge regression at d = 200, theory and simulation: seven sample sizes, three seeds each.

CPU seconds after start (imports done, one warm-up), BLAS on one thread. The number of the nearest peer, StatPhys-ML,
was measured elsewhere, on one thread: it is quoted, not measured here. Timed are the theory alone, the study's two
methods called directly, and the same through the laboratory with an empty store each time (plan, thread pool, store,
data sets, the theory's denser line, verdicts).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.measure import Benchmark, Row, interleaved, ratios

SIZES = (50, 80, 125, 200, 320, 500, 800)
SEEDS = 3
PEER_SECONDS = 13.9


def ridge() -> Benchmark:
    import dataclasses

    import numpy as np
    from threadpoolctl import threadpool_limits

    from unlazy.lab.grid import preset_grids
    from unlazy.lab.laboratory import Laboratory
    from unlazy.studies.regression.ridge_equivalent import RidgeEquivalent

    study = RidgeEquivalent(d=200, spectrum_exponent=0.0, prior_exponent=0.0, ridge=(0.1,))
    at_sizes = [dataclasses.replace(study, n=n) for n in SIZES]
    fixed = {name: value for name, value in study.as_dict().items() if name != "n"}
    sizes = preset_grids(RidgeEquivalent, "quick", set=fixed, over={"n": SIZES}, seeds=SEEDS)["sizes"]
    grids = {"sizes": dataclasses.replace(sizes, axes=tuple(a for a in sizes.axes if a.dim == "n"))}

    def theory() -> list[float]:
        return [float(s.predict()["risk"][0]) for s in at_sizes]

    def simulation() -> list[float]:
        return [
            float(np.mean([s.simulate(np.random.default_rng([s.n, seed]))["risk"][0] for seed in range(SEEDS)]))
            for s in at_sizes
        ]

    def laboratory() -> None:
        with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder) / "store") as lab:
            lab.run(RidgeEquivalent, grids)

    def both() -> None:
        theory()
        simulation()

    with threadpool_limits(1, user_api="blas"):
        deviation = np.max(np.abs(np.divide(simulation(), theory()) - 1))
        calls = {"theory": theory, "curve": both, "laboratory": laboratory}
        seconds = interleaved(calls, rounds=9, clock=time.process_time)
    peer = ratios([PEER_SECONDS] * 9, seconds["curve"])
    return Benchmark(
        [
            Row("theory alone", seconds["theory"], "CPU s"),
            Row("theory and simulation", seconds["curve"], "CPU s", at_most=0.1),
            Row("the same by the laboratory, empty store", seconds["laboratory"], "CPU s"),
            Row(f"StatPhys-ML ({PEER_SECONDS} s, measured elsewhere) / unlazy", peer, "x"),
        ],
        [f"mean of {SEEDS} seeds against theory: at most {deviation:.1%} apart over {len(SIZES)} sizes"],
    )
