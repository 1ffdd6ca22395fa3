"""The program: runs a command, and turns whatever ends it into one line and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import typer

from unlazy.checks import InputError
from unlazy.cli.commands import app
from unlazy.lab import registry
from unlazy.numerics.roots import ConvergenceError

_TYPER_INTERRUPTED = 130
"""What typer makes of Ctrl-C."""


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 1 done but a verdict differs from the documented one, 2 wrong input, 3 interrupted.
    """
    warnings.showwarning = lambda message, *_: _warn(message)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that does not know a sign shows another one.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    usage_error: Any = typer.BadParameter.__mro__[1]
    try:
        code = app(prog_name="unlazy", standalone_mode=False)
        if code == _TYPER_INTERRUPTED:
            raise KeyboardInterrupt
    except InputError as error:
        code = _refuse(str(error))
    except ConvergenceError as error:
        code = _refuse(f"a number of this study cannot be computed at these parameters: {error}")
    except usage_error as error:
        code = _refuse(error.format_message())
    except typer.Exit as end:
        code = end.exit_code
    except (KeyboardInterrupt, typer.Abort):
        # A second Ctrl-C would end by the signal what is ending anyway.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stored = {"run", "reproduce"} & set(sys.argv[1:2])
        goes_on = ": what was finished is stored; the same command goes on from there" if stored else ""
        print(f"interrupted{goes_on}", file=sys.stderr)
        code = 3
    except BrokenPipeError:
        # Whoever reads has enough.
        code = 0
    except OSError as error:
        code = _refuse(str(error))
    except Exception as error:
        place = _place_in_study(error)
        if place is None:
            raise
        code = _refuse(f"{place} raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # What Python still wants to write at its end goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code or 0)


def _warn(message: Any) -> None:
    # That nobody reads a warning is no reason to stop.
    with contextlib.suppress(OSError):
        print(f"warning: {message}", file=sys.stderr)


def _place_in_study(error: Exception) -> str | None:
    """Where in the code of a user's study an exception came from; None if it did not."""
    import traceback

    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if registry.is_users(Path(frame.filename)):
            return f"{frame.name} ({frame.filename}:{frame.lineno})"
    return None


def _refuse(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2
