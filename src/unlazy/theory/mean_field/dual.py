"""Convex functionals of a distribution with an entropy: their exact optimum in low dimension, and what N particles add.

F(mu) = sum_i w_i l_i(E_mu h_i) + E_mu V + confinement E_mu |x|^2, L(mu) = F(mu) + temperature int mu log mu. In the
notation of the papers temperature is lambda_2 and confinement lambda_1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_kind, check_whole
from unlazy.numerics.monte_carlo import placed_in_cells
from unlazy.theory.mean_field.grid import Gibbs, GridProblem, called, energy_and_entropy, gibbs, on_grid
from unlazy.theory.mean_field.optimum import Features, MeanFieldOptimum

_MOST_PARTICLES = 50_000_000


class ParticleConstants(NamedTuple):
    """What N particles add to the optimum: min L^N/N = L* + c/N, E F(mu_hat) = F* + c_F/N."""

    free_energy_excess: float
    """c = (temperature/2) log det(I + C w l''/temperature)."""
    energy_excess: float
    """c_F = c - temperature dc/dtemperature (total derivative); 0 for a quadratic F of Gaussian particles."""
    excess_bound: float
    """tr(C w l'')/2 >= c."""
    temperature_derivative: float
    """dc/dtemperature, with mu* moving."""


class EntropySandwich(NamedTuple):
    """lower_bound <= optimality_gap <= upper_bound for any mu."""

    lower_bound: float
    """temperature KL(mu || mu*)."""
    optimality_gap: float
    """L(mu) - L*."""
    upper_bound: float
    """temperature KL(mu || p_mu), p_mu the proximal Gibbs law of mu."""


def particle_constants(optimum: MeanFieldOptimum) -> ParticleConstants:
    """The constants of propagation of chaos: c and c_F of the N-particle stationary law.

        min L^N / N = L* + c/N + O(N^-2),     c = (lambda/2) log det(I + C D / lambda),    D = diag(w l''),
        E F(mu_hat) = F* + c_F/N + O(N^-2),   c_F = c - lambda dc/dlambda,

    lambda the temperature, in continuous time (a step size adds its own bias). The total derivative is exact:
    dC/dlambda is a third moment under mu*; the derivative of l'' along the path is a central difference (relative error
    1e-9). The bound C D/2 >= c is that of Suzuki, Wu & Nitanda (2023) and Chen, Ren & Wang (2022) in form; the constant
    is the Gaussian (second-order) expansion around mu*.

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> print(f"{particle_constants(optimum=optimum).free_energy_excess:.4f}")
    0.0291
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    grid, law, lam = optimum.grid, optimum.law, optimum.grid.temperature
    values = np.maximum(np.linalg.eigvalsh(_scaled_covariance(optimum)), 0)
    excess = lam / 2 * float(np.log1p(values).sum())

    centred, identity = grid.feature_values - law.predictions, np.eye(len(values))
    tilt, moved = temperature_response(optimum)
    covariance_slope = centred.T @ ((law.grid_masses * tilt)[:, None] * centred)
    small = 1e-5 * (1 + np.abs(law.predictions).max()) / (1e-300 + np.abs(moved).max())
    above = grid.loss.second_derivative(law.predictions + small * moved)
    below = grid.loss.second_derivative(law.predictions - small * moved)
    curvature_slope = grid.loss_weights * (above - below) / (2 * small)
    # d log det(I + C D / lam) = tr[(I + C D / lam)^-1 d(C D / lam)]
    product = optimum.covariance * optimum.loss_curvature / lam
    change = (
        covariance_slope * optimum.loss_curvature / lam + optimum.covariance * curvature_slope / lam - product / lam
    )
    derivative = excess / lam + lam / 2 * float(np.trace(np.linalg.solve(identity + product, change)))
    return ParticleConstants(excess, excess - lam * derivative, lam / 2 * float(values.sum()), derivative)


