"""What the probe asks of a network, whoever made it, and saved activations in place of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.probing.inputs import as_numpy

BLOCK = 256
"""Rows that go through a network together."""


class Seen(NamedTuple):
    """What a network makes of rows."""

    outputs: np.ndarray
    """(n, classes), or (n, 1) for two classes."""
    features: np.ndarray | None
    """What its readout sees of the chosen rows, (chosen, width)."""


class ProbedNetwork(Protocol):
    """A network with the parameters of a checkpoint put in."""

    notes: list[str]
    """What reading the checkpoints has to say."""

    def read(self, state: Any, name: str) -> Any:
        """The checkpoint as the other methods take it; `name` is what a refusal calls it."""

    def seen(self, state: Any, part: str, rows: np.ndarray | None, chosen: np.ndarray) -> Seen: ...

    def input_gradients(self, state: Any, rows: np.ndarray) -> np.ndarray | None:
        """Of every output, (outputs, n, d); None if the inputs are no numbers to differentiate in."""

    def kernel(
        self, state: Any, rows: np.ndarray, left: int, budget: float, progress: Callable[[str], None]
    ) -> tuple[np.ndarray, tuple[str, ...]] | None:
        """The tangent kernel (left, n) and the parameters that took per-sample gradients."""

    def weights(self, state: Any) -> dict[str, np.ndarray]:
        """The matrices (outputs, inputs) of the layers."""


class SavedActivations:
    """Outputs and features that were saved; a checkpoint is a mapping of arrays.

    `outputs`, `outputs_val` and, if wanted, `features`, `features_val`; other arrays with 2 or more axes are weights.
    """

    _NAMES = ("outputs", "outputs_val", "features", "features_val")

    def __init__(self, n: int, held_out: int) -> None:
        self.counts = {"": n, "_val": held_out}
        self.notes: list[str] = []

    def read(self, state: Any, name: str) -> dict[str, np.ndarray]:
        found = {}
        for part, count in self.counts.items():
            if not isinstance(state, Mapping) or f"outputs{part}" not in state:
                raise InputError(f"saved activations must have outputs{part}, got for {name} {_names(state)}")
            for kind in (f"outputs{part}", f"features{part}"):
                if state.get(kind) is None:
                    continue
                array = np.atleast_1d(as_numpy(f"{kind} of {name}", state[kind]))
                if len(array) != count:
                    raise InputError(f"{kind} of {name} must have {count} rows like y{part}, got {len(array)}")
                found[kind] = np.asarray(array, np.float64).reshape(len(array), -1)
        weights = [key for key, value in state.items() if key not in self._NAMES and np.ndim(value) >= 2]
        return found | {key: as_numpy(f"{key} of {name}", state[key]) for key in weights}

    def seen(self, state: Any, part: str, rows: np.ndarray | None, chosen: np.ndarray) -> Seen:
        features = state.get(f"features{part}")
        return Seen(state[f"outputs{part}"], None if features is None else features[chosen])

    def input_gradients(self, state: Any, rows: np.ndarray) -> None:
        return None

    def kernel(self, state: Any, rows: np.ndarray, left: int, budget: float, progress: Callable[[str], None]) -> None:
        return None

    def weights(self, state: Any) -> dict[str, np.ndarray]:
        return {name: value for name, value in state.items() if name not in self._NAMES}


def _names(state: Any) -> str:
    return ", ".join(state) if isinstance(state, Mapping) else f"a {type(state).__name__}"


def blocks(rows: np.ndarray, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of rows, and the places of the chosen ones in each."""
    for first in range(0, len(rows), BLOCK):
        here = chosen[(chosen >= first) & (chosen < first + BLOCK)]
        yield rows[first : first + BLOCK], here - first
