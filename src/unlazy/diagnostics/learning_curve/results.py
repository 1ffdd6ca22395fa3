"""What `LearningCurve` answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Interval(NamedTuple):
    low: Any
    high: Any


class CurvePrediction(NamedTuple):
    """Expected errors; every field but `point_errors` has the broadcast shape of n, ridge and features."""

    n: np.ndarray
    ridge: np.ndarray
    features: np.ndarray
    """Infinity for the kernel itself."""
    error: np.ndarray
    """Mean squared error on new rows, label noise included, summed over outputs; NaN where not `in_range`."""
    interval: Interval
    """What other pools of the same size would say, with the probability `confidence`; NaN for moments."""
    r2: np.ndarray
    """1 - error / variance of y."""
    training_error: np.ndarray
    in_range: np.ndarray
    """False where so many rows are too far beyond the pool for this ridge, and there is no prediction."""
    reliable: np.ndarray
    """False also where tests found errors beyond the interval: unequal leverages (`fast`, `hybrid`), a negative
    effective ridge of some row (`pointwise`), a mean that few rows carry (relative standard deviation above 0.3), or
    fewer than 20 rows; with kernel="one-step" fewer than 5 rows per dimension, strongly correlated inputs, an
    index that is far from normal, or residuals that depend on other directions."""
    method: np.ndarray
    """'fast', 'hybrid' or 'pointwise'; 'one-step' with that kernel, 'moments' after `fit_moments`."""
    point_errors: np.ndarray | None
    """The expected error on each row of the pool when it is not trained on, in a last axis; NaN unless `pointwise`."""


class SamplesNeeded(NamedTuple):
    n: float
    """The smallest number of rows; infinity if no number in reach is enough."""
    interval: Interval
    reliable: bool
    least_error: float
    """The least error that was predicted on the way."""


class FeaturesNeeded(NamedTuple):
    features: float
    error: float
    kernel_error: float


class RidgeErrors(NamedTuple):
    """What the pool says about each ridge."""

    ridge: np.ndarray
    loo_error: np.ndarray
    gcv: np.ndarray
    noise: np.ndarray


class BestRidge(NamedTuple):
    ridge: float
    error: float
    """The leave-one-out error there."""
    where: str
    """'inside' the range that was searched, or at its 'smallest' or 'largest' ridge."""


class NoiseEstimate(NamedTuple):
    variance: float
    """Noise, or what the kernel cannot learn from so many rows."""
    share: float
    """Its part of the variance of y."""
    ridge: float
    """The ridge of least generalised cross-validation, at which it was measured."""


class Alignment(NamedTuple):
    """The target in the eigenbasis of the kernel, largest eigenvalue first."""

    eigenvalues: np.ndarray
    cumulative_spectrum: np.ndarray
    cumulative_target: np.ndarray
    learnability: np.ndarray
    """l / (l + kappa), the part of each direction that n rows teach."""
    effective_dimension: float
    """Its sum."""
    learnable_share: float
    """The part of the target's energy in what is learned."""
