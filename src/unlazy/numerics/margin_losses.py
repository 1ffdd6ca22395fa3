"""Convex losses of the margin s = y z: value, slope and proximal point.

prox(omega) = argmin_s loss(s) + (s - omega)^2 / (2 V); g = (prox - omega)/V = -loss'(prox).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.checks import check_choice
from unlazy.numerics.roots import newton_root

LOSSES = ("square", "logistic", "hinge")


class MarginLoss(NamedTuple):
    """A loss of the margin."""

    value: Callable[[np.ndarray], np.ndarray]
    pull: float
    """-loss'(0): the training margin is negative where omega < -V pull."""


def expit(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x)."""
    from scipy.special import expit

    return expit(x)


def loss_of(name: str) -> MarginLoss:
    """The loss of a name of `LOSSES`; the square loss is (1 - s)^2 / 2."""
    return {
        "square": MarginLoss(lambda s: (1 - s) ** 2 / 2, 1.0),
        "logistic": MarginLoss(lambda s: np.logaddexp(0.0, -s), 0.5),
        "hinge": MarginLoss(lambda s: np.maximum(1 - s, 0.0), 1.0),
    }[check_choice("loss", name, LOSSES)]


def logistic_prox(margin: np.ndarray, variance: np.ndarray, tolerance: float | np.ndarray = 1e-14) -> np.ndarray:
    """The root s in [omega, omega + V] of s = omega + V expit(-s), elementwise.

    By `newton_root` to `tolerance` (1 + |s|): Newton alone falls into two-cycles for V above about 10.
    """
    margin, variance = np.broadcast_arrays(np.asarray(margin, float), np.asarray(variance, float))
    shape = margin.shape
    tolerance = np.broadcast_to(tolerance, shape).ravel()
    margin, variance = margin.ravel(), variance.ravel()

    def equation(s: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        v, share = variance[rows], expit(-s)
        return s - margin[rows] - v * share, 1 + v * share * (1 - share)

    high = margin + variance
    return newton_root(equation, margin, high, (margin + high) / 2, tolerance).reshape(shape)
