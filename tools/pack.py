"""Write the shipped results from a store that `unlazy reproduce` has filled: `make pack`.

    python tools/pack.py [STUDY]… [--store FILE] [--out FILE]

What the store lacks is kept where the file has it and it is still true of the code. Exit code 1: some studies are not
in the file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.running import pack, packing

IN_IT = ("rounded", "exact", "kept")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", help="names; all if none")
    parser.add_argument("--store", type=Path, help="where the results are; the user's if not given")
    parser.add_argument("--out", type=Path, default=pack.default_file(), help="the file; the one beside the evidence")
    options = parser.parse_args()
    studies = [registry.find(name) for name in options.study] if options.study else registry.all_studies()
    done = []

    def tell(packed: packing.Packed) -> None:
        done.append(packed)
        size = f", {packed.bytes / 1000:.0f} kB" if packed.bytes else ""
        print(f"{len(done)} of {len(studies)}: {packed.study}: {packed.how}{size}", file=sys.stderr, flush=True)

    packing.write(options.out, studies, options.store, tell)
    counts = {how: sum(packed.how == how for packed in done) for how in IN_IT}
    words = ", ".join(f"{count} {how}" for how, count in counts.items())
    print(f"{options.out}: {sum(counts.values())} of {len(studies)} studies ({words}); "
          f"{options.out.stat().st_size / 1e6:.2f} MB")  # fmt: skip
    lacking = [packed for packed in done if packed.how not in IN_IT]
    for packed in lacking:
        print(f"not in it: {packed.study}: {packed.how}")
    return 1 if lacking else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"error: {error}")
