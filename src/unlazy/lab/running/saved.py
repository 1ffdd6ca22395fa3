"""States of instances that take long, kept between segments: a kill loses one segment, not the run."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.lab.running.arithmetic import cache_folder

_FORGOTTEN_AFTER = 30 * 24 * 3600.0


class Saved:
    """The saved state of one instance: arrays by name in one file, replaced as a whole.

    `simulate(self, rng, saved)` asks `load` for where it was, calls `save` after each segment, and must give the same
    numbers whether or not it was interrupted: draw the randomness of a segment from its number, not from what ran
    before. The lab removes the file when the instance's result is there. Without a file name nothing is kept.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    def load(self) -> dict[str, np.ndarray] | None:
        """What was saved last, or None; a file that cannot be read counts as none."""
        if self._file is None:
            return None
        try:
            with np.load(self._file, allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None

    def save(self, arrays: Mapping[str, Any]) -> None:
        """Replace what was saved. A full disk costs the safety net, not the run."""
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._file.parent, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as part:
                    np.savez(part, allow_pickle=False, **{name: np.asarray(a) for name, a in arrays.items()})
                os.replace(name, self._file)
            except BaseException:
                os.unlink(name)
                raise
        except OSError:
            return

    def remove(self) -> None:
        """Forget the state, and those of others that nobody came back for in a month."""
        if self._file is None:
            return
        self._file.unlink(missing_ok=True)
        if self._file.parent.is_dir():
            for other in self._file.parent.iterdir():
                try:
                    if time.time() - other.stat().st_mtime > _FORGOTTEN_AFTER:
                        other.unlink()
                except OSError:
                    continue


def saved_state(identity: str) -> Saved:
    """The state of the instance with that identity: its code, its parameters and its randomness."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return Saved(cache_folder() / "states" / f"{name}.npz")
