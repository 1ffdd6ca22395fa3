"""Run all benchmarks, or those named, and record what they find: `python -m benchmarks [NAME]...`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.record import NAMES


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Benchmarks against peers, one process each.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; all if none is named")
    parser.add_argument("--list", action="store_true", help="say which benchmarks there are, and run none")
    parser.add_argument("--show", action="store_true", help="print what is recorded, and run none")
    parser.add_argument("--record", type=Path, default=record.FILE, metavar="FILE", help="default: %(default)s")
    options = parser.parse_args(words)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        print(f"error: there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    known = record.load(options.record)
    selected = list(dict.fromkeys(options.names)) or list(NAMES)
    if options.list:
        for name in selected:
            seconds = f"{known[name]['seconds']:.0f} s" if name in known else "never run"
            print(f"{name:18}{seconds:>10}  {record.about(name).splitlines()[0]}")
        return 0
    if options.show:
        summary({name: known[name] for name in selected if name in known})
        return 0
    begin = time.perf_counter()
    for number, name in enumerate(selected, 1):
        last = f", {known[name]['seconds']:.0f} s last time" if name in known else ""
        print(f"[{number}/{len(selected)}] {name}{last}", file=sys.stderr, flush=True)
        known[name] = record.measure(name)
        record.save(name, known[name], options.record)
    measured = {name: known[name] for name in selected}
    summary(measured)
    print(f"{time.perf_counter() - begin:.0f} s in all, recorded in {options.record.name}")
    return int(any("failed" in entry for entry in measured.values()))


def summary(results: dict[str, dict[str, Any]]) -> None:
    """One table of all rows, the notes, and which targets were missed."""
    found = {name: record.rows(entry) for name, entry in results.items()}
    heads = ("benchmark", "what", "median", "min - max", "target", "")
    lines = [
        (name, row.label, row.measured, row.spread, row.target, row.verdict)
        for name, rows in found.items()
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(len(heads))]
    for line in (heads, tuple("-" * width for width in widths), *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for name, entry in results.items():
        for note in entry["notes"]:
            print(f"{name}: {note}")
    judged = [(f"{name}: {row.label}", row.verdict) for name, rows in found.items() for row in rows if row.verdict]
    missed = [what for what, verdict in judged if verdict == "MISSED"]
    print(f"\n{len(judged) - len(missed)} of {len(judged)} targets met")
    for what in missed:
        print(f"missed - {what}")
    for name, entry in results.items():
        if "failed" in entry:
            print(f"failed - {name}: {entry['failed']}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
