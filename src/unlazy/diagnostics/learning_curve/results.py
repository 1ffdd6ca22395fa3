"""What `LearningCurve` answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.diagnostics.curves import Interval


class SamplesNeeded(NamedTuple):
    n: float
    """The smallest number of rows; infinity if no number in reach is enough."""
    interval: Interval
    reliable: bool
    least_error: float
    """The least error that was predicted on the way."""


class WidthNeeded(NamedTuple):
    width: float
    test_error: float
    kernel_error: float


class PenaltyErrors(NamedTuple):
    """What the pool says about each penalty."""

    penalty: np.ndarray
    loo_error: np.ndarray
    gcv: np.ndarray
    noise_variance: np.ndarray


class BestPenalty(NamedTuple):
    penalty: float
    test_error: float
    """The leave-one-out error there; without rows the error that is predicted."""
    where: str
    """'inside' the range that was searched, or at its 'smallest' or 'largest' penalty."""


class NoiseEstimate(NamedTuple):
    noise_variance: float
    """Noise, or what the kernel cannot learn from so many rows."""
    share: float
    """Its part of the variance of y."""
    penalty: float
    """The penalty of least generalised cross-validation, at which it was measured."""


class Alignment(NamedTuple):
    """The target in the eigenbasis of the kernel, largest eigenvalue first."""

    spectrum: np.ndarray
    cumulative_spectrum: np.ndarray
    cumulative_target: np.ndarray
    learnability: np.ndarray
    """l / (l + kappa), the part of each direction that n rows teach."""
    degrees_of_freedom: float
    """Its sum."""
    learnable_share: float
    """The part of the target's energy in what is learned."""

    @classmethod
    def at(cls, eigenvalues: np.ndarray, energies: np.ndarray, kappa: float, unit: float = 1.0) -> Alignment:
        """Of eigenvalues (ascending, in that unit) with the target's energies along them, at an effective penalty."""
        values, energies = eigenvalues[::-1], energies[::-1]
        learnability, total = values / (values + kappa), energies.sum()
        return cls(
            values * unit,
            np.cumsum(values) / values.sum(),
            np.cumsum(energies) / total if total else np.zeros_like(values),
            learnability,
            float(learnability.sum()),
            float(learnability @ energies / total) if total else 0.0,
        )
