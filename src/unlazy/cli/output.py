"""What commands write: files that are checked before anything is computed for them, and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError, check_writable
from unlazy.words import plain

if TYPE_CHECKING:
    from unlazy.lab.study import Study


def check_figure(file: Path | None, study: type[Study] | None = None) -> None:
    """Refuse an ending that names no format; that of a film is for studies that have a figure along time."""
    if file is None:
        return
    check_writable(file)
    from unlazy.plotting.film import moving
    from unlazy.plotting.style import format_of, is_film

    if study is None or not is_film(file):
        format_of(file)
    elif moving(study.figure) is None:
        raise InputError(f"figure {file} is a film, and {study.name} has no panel along time")


def save_figure(found: Any, file: Path | None, quiet: bool) -> None:
    if file is not None:
        from unlazy.plotting.film import save_film
        from unlazy.plotting.style import is_film, save
        from unlazy.reporting.terminal.show import open_console

        # its theory has more points than the run's, and may take long
        with open_console(stderr=True).status("drawing the figure, with its theory on a denser grid"):
            save_film(found.film(), file) if is_film(file) else save(found.figure(), file)
        if not quiet:
            say(f"figure: {file}")


def answer(found: Any, figure: Path | None, as_json: bool) -> None:
    """Print what was found, as JSON or as its page, and write its figure."""
    print_json(found.as_json()) if as_json else say(str(found))
    save_figure(found, figure, as_json)


def say(text: str) -> None:
    """Print text that may hold names of a user's."""
    print(plain(text))


def print_json(value: Any) -> None:
    from unlazy.lab.running.dataset import as_json

    print(json.dumps(as_json(value), allow_nan=False))
