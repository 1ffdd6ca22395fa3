"""The network whose optimum is known to twelve digits, control variates, and outputs of several problems."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from unlazy.lab import Study
from unlazy.theory.mean_field.grid import logistic_loss, square_loss
from unlazy.theory.mean_field.optimum import MeanFieldOptimum
from unlazy.theory.mean_field.tanh_network import tanh_optimum

AMPLITUDE = 4.0
"""R, the largest |h| of h(z) = R tanh(w z + b); the targets are y = sin(2z) at 20 points of [-2, 2]."""
INPUTS = np.linspace(-2, 2, 20)
TARGETS = np.sin(2 * INPUTS)
LOSSES = {"square": square_loss(TARGETS), "logistic": logistic_loss(np.where(TARGETS > 0, 1.0, -1.0))}


@cache
def optimum(
    confinement: float,
    temperature: float,
    loss: str = "square",
    grid_points: int = 121,
    relative_half_width: float | None = None,
) -> MeanFieldOptimum:
    """The exact optimum, on a grid of grid_points^2."""
    options: dict[str, Any] = {
        "confinement": confinement,
        "temperature": temperature,
        "relative_half_width": relative_half_width,
    }
    return tanh_optimum(INPUTS, LOSSES[loss], amplitude=AMPLITUDE, grid_points=grid_points, **options)


def coefficient(control: Any, values: Any) -> Any:
    """Of the regression of values over seeds on a control variate."""
    centred = control - control.mean("seed")
    return (centred * (values - values.mean("seed"))).mean("seed") / (centred**2).mean("seed")


def of_one_problem(study: Study, found: Mapping[str, Any]) -> dict[str, Any]:
    """What an instance found, and NaN for the outputs of other problems."""
    import jax.numpy as jnp

    sizes = {name: len(values) for name, values in study.coordinates().items()}
    shapes = {name: tuple(sizes[dim] for dim in study.outputs[name].dims) for name in study.simulated_outputs()}
    return {name: jnp.full(shape, jnp.nan) for name, shape in shapes.items()} | dict(found)
