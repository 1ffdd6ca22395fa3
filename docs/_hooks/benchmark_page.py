"""The benchmarks' page, from what the last `make bench` recorded."""

from __future__ import annotations

import importlib.util
import json
import logging
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
        return module.markdown(json.loads(results.read_text(encoding="utf-8")))
    except Exception as error:
        # A warning, which a strict build refuses; the other pages can still be looked at.
        log.warning("benchmarks.md: %s of results.json: %s: %s", renderer.name, type(error).__name__, error)
        return "# Benchmarks\n\nThe recorded benchmarks could not be shown."
