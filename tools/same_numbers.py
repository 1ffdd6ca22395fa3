"""Whether a change of form left every number as it was: all quick presets, before and after.

    python tools/same_numbers.py record BEFORE          # on the code as it was
    python tools/same_numbers.py record AFTER           # on the code as it is
    python tools/same_numbers.py compare BEFORE AFTER [--renamed study=new-study]… [--renamed study/claim=new-claim]…

A record is a folder: `studies.json` has measured number, interval and verdict of every claim and a checksum of every
result, `<study>.npz` the results themselves. Hosted studies must agree in every bit, traced ones to 1e-10 of the
largest number of a result: another order of operations is allowed to a compiler. Only the public door is used, so that
both sides of a large change can be recorded. Exit code 1: something differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

TRACED_TOLERANCE = 1e-10


def record(folder: Path, store: Path | None) -> None:
    """Run every study's quick preset, and write what came of it."""
    import unlazy

    folder.mkdir(parents=True, exist_ok=True)
    store = store or folder / "store.sqlite"
    command = [
        sys.executable,
        "-m",
        "unlazy",
        "reproduce",
        "--store",
        str(store),
        "--out",
        str(folder / "report"),
        "--json",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"unlazy reproduce ended with {done.returncode}")
    studies = {}
    for entry in json.loads(done.stdout)["studies"]:
        name = entry["study"]
        if entry["error"]:
            studies[name] = {"error": entry["error"]}
            continue
        run = unlazy.run(name, store=store)
        results = {}
        for part, data in run.parts.items():
            for kind, arrays in (("simulated", data.simulated), ("predicted", data.predicted)):
                for key, array in {} if arrays is None else arrays.variables.items():
                    results[f"{part}/{kind}/{key}"] = np.asarray(array.values)
        np.savez_compressed(folder / f"{name}.npz", **results)
        studies[name] = {
            "hosted": run.study.is_hosted(),
            "claims": {c["id"]: [c["measured"], c["low"], c["high"], c["verdict"]] for c in entry["claims"]},
            "results": {
                key: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
                for key, array in results.items()
            },
        }
        print(f"{name}: {len(entry['claims'])} claims, {len(results)} results", file=sys.stderr)
    (folder / "studies.json").write_text(json.dumps(studies, indent=1, sort_keys=True))


def deviation(before: np.ndarray, after: np.ndarray) -> float:
    """The largest difference over the largest number; infinite where kind, shape or what is finite differs."""
    if before.shape != after.shape or before.dtype.kind != after.dtype.kind:
        return np.inf
    if before.dtype.kind not in "fc":
        return 0.0 if np.array_equal(before, after) else np.inf
    finite = np.isfinite(before)
    if not np.array_equal(before[~finite], after[~finite], equal_nan=True) or not np.isfinite(after[finite]).all():
        return np.inf
    if not finite.any() or np.array_equal(before[finite], after[finite]):
        return 0.0
    return float(np.abs(after[finite] - before[finite]).max() / np.abs(before[finite]).max())


def compare(before: Path, after: Path, renamed: dict[str, str]) -> bool:
    """Print what differs between two records; whether nothing does."""
    old, new = (json.loads((folder / "studies.json").read_text()) for folder in (before, after))
    faults, near = [], []
    expected = {renamed.get(name, name): name for name in old}
    faults += [f"{name}: only in one record" for name in sorted(set(expected) ^ set(new))]
    for name in sorted(set(expected) & set(new)):
        was, now = old[expected[name]], new[name]
        claims = {renamed.get(f"{expected[name]}/{c}", c): numbers for c, numbers in was.get("claims", {}).items()}
        if "error" in was or "error" in now:
            faults += [f"{name}: {was.get('error', 'ran')} -> {now.get('error', 'ran')}"] if was != now else []
            continue
        allowed = 0.0 if was["hosted"] else TRACED_TOLERANCE
        faults += [f"{name}: hosted {was['hosted']} -> {now['hosted']}"] if was["hosted"] != now["hosted"] else []
        faults += [f"{name}: claim {c} only in one record" for c in sorted(set(claims) ^ set(now["claims"]))]
        for claim in sorted(set(claims) & set(now["claims"])):
            a, b = claims[claim], now["claims"][claim]
            numbers = [np.array([np.nan if x is None else float(x) for x in row[:3]]) for row in (a, b)]
            worst = deviation(*numbers)
            if a[3] != b[3] or worst > allowed:
                faults.append(f"{name}: claim {claim} {a} -> {b}")
            elif worst:
                near.append(worst)
        faults += [
            f"{name}: result {key} only in one record" for key in sorted(set(was["results"]) ^ set(now["results"]))
        ]
        shared = sorted(set(was["results"]) & set(now["results"]))
        changed = [key for key in shared if was["results"][key] != now["results"][key]]
        if changed:
            with np.load(before / f"{expected[name]}.npz") as x, np.load(after / f"{name}.npz") as y:
                for key in changed:
                    worst = deviation(x[key], y[key])
                    near.append(worst)
                    if worst > allowed:
                        faults.append(f"{name}: result {key} differs by {worst:.1e} of its largest number")
    judged = sum(len(study.get("claims", ())) for study in new.values())
    results = sum(len(study.get("results", ())) for study in new.values())
    print(f"{len(new)} studies, {judged} claims, {results} results: {len(faults)} differ", end="")
    print(
        f"; {len(near)} within rounding, the largest deviation {max(near):.1e}" if near else "; all others bit for bit"
    )
    print("\n".join(faults))
    return not faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--store", type=Path, help="a store that may have some of the results already")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    options = parser.parse_args()
    if options.command == "record":
        record(options.folder, options.store)
    else:
        same = compare(options.before, options.after, dict(pair.split("=") for pair in options.renamed))
        sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
