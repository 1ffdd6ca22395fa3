"""That a program is right: one instance agrees with itself as another machine, or another program, computed it."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.running.arithmetic import cache_folder, device
from unlazy.lab.running.pack import ROUNDING
from unlazy.lab.running.plan import canonical
from unlazy.lab.study import Study

_AGREEMENT = {"float64": 1e-8, "float32": 1e-3}
"""How far a number may be from itself in another program, which rounds in another order."""
_SMALL = 1e-4
Outputs = Mapping[str, np.ndarray]


class Proof:
    """Given once, before a result of the program is used, and remembered for this jaxlib and device."""

    def __init__(self, study: type[Study], program: str) -> None:
        self._study = study
        self._allowed = _AGREEMENT[study.precision] if study.agreement is None else study.agreement
        self._line = hashlib.sha256(canonical([program, repr(self._allowed), *device()]).encode()).hexdigest()[:24]
        self._file = cache_folder() / "proven_programs"
        self._lock = threading.Lock()
        self._refusal: InputError | None = None
        self._given = False
        with suppress(OSError):
            self._given = self._line in self._file.read_text().split()

    def give(self, inside: Outputs, alone: Callable[[], Outputs], elsewhere: Outputs | None = None) -> None:
        """Compare an instance's outputs inside a chunk with those of the same instance alone, unless that was done.

        What another machine found, if it agrees, is as good and costs no second program; if it does not, that may be
        the machine's. What was refused once is refused for all chunks that come after.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._given or not any(np.isfinite(array).any() for array in inside.values()):
                return
            if elsewhere is not None and not self._differing(inside, elsewhere, ROUNDING):
                self._remember()
                return
            for name, far in self._differing(inside, alone()).items():
                self._refusal = InputError(
                    f"{self._study.name} gives another {name} inside a chunk than alone, {far:.1g} of its size "
                    f"apart: either jaxlib {device().jaxlib} computes wrong numbers or rounding grows in the "
                    "study, which must then say so (Study.agreement)"
                )
                raise self._refusal
            self._remember()

    def _differing(self, inside: Outputs, other: Outputs, rounding: float = 0.0) -> dict[str, float]:
        """The outputs that are further from each other than allowed, and how far."""
        apart = {name: deviation(array, other[name]) for name, array in inside.items()}
        # In a chaotic study too a number is a number.
        return {
            name: far for name, far in apart.items() if not (math.isfinite(far) and far <= self._allowed + rounding)
        }

    def _remember(self) -> None:
        self._given = True
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as file:
                file.write(self._line + "\n")


def deviation(one: np.ndarray, other: np.ndarray) -> float:
    """The largest distance of two arrays over their largest entry; infinite where only one of them is a number.

    Smaller entries than 1e-4 count as that much: some outputs are themselves of the size of rounding.
    """
    one, other = np.asarray(one, float), np.asarray(other, float)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return 0.0
    with np.errstate(invalid="ignore"):
        size = np.max(np.abs([one, other]), initial=_SMALL, where=np.isfinite([one, other]))
        far = np.max(np.abs(one - other)[~same] / size)
    return math.inf if np.isnan(far) else float(far)
