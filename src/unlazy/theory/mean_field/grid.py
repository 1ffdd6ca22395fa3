"""The dual Newton method for a convex functional of a distribution on a grid, in low dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_kind, check_signs
from unlazy.numerics.roots import ConvergenceError

MOST_ENTRIES = 40_000_000


class Loss(NamedTuple):
    """A convex loss of n predictions: each function maps predictions (n,) to n numbers."""

    value: Callable[[np.ndarray], np.ndarray]
    """l_i(f_i)."""
    first_derivative: Callable[[np.ndarray], np.ndarray]
    """l_i'(f_i), increasing."""
    second_derivative: Callable[[np.ndarray], np.ndarray]
    """l_i''(f_i) >= 0."""


class GridProblem(NamedTuple):
    """A functional sum_j w_j l_j(E h_j) + E V + added_constant, on points of a grid."""

    points: np.ndarray
    feature_values: np.ndarray
    """h_i(x), a column for each prediction."""
    potential: np.ndarray
    volume: float
    """Of a cell."""
    loss: Loss
    loss_weights: np.ndarray
    temperature: float
    added_constant: float


class Gibbs(NamedTuple):
    """The law q ~ exp(-(sum_j w_j g_j h_j + V) / temperature), g_j = l_j'(u_j), on a grid."""

    predictions: np.ndarray
    grid_masses: np.ndarray
    log_grid_masses: np.ndarray
    log_partition: float


def square_loss(targets: Any) -> Loss:
    """l_i(f) = (f - y_i)^2 / 2, whose conjugate is g^2/2 + g y_i.

    >>> loss = square_loss(targets=[1, -1])
    >>> f = np.array([0.5, 0.5])
    >>> print(loss.value(f), loss.first_derivative(f))
    [0.125 1.125] [-0.5  1.5]
    """
    y = check_array("targets", targets, ndim=1)

    def error(f: np.ndarray) -> np.ndarray:
        _check_count("targets", y, f)
        return f - y

    return Loss(lambda f: error(f) ** 2 / 2, error, lambda f: np.ones_like(error(f)))


def logistic_loss(labels: Any) -> Loss:
    """l_i(f) = log(1 + exp(-y_i f)), y_i in {-1, 1}.

    Its conjugate at g, with p = -y_i g in [0, 1], is p log p + (1 - p) log(1 - p).

    >>> loss = logistic_loss(labels=[1, -1])
    >>> f = np.array([0.5, 0.5])
    >>> print(loss.value(f).round(4), loss.first_derivative(f).round(4))
    [0.4741 0.9741] [-0.3775  0.6225]
    """
    y = check_signs("labels", labels, ndim=1)

    def margin(f: np.ndarray) -> np.ndarray:
        _check_count("labels", y, f)
        return y * f

    def sigmoid(margin: np.ndarray) -> np.ndarray:
        return np.exp(-np.logaddexp(0.0, -margin))

    return Loss(
        lambda f: np.logaddexp(0.0, -margin(f)),
        lambda f: -y * sigmoid(-margin(f)),
        lambda f: sigmoid(margin(f)) * sigmoid(-margin(f)),
    )


def _check_count(name: str, given: np.ndarray, predictions: np.ndarray) -> None:
    if predictions.shape != given.shape:
        raise InputError(f"{name} must have one entry per prediction {predictions.shape}, got {given.shape}")


def tensor_grid(half_widths: np.ndarray, points: int) -> tuple[np.ndarray, float]:
    """The points of a tensor grid (points^d, d) around 0 and the volume of its cell.

    The trapezoid rule is the plain sum where the integrand vanishes at the faces of the box.
    """
    axes = [np.linspace(-half, half, points) for half in half_widths]
    mesh = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    return mesh, float(np.prod(2 * half_widths / (points - 1)))


def gibbs(grid: GridProblem, pseudo_predictions: np.ndarray) -> Gibbs:
    """The Gibbs law of the slopes of the loss at `pseudo_predictions` (u)."""
    slopes = grid.loss_weights * grid.loss.first_derivative(pseudo_predictions)
    return _law(grid, grid.feature_values @ slopes + grid.potential)


def gibbs_of_potential(grid: GridProblem, potential: np.ndarray) -> Gibbs:
    """The law ~ exp(-potential / temperature).

    >>> from unlazy.theory import mean_field_optimum
    >>> grid = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1).grid
    >>> law = gibbs_of_potential(grid=grid, potential=grid.points[:, 0] ** 2)
    >>> print(f"{law.grid_masses @ grid.points[:, 0] ** 2:.4f}")
    0.0500
    """
    check_kind("grid", grid, GridProblem, "as mean_field_optimum(...).grid")
    return _law(grid, on_grid("potential", potential, len(grid.points), 1))


def _law(grid: GridProblem, potential: np.ndarray) -> Gibbs:
    exponent = -potential / grid.temperature
    top = exponent.max()
    if not np.isfinite(top):
        raise ConvergenceError(f"the Gibbs law has no finite potential on the grid: its largest exponent is {top:g}")
    masses = np.exp(exponent - top)
    total = masses.sum()
    masses /= total
    log_total = top + float(np.log(total))
    log_partition = log_total + float(np.log(grid.volume))
    return Gibbs(masses @ grid.feature_values, masses, exponent - log_total, log_partition)


