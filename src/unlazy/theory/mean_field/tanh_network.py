"""Networks of neurons with two parameters, h(z) = R tanh(w z + b), R their amplitude: the optimal law on a grid."""

from __future__ import annotations

import numpy as np

from unlazy.checks import InputError, check_array, check_kind
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
    grid_points: int = 121,
    relative_half_width: float | None = None,
) -> MeanFieldOptimum:
    """The optimal law of the neurons (w, b) at scalar inputs z (n,), by `mean_field_optimum` on grid_points^2 points.

    Half the side of the grid's box is `relative_half_width` times the deviation of the prior, sqrt(temperature/(2
    confinement)); without it the box is as large as the law needs.

    >>> from unlazy.theory import square_loss
    >>> z, loss = [-1, 0, 1], square_loss([-1, 0, 1])
    >>> found = tanh_optimum(inputs=z, loss=loss, amplitude=2, confinement=0.1, temperature=0.1, grid_points=61)
    >>> print(f"{found.free_energy:.4f}", found.predictions.round(4))
    -0.0587 [-0.8246 -0.      0.8246]
    """
    inputs = check_array("inputs", inputs, ndim=1)
    amplitude = float(check_array("amplitude", amplitude, ndim=0, low=-1e60, high=1e60))
    half_width = None
    if relative_half_width is not None:
        wide = float(check_array("relative_half_width", relative_half_width, above=0, ndim=0))
        heat, weight = (
            float(check_array(name, value, above=0, ndim=0))
            for name, value in (("temperature", temperature), ("confinement", confinement))
        )
        half_width = wide * float(np.sqrt(heat / (2 * weight)))
    return mean_field_optimum(
        lambda places: amplitude * np.tanh(np.outer(places[:, 0], inputs) + places[:, 1:]),
        loss,
        d=2,
        confinement=confinement,
        temperature=temperature,
        grid_points=grid_points,
        half_width=half_width,
    )


def tanh_step_bias(optimum: MeanFieldOptimum, inputs: np.ndarray, *, amplitude: float, confinement: float) -> StepBias:
    """What a step size adds to the network of squared loss with this optimum, to first order: `step_size_bias`.

    >>> from unlazy.theory import square_loss
    >>> z, loss = [-1, 0, 1], square_loss([-1, 0, 1])
    >>> optimum = tanh_optimum(z, loss, amplitude=2, confinement=0.1, temperature=0.1, grid_points=61)
    >>> print(f"{tanh_step_bias(optimum, inputs=z, amplitude=2, confinement=0.1).energy_slope:.5f}")
    0.01380
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as tanh_optimum gives it")
    inputs = check_array("inputs", inputs, ndim=1)
    if inputs.size != optimum.predictions.size:
        raise InputError(f"inputs must be those of the optimum ({optimum.predictions.size}), got {inputs.size}")
    amplitude = float(check_array("amplitude", amplitude, ndim=0, low=-1e60, high=1e60))
    confinement = float(check_array("confinement", confinement, above=0, ndim=0))
    places = optimum.grid.points
    hidden = np.tanh(np.outer(places[:, 0], inputs) + places[:, 1:])
    slope = amplitude * (1 - hidden**2)
    return step_size_bias(
        optimum,
        feature_gradient=np.stack([slope * inputs, slope], axis=2),
        feature_laplacian=-2 * hidden * slope * (1 + inputs**2),
        potential_gradient=2 * confinement * places,
        potential_laplacian=np.full(len(places), 4 * confinement),
    )
