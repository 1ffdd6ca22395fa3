"""The text of a release: the changelog's part of a version, once tag, package, citation and changelog name the same.

python tools/release.py v1.2.3
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions(root: Path = ROOT) -> dict[str, str]:
    """The version by the file that names it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = re.search(r"(?m)^version: (.+)$", (root / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"(?m)^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    named = {"CITATION.cff": citation, "CHANGELOG.md": newest}
    return {"pyproject.toml": project["version"]} | {file: found[1] if found else "" for file, found in named.items()}


def notes(version: str, root: Path = ROOT) -> str:
    """What the changelog says of a version."""
    parts = re.split(r"(?m)^## ", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    for part in parts[1:]:
        title, _, body = part.partition("\n")
        if title.split()[0] == version:
            return body.strip() + "\n"
    raise SystemExit(f"CHANGELOG.md has no part {version}")


if __name__ == "__main__":
    wanted = sys.argv[1].removeprefix("v")
    wrong = {file: found for file, found in versions().items() if found != wanted}
    if wrong:
        raise SystemExit(f"the tag says {wanted}, but " + ", ".join(f"{file} {found}" for file, found in wrong.items()))
    print(notes(wanted), end="")