def width_covariance(optimum: MeanFieldOptimum, feature_map: ArrayLike | Features | None = None) -> np.ndarray:
    """The limit of N Cov(f_hat(z), f_hat(z')), f_hat(z) the mean over N particles of h(z), at stationarity.

        c(z, z') - c_z^T D^(1/2) (lambda I + D^(1/2) C D^(1/2))^-1 D^(1/2) c_z',   D = diag(w l''), c = Cov_mu*(h, h'),

    which for squared loss and w = 1/n is the covariance of a Gaussian-process posterior with noise n lambda.
    `feature_map` is that of the wanted predictions: an array (G, m) on `optimum.grid.points` or a function of the
    points; without it the result is for the training predictions. Independent particles would give c(z, z').

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> print(optimum.covariance.round(4), width_covariance(optimum=optimum).round(4))
    [[0.0789]] [[0.0441]]
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    grid, law = optimum.grid, optimum.law
    if feature_map is None:
        rows = grid.feature_values
    else:
        given = called("feature_map", feature_map, grid.points) if callable(feature_map) else feature_map
        rows = on_grid("feature_map", given, len(grid.points), 2)
    wanted = rows - law.grid_masses @ rows
    weighted = law.grid_masses[:, None] * wanted
    root = np.sqrt(optimum.loss_curvature)
    cross = root[:, None] * ((grid.feature_values - law.predictions).T @ weighted)
    inner = grid.temperature * np.eye(len(root)) + root[:, None] * optimum.covariance * root
    return wanted.T @ weighted - cross.T @ np.linalg.solve(inner, cross)


def naive_iteration_radius(optimum: MeanFieldOptimum) -> float:
    """The spectral radius of mu <- p_mu at mu*: the largest eigenvalue of C D / lambda, D = diag(w l'').

    The Jacobian of the predictions is -C D / lambda, so that the iteration oscillates and diverges above 1, where it
    must be damped; Newton's method and the double loops need not be.

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> print(f"{naive_iteration_radius(optimum=optimum):.3f}")
    0.789
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    return float(np.linalg.eigvalsh(_scaled_covariance(optimum))[-1])


def temperature_response(optimum: MeanFieldOptimum) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives by the temperature of log mu* on the grid, and of the predictions, with mu* moving."""
    grid, law, weights = optimum.grid, optimum.law, optimum.loss_curvature
    centred = grid.feature_values - law.predictions
    exponent = -law.log_grid_masses
    exponent = exponent - law.grid_masses @ exponent
    mixed = grid.temperature * np.eye(weights.size) + optimum.covariance * weights
    moved = np.linalg.solve(mixed, centred.T @ (law.grid_masses * exponent))
    return (exponent - centred @ (weights * moved)) / grid.temperature, moved


def _scaled_covariance(optimum: MeanFieldOptimum) -> np.ndarray:
    """D^(1/2) C D^(1/2) / lambda, D = diag(w l'')."""
    root = np.sqrt(optimum.loss_curvature)
    return root[:, None] * optimum.covariance * root / optimum.grid.temperature


def online_averaging_constant(optimum: MeanFieldOptimum) -> float:
    """lim t E[L(q_t) - L*] of online dual averaging (`training.mean_field.double_loop`) with uniformly drawn rows.

    Around the optimum the deviation of the averaged slopes follows d delta = (2/t)(-(I + A) delta + noise) dt, A = D' C
    W / lambda, D' = diag(l''), W = diag(w), with the covariance Q = n diag(g^2) - g g^T of a drawn slope, so that t
    E[delta delta^T] tends to the solution S of the Lyapunov equation (2(I + A) - 1/2) S + S (2(I + A) - 1/2)^T = 4 Q,
    and

        constant = tr(M S)/2,    M = W C W / lambda + W C D C W / lambda^2,   D = W D'.

    Weights must be 1/n. A linearisation: exact as t grows.

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> def feature_map(x):
    ...     return np.tanh(x + np.array([0.5, -1]))
    >>> optimum = mean_field_optimum(feature_map, square_loss([1, 0]), d=1, confinement=0.1, temperature=0.1)
    >>> print(f"{online_averaging_constant(optimum=optimum):.4f}")
    0.0071
    """
    from scipy.linalg import solve_continuous_lyapunov

    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    n, lam, weights = optimum.predictions.size, optimum.grid.temperature, optimum.grid.loss_weights
    if not np.allclose(weights, 1 / n, rtol=1e-12):
        raise InputError("optimum must have the weights 1/n for online dual averaging, got others")
    covariance_ = optimum.covariance
    feedback = (optimum.loss_curvature[:, None] / weights[:, None]) * covariance_ * weights / lam
    drift = 2 * (np.eye(n) + feedback) - np.eye(n) / 2
    g = optimum.multipliers
    spread = solve_continuous_lyapunov(drift, 4 * (n * np.diag(g**2) - np.outer(g, g)))
    pulled = covariance_ * weights
    hessian = weights[:, None] * pulled / lam + pulled.T @ (optimum.loss_curvature[:, None] * pulled) / lam**2
    return float(np.trace(hessian @ spread)) / 2


def free_energy_on(grid: GridProblem, law: Gibbs) -> float:
    """L(q) of a Gibbs law on a grid.

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> print(f"{free_energy_on(grid=optimum.grid, law=optimum.law):.4f}")
    0.0978
    """
    check_kind("grid", grid, GridProblem, "as mean_field_optimum(...).grid")
    check_kind("law", law, Gibbs, "as gibbs_of_potential gives it")
    if law.grid_masses.size != len(grid.points):
        raise InputError(
            f"law must have one mass per point of the grid ({len(grid.points)}), got {law.grid_masses.size}"
        )
    return energy_and_entropy(grid, law.grid_masses, law.log_grid_masses)[0]


def entropy_sandwich(optimum: MeanFieldOptimum, grid_masses: ArrayLike) -> EntropySandwich:
    """temperature KL(mu || mu*) <= L(mu) - L* <= temperature KL(mu || p_mu), for `grid_masses` on the optimum's grid.

    Holds for every convex F. Source: Nitanda, Wu & Suzuki (2022), Chizat (2022).

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> uniform = np.full(len(optimum.grid.points), 1 / len(optimum.grid.points))
    >>> print(np.round(entropy_sandwich(optimum=optimum, grid_masses=uniform), 3))
    [1.669 1.875 2.166]
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    mu = _masses(optimum, grid_masses)
    grid = optimum.grid
    proximal = gibbs(grid, mu @ grid.feature_values)

    def divergence(law: Gibbs) -> float:
        held = mu > 0
        return float(mu[held] @ (np.log(mu[held]) - law.log_grid_masses[held]))

    value = energy_and_entropy(grid, mu)[0]
    return EntropySandwich(
        grid.temperature * divergence(optimum.law), value - optimum.free_energy, grid.temperature * divergence(proximal)
    )


