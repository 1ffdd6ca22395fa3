"""The network whose optimum is known to twelve digits: particles (w, b), h(z) = R tanh(w z + b), target sin(2z)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from unlazy.theory.mean_field.finite_step import StepBias, step_size_bias
from unlazy.theory.mean_field.fluctuations import width_fluctuations
from unlazy.theory.mean_field.grid import logistic_loss, square_loss
from unlazy.theory.mean_field.optimum import MeanFieldOptimum, mean_field_optimum

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


@cache
def step_bias(confinement: float, temperature: float) -> StepBias:
    """What a step size adds to the network of squared loss, to first order."""
    found = optimum("square", confinement, temperature)
    points = found.grid.points
    hidden = np.tanh(np.outer(points[:, 0], INPUTS) + points[:, 1:])
    slope = BOUND * (1 - hidden**2)
    return step_size_bias(
        found,
        gradients=np.stack([slope * INPUTS, slope], axis=2),
        laplacians=-2 * hidden * slope * (1 + INPUTS**2),
        potential_gradient=2 * confinement * points,
        potential_laplacian=np.full(len(points), 4 * confinement),
    )


@cache
def width_curve(confinement: float, temperature: float, times: tuple[float, ...]) -> np.ndarray:
    """tr N Cov(f_hat) at the times, of the linear theory."""
    found = optimum("square", confinement, temperature)
    return np.trace(width_fluctuations(found, times), axis1=1, axis2=2)
