"""Run all benchmarks, or those named, and print one table: `python -m benchmarks [NAME]...`."""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module

from benchmarks.measure import Benchmark

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
    "diffusion",
    "mean_field",
)


def main(selected: list[str]) -> None:
    unknown = [name for name in selected if name not in NAMES]
    if unknown:
        sys.exit(f"error: there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    begin = time.perf_counter()
    results = {}
    for name in selected or NAMES:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        results[name] = getattr(import_module(f"benchmarks.{name}"), name)()
    _print(results)
    print(f"\n{time.perf_counter() - begin:.0f} s in all, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    missed = [f"{name}: {row.what}" for name, found in results.items() for row in found.rows if row.verdict == "MISSED"]
    targets = sum(bool(row.verdict) for found in results.values() for row in found.rows)
    print(f"{targets - len(missed)} of {targets} targets met" + "".join(f"\nmissed - {what}" for what in missed))


def _print(results: dict[str, Benchmark]) -> None:
    heads = ("benchmark", "what", "median", "min - max", "target", "")
    lines = [
        (name, row.what, row.measured, row.spread, row.target, row.verdict)
        for name, found in results.items()
        for row in found.rows
    ]
    widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(len(heads))]
    for line in (heads, tuple("-" * width for width in widths), *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for name, found in results.items():
        for note in found.notes:
            print(f"{name}: {note}")


if __name__ == "__main__":
    main(sys.argv[1:])