def sample_optimum(optimum: MeanFieldOptimum, particles: int, *, rng: np.random.Generator) -> np.ndarray:
    """Draw particles (N, d) from mu*: a cell of the grid by its mass, then a uniform point of the cell.

    The cell adds spacing^2/12 to each variance, 1e-4 of the prior's or less on the default grids.

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> print(sample_optimum(optimum, particles=4, rng=np.random.default_rng(0)).ravel().round(3))
    [ 1.089  0.611  0.027 -0.211]
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    check_kind("rng", rng, np.random.Generator, "such as numpy.random.default_rng(0)")
    particles = check_whole("particles", particles, 1, _MOST_PARTICLES)
    grid, d = optimum.grid, optimum.grid.points.shape[1]
    side = float(grid.volume ** (1 / d))
    which, where = rng.random(particles), rng.random((particles, d))
    return placed_in_cells(grid.points, optimum.law.grid_masses, side, which, where)


def typical_cloud(
    optimum: MeanFieldOptimum, particles: int, *, rng: np.random.Generator, clouds: int = 400
) -> np.ndarray:
    """Of so many clouds (N, d) from mu* the one whose E|x|^2 is nearest that law's, as this relaxes most slowly.

    >>> from unlazy.theory import mean_field_optimum, square_loss
    >>> optimum = mean_field_optimum(np.tanh, square_loss([1]), d=1, confinement=0.1, temperature=0.1)
    >>> cloud = typical_cloud(optimum, particles=100, rng=np.random.default_rng(0), clouds=50)
    >>> print(f"{(cloud**2).mean():.3f}")
    1.091
    """
    check_kind("optimum", optimum, MeanFieldOptimum, "as mean_field_optimum gives it")
    particles = check_whole("particles", particles, 1, _MOST_PARTICLES)
    clouds = check_whole("clouds", clouds, 1, _MOST_PARTICLES // particles)
    square = float(optimum.law.grid_masses @ (optimum.grid.points**2).sum(axis=1))
    drawn = sample_optimum(optimum, clouds * particles, rng=rng).reshape(clouds, particles, -1)
    return drawn[np.abs((drawn**2).sum(axis=2).mean(axis=1) - square).argmin()]


def _masses(optimum: MeanFieldOptimum, grid_masses: ArrayLike) -> np.ndarray:
    array = check_array("grid_masses", grid_masses, low=0, ndim=1)
    if array.size != len(optimum.grid.points):
        raise InputError(
            f"grid_masses must have one entry per point of the grid ({len(optimum.grid.points)}), got {array.size}"
        )
    if abs(array.sum() - 1) > 1e-9:
        raise InputError(f"grid_masses must sum to 1, got {array.sum():.12g}")
    return array
