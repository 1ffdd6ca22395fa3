"""How the fluctuations of N particles around the mean-field optimum relax."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_kind
from unlazy.theory.mean_field.optimum import MeanFieldOptimum

# What lies below this share of the largest density has no weight in any covariance.
_NEGLIGIBLE = 1e-9
_PER_DECADE = 4


def width_fluctuations(optimum: MeanFieldOptimum, time: ArrayLike) -> np.ndarray:
    """The limit of N Cov(f_hat) at given times after a start from independent samples of mu*, (time, n, n).

    f_hat_i is the mean over N particles of h_i, in continuous time. In L^2(mu*), with S the generator of the Langevin
    dynamics in the potential of mu*, its sign reversed, and K the second variation of F over the temperature, the
    fluctuations of the empirical law are Gaussian with

        Sigma_t = Sigma_inf + exp(-S (I + K) t)(I - Sigma_inf) exp(-(I + K) S t),     Sigma_inf = (I + K)^-1;

    Sigma_0 = I is that of independent particles and Sigma_inf that of `width_covariance`. S is that of jumps between
    neighbours on the optimum's grid, whose error is of the order spacing^2; the observables evolve in the space spanned
    by h and its resolvents (1 + gamma S)^-1 h, four gamma to each decade of time, where S and (I + K)^-1 stay symmetric
    (Galerkin's method). In two dimensions 61 points along an axis take half a second, 161 ten times that. Assumes N
    large at fixed time: the central limit theorem of the interacting particles, the linearisation around mu*.

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> print(width_fluctuations(optimum=optimum, time=[0, 1, 10]).ravel().round(4))
    [0.0789 0.0523 0.0441]
    """
    from scipy.linalg import eigh
    from scipy.sparse import coo_matrix, diags
    from scipy.sparse.linalg import splu

    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    moments = check_array("time", time, low=0, ndim=1)
    temperature, held = optimum.grid.temperature, optimum.law.grid_masses > _NEGLIGIBLE * optimum.law.grid_masses.max()
    masses = optimum.law.grid_masses[held] / optimum.law.grid_masses[held].sum()
    observed = optimum.grid.feature_values[held]
    observed = observed - masses @ observed
    first, second, spacing = _neighbours(optimum, held)
    flows = temperature / spacing**2 * np.sqrt(masses[first] * masses[second])
    between = coo_matrix((flows, (first, second)), shape=(masses.size, masses.size)).tocsc()
    between = between + between.T
    laplacian = diags(np.asarray(between.sum(axis=1)).ravel()) - between

    basis = [observed]
    positive = moments[moments > 0]
    if positive.size:
        low, high = np.log10(positive.min() / 10), np.log10(positive.max() * 3)
        for gamma in 10 ** np.linspace(low, high, int(np.ceil(_PER_DECADE * (high - low))) + 1):
            factor = splu((diags(masses) + gamma * laplacian).tocsc(), permc_spec="MMD_AT_PLUS_A")
            basis.append(factor.solve(masses[:, None] * observed))
    columns = np.concatenate(basis, axis=1)
    norms = np.sqrt((masses[:, None] * columns**2).sum(axis=0))
    if not (norms[: observed.shape[1]] > 0).any():
        raise InputError("optimum must have features that vary under mu*, got constant ones")
    columns = columns[:, norms > 0] / norms[norms > 0]
    weights, turn = np.linalg.eigh(columns.T @ (masses[:, None] * columns))
    kept = weights > 1e-13 * weights[-1]
    columns = columns @ (turn[:, kept] / np.sqrt(weights[kept]))

    projected = columns.T @ (masses[:, None] * observed)
    root = np.sqrt(optimum.loss_curvature)
    inner = temperature * np.eye(root.size) + root[:, None] * (observed.T @ (masses[:, None] * observed)) * root
    pulled = root[:, None] * projected.T
    removed = pulled.T @ np.linalg.solve(inner, pulled)
    stationary = np.eye(len(projected)) - removed
    stiffness = columns.T @ (laplacian @ columns)
    # (I + K)^-1 phi' = -S phi, as a generalised symmetric eigenproblem
    decays, modes = eigh((stiffness + stiffness.T) / 2, (stationary + stationary.T) / 2)
    amplitudes = modes.T @ (stationary @ projected)
    limit = projected.T @ stationary @ projected

    def at(moment: float) -> Any:
        evolved = modes @ (np.exp(-np.maximum(decays, 0) * moment)[:, None] * amplitudes)
        return limit + evolved.T @ removed @ evolved

    return np.stack([at(moment) for moment in moments])


def _neighbours(optimum: MeanFieldOptimum, held: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Pairs of neighbours among the points that are held, by their place among those, and the spacing."""
    count, dimension = optimum.grid.points.shape
    side = round(count ** (1 / dimension))
    place = np.where(held, np.cumsum(held) - 1, -1).reshape((side,) * dimension)
    pairs = []
    for axis in range(dimension):
        lower, upper = np.delete(place, -1, axis).ravel(), np.delete(place, 0, axis).ravel()
        both = (lower >= 0) & (upper >= 0)
        pairs.append((lower[both], upper[both]))
    first, second = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return first, second, float(optimum.grid.volume ** (1 / dimension))