def dual_value(grid: GridProblem, u: np.ndarray, law: Gibbs) -> float:
    """D(g) = -sum_j w_j l_j*(g_j) - temperature log Z + constant, with l*(g) = g u - l(u) at g = l'(u)."""
    conjugates = grid.loss.first_derivative(u) * u - grid.loss.value(u)
    return float(-(grid.loss_weights @ conjugates) - grid.temperature * law.log_partition + grid.added_constant)


def covariance(grid: GridProblem, law: Gibbs) -> np.ndarray:
    """Cov_q(h_i, h_j)."""
    centred = grid.feature_values - law.predictions
    return centred.T @ (law.grid_masses[:, None] * centred)


def newton(grid: GridProblem, start: np.ndarray, max_iterations: int = 200) -> tuple[np.ndarray, Gibbs]:
    """The pseudo-predictions u with E_q h = u, q the Gibbs law of l'(u), by Newton's method with backtracking.

    The step (I + C W l''/temperature)^-1 (E_q h - u) is one of ascent of the concave dual for every convex loss, and
    for the squared loss it is Newton's step in g. No conjugate of the loss is needed.
    """
    u = np.array(start, dtype=float)
    law = gibbs(grid, u)
    value = dual_value(grid, u, law)
    for _ in range(max_iterations):
        residual = law.predictions - u
        curved = grid.loss_weights * grid.loss.second_derivative(u)
        spread = covariance(grid, law)
        jacobian = np.eye(u.size) + spread * curved / grid.temperature
        try:
            step = np.linalg.solve(jacobian, residual)
        except np.linalg.LinAlgError:
            raise ConvergenceError(
                f"Newton's step on the dual is lost in rounding: the features have variances up to "
                f"{np.diag(spread).max():.2g}, the temperature is {grid.temperature:g}"
            ) from None
        ascent = float((curved * residual) @ step)
        # rounding leaves this of the features' deviations even where their means are 0
        scale = np.abs(u).max(initial=0.0) + np.abs(law.predictions).max() + np.sqrt(np.diag(spread).max()) + 1e-300
        if np.abs(residual).max() <= 1e-14 * scale or np.abs(step).max() <= 4e-16 * scale:
            return u, law
        share = 1.0
        while True:
            trial = u + share * step
            trial_law = gibbs(grid, trial)
            trial_value = dual_value(grid, trial, trial_law)
            rounding = 1e-14 * (1 + abs(value))
            if trial_value >= value + 1e-4 * share * ascent - rounding:
                break
            share /= 2
            if share < 1e-12:
                raise ConvergenceError(
                    f"no ascent of the dual along Newton's step: residual {np.abs(residual).max():.3g} of predictions "
                    f"of size {scale:.3g}"
                )
        smaller = np.abs(trial_law.predictions - trial).max() < np.abs(residual).max()
        if ascent <= rounding and np.abs(residual).max() <= 1e-10 * scale and not smaller:
            return u, law
        u, law, value = trial, trial_law, trial_value
    raise ConvergenceError(
        f"Newton's method on the dual left a residual of {np.abs(law.predictions - u).max():.3g} after "
        f"{max_iterations} steps"
    )


def face_share(grid: GridProblem, law: Gibbs) -> float:
    """The largest density on the faces of the box over the largest of all."""
    ends = grid.points.min(axis=0), grid.points.max(axis=0)
    on_face = ((grid.points == ends[0]) | (grid.points == ends[1])).any(axis=1)
    return float(law.grid_masses[on_face].max() / law.grid_masses.max())


def resolves(grid: GridProblem, law: Gibbs) -> bool:
    """Whether the law covers at least three cells along each axis, 1/sum of squared masses >= 3^d."""
    return bool(1 / (law.grid_masses @ law.grid_masses) >= 3.0 ** grid.points.shape[1])


def energy_and_entropy(
    grid: GridProblem, masses: np.ndarray, log_masses: np.ndarray | None = None
) -> tuple[float, float, float]:
    """L, F and Ent of masses on the grid."""
    if log_masses is None:
        log_masses = np.log(np.where(masses > 0, masses, 1.0))
    entropy = float(masses @ log_masses) - float(np.log(grid.volume))
    fit = float(grid.loss_weights @ grid.loss.value(masses @ grid.feature_values))
    energy = fit + float(masses @ grid.potential) + grid.added_constant
    return energy + grid.temperature * entropy, energy, entropy


def called(name: str, function: Any, *points: np.ndarray) -> Any:
    """What a user's function gives at points, or an error that names it."""
    if not callable(function):
        raise InputError(f"{name} must be a function of an array of points, got a {type(function).__name__}")
    try:
        return function(*points)
    except (TypeError, ValueError, IndexError) as error:
        shapes = " and ".join(str(each.shape) for each in points)
        raise InputError(f"{name} must take arrays of points, here of shape {shapes}: {error}") from error


def on_grid(name: str, values: Any, count: int, ndim: int) -> np.ndarray:
    """A user's values on the grid, one row per point."""
    array = check_array(name, values, ndim=ndim)
    if len(array) != count:
        raise InputError(f"{name} must give one row per point ({count}), got {len(array)}")
    return array
