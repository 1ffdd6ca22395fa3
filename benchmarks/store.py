"""The same command again: everything comes from the store, nothing is simulated.

`work` is `Laboratory.run` in a process that has imported everything: opening the store, reading and checking rows, data
sets, theory, verdicts. `command` is the wall time of a fresh `unlazy run`: besides the work it has the start of the
interpreter, all imports, the fingerprint of the study's code and the printing. A stored run need not import JAX.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Benchmark, Row, command, interleaved

STUDIES = ("ridge-equivalent", "lazy-vs-feature")


def store() -> Benchmark:
    from unlazy.lab.grid import preset_grids
    from unlazy.lab.registry import find
    from unlazy.lab.running.laboratory import Laboratory

    unlazy = str(Path(sys.executable).with_name("unlazy"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store"

        def work(name: str, first: bool = False) -> None:
            study = find(name)
            with Laboratory(file) as lab:
                computed = lab.run(study, preset_grids(study, "quick")).computed
            if computed and not first:
                raise RuntimeError(f"{name} computed {computed} instances again: was its code edited meanwhile?")

        for name in STUDIES:
            work(name, first=True)
        calls = {}
        for name in STUDIES:
            calls[name, "work"] = lambda name=name: work(name)
            calls[name, "command"] = command(unlazy, "run", name, "--store", str(file))
        seconds = interleaved(calls, rounds=7)
        loaded = command(
            sys.executable,
            "-c",
            f"import sys, unlazy; unlazy.run('lazy-vs-feature', store={str(file)!r}); print('jax' in sys.modules)",
        )()
    rows = []
    for name in STUDIES:
        rows.append(Row(f"{name} quick again: work", seconds[name, "work"], "s", at_most=1))
        rows.append(Row(f"{name} quick again: command, with imports", seconds[name, "command"], "s"))
    return Benchmark(rows, [f"a stored run of the traced study imports JAX: {'yes' if 'True' in loaded else 'no'}"])
