"""What the trainer asks of a network of any library."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

MOMENTUM = 0.9


class TrainingPlan(NamedTuple):
    """How a network f is trained: on |s (f - f0) - y|^2 / (2 n s^2), by SGD with momentum 0.9 or by Adam."""

    optimiser: str
    step_size: float
    batch_size: int
    """0: all rows in every step."""
    output_scale: float
    order: int
    """Decides which rows are in which batch."""

    def batches(self, n: int, first: int, count: int) -> np.ndarray | None:
        """Row numbers (count, batch_size) of the steps from `first` on; None where all rows are in every step."""
        if not self.batch_size:
            return None
        draws = [
            np.random.default_rng((self.order, step)).integers(n, size=self.batch_size)
            for step in range(first, first + count)
        ]
        return np.array(draws, np.int32)


class Arm(NamedTuple):
    """A network in training: its weights in the order of its layers, and what the optimiser remembers."""

    weights: list[np.ndarray]
    memory: list[np.ndarray]
    diverged_at: int

    def packed(self) -> dict[str, np.ndarray]:
        """Arrays by name, for `Saved`."""
        lists = {"weights": self.weights, "memory": self.memory}
        named = {f"{name} {place}": array for name, arrays in lists.items() for place, array in enumerate(arrays)}
        return {**named, "diverged_at": np.array(self.diverged_at)}

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray]) -> Arm:
        """What `packed` gave."""

        def listed(name: str) -> list[np.ndarray]:
            count = sum(key.startswith(f"{name} ") for key in arrays)
            return [arrays[f"{name} {place}"] for place in range(count)]

        return cls(listed("weights"), listed("memory"), int(arrays["diverged_at"]))


class TrainingRows(NamedTuple):
    """Inputs (n, ...), targets (n, k), and the outputs (n, k) that are taken off."""

    inputs: np.ndarray
    targets: np.ndarray
    taken: np.ndarray


class AnyNetwork(Protocol):
    """A network and its weights at the start, in the order of its layers."""

    weights: list[np.ndarray]

    def seen(self, weights: list[np.ndarray], inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outputs (n, k), and what the readout sees (n, p): the gradient of the first output by the readout's weights.

        The readout is the last of the arrays with more entries than there are outputs.
        """

    def tangent_kernel(self, weights: list[np.ndarray], left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Of two sets of rows: (n k, m k), the outputs of a row next to each other."""

    def start(self, plan: TrainingPlan) -> Arm:
        """Before the first step."""

    def advance(self, arm: Arm, plan: TrainingPlan, rows: TrainingRows, first: int, count: int) -> Arm:
        """After `count` more steps, of which the first has the number `first`."""
