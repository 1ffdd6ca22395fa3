"""The convex losses of state evolution, in the margin s = y z: value, slope and proximal point.

prox(omega) = argmin_s loss(s) + (s - omega)^2 / (2 V); g = (prox - omega)/V = -loss'(prox).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LOSSES = ("square", "logistic", "hinge")
_PROX_STEPS = 200


class Loss(NamedTuple):
    """A loss of the margin."""

    value: Callable[[np.ndarray], np.ndarray]
    pull: float
    """-loss'(0): the training margin is negative where omega < -V pull."""


def expit(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x)."""
    from scipy.special import expit

    return expit(x)


def loss_of(name: str) -> Loss:
    """The loss of a name of `LOSSES`; the square loss is (1 - s)^2 / 2."""
    return {
        "square": Loss(lambda s: (1 - s) ** 2 / 2, 1.0),
        "logistic": Loss(lambda s: np.logaddexp(0.0, -s), 0.5),
        "hinge": Loss(lambda s: np.maximum(1 - s, 0.0), 1.0),
    }[name]


def logistic_prox(margin: np.ndarray, variance: np.ndarray, tolerance: float | np.ndarray = 1e-14) -> np.ndarray:
    """The root s in [omega, omega + V] of s = omega + V expit(-s), elementwise.

    Newton's step wherever it stays in the bracket and is at most half as long as the step before, else bisection:
    Newton alone falls into two-cycles for V above about 10. A point is frozen once its Newton step is at most
    `tolerance` (1 + |s|), lest rounding errors, which do not halve, call for bisection.
    """
    margin, variance = np.broadcast_arrays(np.asarray(margin, float), np.asarray(variance, float))
    shape = margin.shape
    tolerance = np.broadcast_to(tolerance, shape).ravel()
    margin, variance = margin.ravel(), variance.ravel()
    low, high = margin.copy(), margin + variance
    root = (low + high) / 2
    last = high - low
    active = np.arange(root.size)
    for _ in range(_PROX_STEPS):
        if not active.size:
            break
        s, v = root[active], variance[active]
        share = expit(-s)
        excess = s - margin[active] - v * share
        low[active] = np.where(excess <= 0, s, low[active])
        high[active] = np.where(excess >= 0, s, high[active])
        newton = -excess / (1 + v * share * (1 - share))
        converged = np.abs(newton) <= tolerance[active] * (1 + np.abs(s))
        target = s + newton
        safe = (target >= low[active]) & (target <= high[active]) & (2 * np.abs(newton) <= last[active])
        target = np.where(converged | safe, target, (low[active] + high[active]) / 2)
        last[active] = np.abs(target - s)
        root[active] = target
        active = active[~converged]
    return root.reshape(shape)
