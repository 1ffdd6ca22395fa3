"""The network whose optimum is known to twelve digits: particles (w, b), h(z) = R tanh(w z + b), target sin(2z)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from unlazy.theory.mean_field_dual import MeanFieldOptimum, logistic_loss, mean_field_optimum, square_loss

BOUND = 4.0
"""R, the largest |h|."""
INPUTS = np.linspace(-2, 2, 20)
TARGETS = np.sin(2 * INPUTS)
LABELS = np.where(TARGETS > 0, 1.0, -1.0)
LOSSES: dict[str, Callable] = {"square": lambda: square_loss(TARGETS), "logistic": lambda: logistic_loss(LABELS)}


def features(points: np.ndarray) -> np.ndarray:
    """h at the inputs, for points (G, 2)."""
    return BOUND * np.tanh(np.outer(points[:, 0], INPUTS) + points[:, 1:])


@cache
def optimum(loss: str, confinement: float, temperature: float, points: int = 121) -> MeanFieldOptimum:
    """The exact optimum on a grid of points^2."""
    return mean_field_optimum(
        features, LOSSES[loss](), dimension=2, confinement=confinement, temperature=temperature, points=points
    )
