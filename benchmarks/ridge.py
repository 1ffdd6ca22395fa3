"""A learning curve of ridge regression at d = 200, theory and simulation: seven sample sizes, three seeds each.

CPU seconds after start (imports done, one warm-up), BLAS on one thread. The number of the nearest peer, StatPhys-ML,
was measured elsewhere, on one thread: it is quoted, not measured here. Timed are the theory alone, the study's two
methods called directly, and the same through the laboratory with an empty store each time (plan, thread pool, store,
data sets, the theory's denser line, verdicts).

The surface is the theory at 100 sizes x 100 ridges for 100,000 distinct eigenvalues with their own prior, against the
same code summing over all eigenvalues; of that every tenth size and every tenth ridge is timed, times 100. The harmful
example is the theory at n = 1280, d = n^3 of `unlazy.functions.spectra.harmful_example`, spectrum made anew each time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Benchmark, Row, against, interleaved, ratios

SIZES = (50, 80, 125, 200, 320, 500, 800)
SEEDS = 3
PEER_SECONDS = 13.9
SURFACE_SHARE = 10


def ridge() -> Benchmark:
    import dataclasses

    import numpy as np
    from threadpoolctl import threadpool_limits

    from unlazy.lab.grid import preset_grids
    from unlazy.lab.running.laboratory import Laboratory
    from unlazy.studies.regression.ridge_equivalent import RidgeEquivalentStudy

    study = RidgeEquivalentStudy(d=200, spectrum_exponent=0.0, prior_exponent=0.0, ridge=(0.1,))
    at_sizes = [dataclasses.replace(study, n=n) for n in SIZES]
    fixed = {name: value for name, value in study.as_dict().items() if name != "n"}
    sizes = preset_grids(RidgeEquivalentStudy, "quick", set=fixed, over={"n": SIZES}, seeds=SEEDS)["sizes"]
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
            lab.run(RidgeEquivalentStudy, grids)

    def both() -> None:
        theory()
        simulation()

    surface, plain_share = surfaces()

    with threadpool_limits(1, user_api="blas"):
        fast, plain = surface(), plain_share()
        agreement = max(
            np.max(np.abs(a[::SURFACE_SHARE, ::SURFACE_SHARE] / b - 1)) for a, b in zip(fast, plain, strict=True)
        )
        large = interleaved({"surface": surface, "harmful": harmful}, rounds=5, clock=time.process_time)
        once = interleaved({"plain": plain_share}, rounds=1, warm=False, clock=time.process_time)["plain"]
        deviation = np.max(np.abs(np.divide(simulation(), theory()) - 1))
        calls = {"theory": theory, "curve": both, "laboratory": laboratory}
        seconds = interleaved(calls, rounds=9, clock=time.process_time)
    gain = ratios([once[0] * SURFACE_SHARE**2] * len(large["surface"]), large["surface"])
    peer = ratios([PEER_SECONDS] * 9, seconds["curve"])
    return Benchmark(
        [
            Row("theory alone", seconds["theory"], "CPU s"),
            Row("theory and simulation", seconds["curve"], "CPU s", at_most=0.1),
            Row("the same by the laboratory, empty store", seconds["laboratory"], "CPU s"),
            Row("surface of 100 sizes x 100 ridges, 1e5 eigenvalues", large["surface"], "CPU s", at_most=0.2),
            against("the sum over all eigenvalues", "the same surface", gain),
            Row("harmful example, n = 1280, d = n^3", [1e3 * t for t in large["harmful"]], "CPU ms"),
            against("StatPhys-ML", "theory and simulation", peer, quoted=True),
        ],
        [
            f"mean of {SEEDS} seeds against theory: at most {deviation:.1%} apart over {len(SIZES)} sizes",
            f"StatPhys-ML's {PEER_SECONDS} s were measured on another machine",
            f"surface: {SURFACE_SHARE**2} of its 10,000 pairs were summed over all eigenvalues; {agreement:.0e} apart",
        ],
    )


def harmful() -> None:
    from unlazy.functions.spectra import harmful_example
    from unlazy.theory.regression.ridge import ridge_equivalent

    spectrum, prior, multiplicities = harmful_example(1280)
    ridge_equivalent(spectrum, prior, 1280, 0.0, 1.0, multiplicities=multiplicities)


def surfaces() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The whole surface, and its share without compression: each pair alone is too little to be compressed."""
    import numpy as np

    from unlazy.functions.spectra import power_law
    from unlazy.theory.regression.ridge import ridge_equivalent

    d = 100_000
    spectrum, prior = power_law(d, 1.5), power_law(d, 0.5)
    n, ridge = np.geomspace(10, d / 10, 100), np.geomspace(1e-8, 1, 100)

    def surface() -> Any:
        return ridge_equivalent(spectrum, prior, n[:, None], ridge, 0.1)

    def plain_share() -> Any:
        pairs = [(size, level) for size in n[::SURFACE_SHARE] for level in ridge[::SURFACE_SHARE]]
        found = [ridge_equivalent(spectrum, prior, *pair, 0.1) for pair in pairs]
        return np.reshape(np.transpose(found), (-1, 100 // SURFACE_SHARE, 100 // SURFACE_SHARE))

    return surface, plain_share
