"""The benchmarks' page, from what the last `make bench` recorded."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import sys
from pathlib import Path

log = logging.getLogger("mkdocs.hooks.unlazy")

_MISSING = "# Benchmarks\n\nNo benchmarks are recorded in this checkout: `make bench` measures them."


def page(folder: Path) -> str:
    """The recorded benchmarks as Markdown, or that there are none."""
    results, renderer = folder / "results.json", folder / "page.py"
    if not results.is_file() or not renderer.is_file():
        return _MISSING
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    module = importlib.import_module("benchmarks.page")
    try:
        found = json.loads(results.read_text(encoding="utf-8"))
        return _with_missing(module.markdown(found), [name for name in module.NAMES if name not in found])
    except Exception as error:
        # A warning, which a strict build refuses; the other pages can still be looked at.
        log.warning("benchmarks.md: %s of results.json: %s: %s", renderer.name, type(error).__name__, error)
        return "# Benchmarks\n\nThe recorded benchmarks could not be shown."


def _with_missing(page: str, missing: list[str]) -> str:
    """The page with a note, before its first section, on how to record what is not there yet."""
    if not missing:
        return page
    many = len(missing) > 1
    note = (
        f'!!! info "{len(missing)} benchmark{"s are" if many else " is"} not recorded in this checkout"\n\n'
        f"    {', '.join(f'`{name}`' for name in missing)}.\n\n"
        f"    `python -m benchmarks {missing[0]}` records one, `make bench` installs the peers and records all. Each "
        "is written to `benchmarks/results.json` as soon as it is done; `make docs` then shows it here.\n\n"
    )
    # The same list as a sentence, which the note replaces.
    page = re.sub(r" Not recorded yet: [^.\n]*\.", "", page, count=1)
    head, mark, rest = page.partition("\n## ")
    return f"{head}\n{note}{mark.lstrip()}{rest}" if mark else f"{page}\n{note}"
