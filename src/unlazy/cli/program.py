"""The program: runs a command, and turns whatever ends it into one line and an exit code."""

from __future__ import annotations

import _thread
import contextlib
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any

import typer

from unlazy.checks import InputError
from unlazy.cli import commands
from unlazy.lab import registry
from unlazy.words import in_one_line

_TYPER_INTERRUPTED = 130
"""What typer makes of Ctrl-C."""
_AGAIN_SECONDS = 0.02
"""How much later an interrupt is raised again that fell into code which cannot raise."""


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 1 done but a verdict differs from the documented one, 2 wrong input, 3 interrupted.
    """
    try:
        code = _call()
    except KeyboardInterrupt:
        code = _interrupted()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # What Python still wants to write at its end goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code or 0)


def _call() -> int | None:
    """Run the command and return the exit code; what is interrupted raises KeyboardInterrupt."""
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _raise_again
    warnings.showwarning = lambda message, *_: _warn(message)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that does not know a sign shows another one.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    usage_error: Any = typer.BadParameter.__mro__[1]
    try:
        code = commands.app(prog_name="unlazy", standalone_mode=False)
        if code == _TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        return code
    except InputError as error:
        return _refuse(str(error), error)
    except usage_error as error:
        return _refuse(error.format_message(), error)
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        # Whoever reads has enough.
        return 0
    except OSError as error:
        return _refuse(str(error), error)
    except Exception as error:
        from unlazy.numerics.roots import ConvergenceError

        if isinstance(error, ConvergenceError):
            return _refuse(f"a number of this study cannot be computed at these parameters: {error}", error)
        place = _place_in_study(error)
        if place is None:
            _raise_if_interrupted(error)
            raise
        # Of JAX's errors the first line says what is wrong.
        return _refuse(f"{place} raised {type(error).__name__}: {str(error).partition(chr(10))[0]}", error)


def _interrupted() -> int:
    # A second Ctrl-C would end by the signal what is ending anyway.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # So would Python itself, if the interrupt passed through its `exec`, as in the making of a dataclass: the next one
    # makes it forget that.
    exec("")
    # What a command stores, and what it needs besides the same words.
    more = {"run": "", "reproduce": "", "confirm": ", with --stream and the name above,"}.get("".join(sys.argv[1:2]))
    goes_on = "" if more is None else f": what was finished is stored; the same command{more} goes on from there"
    print(f"interrupted{goes_on}", file=sys.stderr)
    return 3


def _raise_again(ignored: Any) -> None:
    """Python ignores what is raised in destructors and callbacks of its garbage collection, also Ctrl-C."""
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    threading.Timer(_AGAIN_SECONDS, _thread.interrupt_main).start()


def _raise_if_interrupted(error: BaseException | None) -> None:
    """Some libraries turn an interrupt, as while they are imported, into an error of their own."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt
        error = error.__cause__ or error.__context__


def _warn(message: Any) -> None:
    # That nobody reads a warning is no reason to stop.
    with contextlib.suppress(OSError):
        print(f"warning: {in_one_line(str(message))}", file=sys.stderr)


def _place_in_study(error: Exception) -> str | None:
    """Where in the code of a user's study an exception came from; None if it did not."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if registry.is_users(Path(frame.filename)):
            return f"{frame.name} ({frame.filename}:{frame.lineno})"
    return None


def _refuse(message: str, error: BaseException) -> int:
    _raise_if_interrupted(error)
    print(f"error: {in_one_line(message)}", file=sys.stderr)
    return 2
