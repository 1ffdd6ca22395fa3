"""Networks of neurons with two parameters, h(z) = R tanh(w z + b), R their amplitude: the optimal law on a grid."""

from __future__ import annotations

import numpy as np

from unlazy.checks import check_array
from unlazy.theory.mean_field.finite_step import StepBias, step_size_bias
from unlazy.theory.mean_field.grid import Loss
from unlazy.theory.mean_field.optimum import MeanFieldOptimum, mean_field_optimum


def tanh_optimum(
    inputs: np.ndarray,
    loss: Loss,
    *,
    amplitude: float,
    confinement: float,
    temperature: float,
    points: int = 121,
    deviations: float | None = None,
) -> MeanFieldOptimum:
    """The optimal law of the neurons (w, b) at scalar inputs z (n,), by `mean_field_optimum` on points^2 points.

    Half the side of the grid's box is `deviations` times that of the prior, sqrt(temperature/(2 confinement)); without
    them it is as large as the law needs.
    """
    inputs = check_array("inputs", inputs, ndim=1)
    amplitude = float(check_array("amplitude", amplitude, ndim=0, low=-1e60, high=1e60))
    half_width = None
    if deviations is not None:
        wide = float(check_array("deviations", deviations, above=0, ndim=0))
        heat, weight = (
            float(check_array(name, value, above=0, ndim=0))
            for name, value in (("temperature", temperature), ("confinement", confinement))
        )
        half_width = wide * float(np.sqrt(heat / (2 * weight)))
    return mean_field_optimum(
        lambda places: amplitude * np.tanh(np.outer(places[:, 0], inputs) + places[:, 1:]),
        loss,
        dimension=2,
        confinement=confinement,
        temperature=temperature,
        points=points,
        half_width=half_width,
    )


def tanh_step_bias(optimum: MeanFieldOptimum, inputs: np.ndarray, *, amplitude: float, confinement: float) -> StepBias:
    """What a step size adds to the network of squared loss with this optimum, to first order: `step_size_bias`."""
    places = optimum.grid.points
    hidden = np.tanh(np.outer(places[:, 0], inputs) + places[:, 1:])
    slope = amplitude * (1 - hidden**2)
    return step_size_bias(
        optimum,
        gradients=np.stack([slope * inputs, slope], axis=2),
        laplacians=-2 * hidden * slope * (1 + inputs**2),
        potential_gradient=2 * confinement * places,
        potential_laplacian=np.full(len(places), 4 * confinement),
    )
