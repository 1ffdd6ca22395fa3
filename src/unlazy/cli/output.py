"""What commands write: files that are checked before anything is computed for them, and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unlazy.checks import check_writable
from unlazy.words import plain


def check_figure(file: Path | None) -> None:
    if file is not None:
        check_writable(file)
        from unlazy.plotting.style import format_of

        format_of(file)


def save_figure(found: Any, file: Path | None, quiet: bool) -> None:
    if file is not None:
        from unlazy.plotting.style import save

        save(found.figure(), file)
        if not quiet:
            say(f"figure: {file}")


def say(text: str) -> None:
    """Print text that may hold names of a user's."""
    print(plain(text))


def print_json(value: Any) -> None:
    from unlazy.lab.running.dataset import as_json

    print(json.dumps(as_json(value), allow_nan=False))
