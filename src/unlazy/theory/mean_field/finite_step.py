"""What a finite step size adds to the stationary law of N particles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_kind
from unlazy.theory.mean_field.dual import temperature_response
from unlazy.theory.mean_field.optimum import MeanFieldOptimum


class StepBias(NamedTuple):
    """What grows linearly with the step size: E F(mu_hat) = F* + c_F/N + step_size (A + B/N), and N Cov(f_hat)."""

    energy_slope: float
    """A."""
    energy_excess_slope: float
    """B; c_F is that of `particle_constants`."""
    covariance_slope: np.ndarray
    """(n, n), of `width_covariance`."""


def step_size_bias(
    optimum: MeanFieldOptimum,
    *,
    feature_gradient: ArrayLike,
    feature_laplacian: ArrayLike,
    potential_gradient: ArrayLike,
    potential_laplacian: ArrayLike,
) -> StepBias:
    """The bias of the steps x <- x - step_size grad + sqrt(2 temperature step_size) xi, to first order in step_size.

    On `optimum.grid.points`, `feature_gradient` (G, n, d) and `feature_laplacian` (G, n) are those of the features h,
    the others (G, d) and (G,) those of the whole potential, confinement included. The stationary law of the steps in a
    potential U is exp(-(U + step_size U_1)/temperature) with U_1 = -|grad U|^2/4 + temperature Laplacian U/2, so that E
    U grows by

        step_size (temperature/4)[E Laplacian U - temperature d/dtemperature E Laplacian U].

    For U = N F of N particles the Laplacian is N A + B, with A = E Laplacian F'(mu*) and B = E sum_i w_i l_i'' |grad
    h_i|^2, the self-interaction; what correlations add to B is left out. N Cov(f_hat) is that of the functional F +
    step_size F_1, F_1 = E[-|grad F'|^2/4 + temperature Laplacian F'/2], whose second variation is exact; its slope in
    step_size is a central difference. Exact for a quadratic F of Gaussian particles. For l'' = const (squared loss).

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(lambda x: x, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> x, one = optimum.grid.points, np.ones((len(optimum.grid.points), 1))
    >>> found = step_size_bias(optimum, feature_gradient=one[:, :, None], feature_laplacian=0 * one,
    ...                        potential_gradient=0.2 * x, potential_laplacian=0.2 * one[:, 0])
    >>> print(f"{found.energy_slope:.4f} {found.energy_excess_slope:.4f}")
    0.0050 0.0250
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    grid, law, lam = optimum.grid, optimum.law, optimum.grid.temperature
    count, n, d = len(grid.points), optimum.predictions.size, grid.points.shape[1]
    given = {
        "feature_gradient": (feature_gradient, (count, n, d)),
        "feature_laplacian": (feature_laplacian, (count, n)),
        "potential_gradient": (potential_gradient, (count, d)),
        "potential_laplacian": (potential_laplacian, (count,)),
    }
    arrays = []
    for name, (value, shape) in given.items():
        array = check_array(name, value)
        if array.shape != shape:
            raise InputError(f"{name} must have shape {shape}, got {array.shape}")
        arrays.append(array)
    slopes, curved, outside, outside_curved = arrays
    probe = optimum.predictions + 1e-3 * (1 + np.abs(optimum.predictions))
    if not np.allclose(
        grid.loss_weights * grid.loss.second_derivative(probe), optimum.loss_curvature, rtol=1e-6, atol=1e-300
    ):
        raise InputError("optimum must have a loss of constant curvature (squared or linear), got another")

    weights, masses = optimum.loss_curvature, law.grid_masses
    forces = grid.loss_weights * optimum.multipliers
    centred = grid.feature_values - law.predictions
    mixed = lam * np.eye(n) + optimum.covariance * weights

    tilt, moved = temperature_response(optimum)
    laplacian = outside_curved + curved @ forces
    alone = (slopes**2).sum(axis=2) @ weights
    leading = float(masses @ laplacian), float((masses * tilt) @ laplacian + (weights * moved) @ (masses @ curved))
    own = float(masses @ alone), float((masses * tilt) @ alone)
    per_particle, energy = (lam / 4 * (value - lam * slope) for value, slope in (leading, own))

    # F_1 depends on mu also through F', whose derivative by f_i is w_i l_i'' h_i
    pull = outside + np.einsum("gnd,n->gd", slopes, forces)
    changes = (lam * curved - np.einsum("gd,gnd->gn", pull, slopes)) / 2
    first = lam * laplacian / 2 - (pull**2).sum(axis=1) / 4 + grid.feature_values @ (weights * (masses @ changes))
    first = first - masses @ first
    shift = -np.linalg.solve(mixed, centred.T @ (masses * first))
    response = -(first + centred @ (weights * shift)) / lam
    products = np.einsum("g,gnd,gmd->nm", masses, slopes, slopes, optimize=True)
    both = np.concatenate([grid.feature_values, changes], axis=1)

    def width(step: float) -> np.ndarray:
        tilted = masses * np.exp(step * response)
        tilted = tilted / tilted.sum()
        deviations = both - tilted @ both
        spread = deviations.T @ (tilted[:, None] * deviations)
        near = np.diag(weights) - step / 2 * weights[:, None] * products * weights
        coupling = np.block([[near, step * np.diag(weights)], [step * np.diag(weights), np.zeros((n, n))]])
        full = spread - spread @ np.linalg.solve(lam * np.eye(2 * n) + coupling @ spread, coupling @ spread)
        return full[:n, :n]

    small = 1e-4 / (np.abs(response[masses > 1e-12 * masses.max()]).max() + np.abs(products * weights).max())
    slope = (width(small) - width(-small)) / (2 * small)
    return StepBias(per_particle, energy, (slope + slope.T) / 2)
