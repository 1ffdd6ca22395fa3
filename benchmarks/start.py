"""How long one waits before anything is computed: importing the package, the help, a prediction.

Every number is the wall time of a fresh process, so it contains the start of the interpreter itself, which is shown
beside it. The file cache is warm: one run of each is not counted. The best of the ten runs is the low end of the range.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.measure import Benchmark, Row, command, interleaved


def start() -> Benchmark:
    unlazy = str(Path(sys.executable).with_name("unlazy"))
    seconds = interleaved(
        {
            "python": command(sys.executable, "-c", "pass"),
            "import": command(sys.executable, "-c", "import unlazy"),
            "help": command(unlazy, "--help"),
            "predict": command(unlazy, "predict", "ridge-equivalent"),
        },
        rounds=10,
    )
    return Benchmark(
        [
            Row("the interpreter alone", seconds["python"], "s"),
            Row("python -c 'import unlazy'", seconds["import"], "s", at_most=0.5),
            Row("unlazy --help", seconds["help"], "s", at_most=0.7),
            Row("unlazy predict ridge-equivalent", seconds["predict"], "s"),
        ]
    )
