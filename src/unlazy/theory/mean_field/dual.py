"""Convex functionals of a distribution with an entropy: their exact optimum in low dimension, and what N particles add.

F(mu) = sum_i w_i l_i(E_mu h_i) + E_mu V + confinement E_mu |x|^2, L(mu) = F(mu) + temperature int mu log mu. In the
notation of the papers temperature is lambda_2 and confinement lambda_1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.theory.mean_field.grid import Gibbs, GridProblem, energy_and_entropy, gibbs, on_grid
from unlazy.theory.mean_field.optimum import Features, MeanFieldOptimum

_MOST_PARTICLES = 50_000_000


class ParticleConstants(NamedTuple):
    """What N particles add to the optimum: min L^N/N = L* + excess/N, E F(mu_hat) = F* + energy_excess/N."""

    excess: float
    """c = (temperature/2) log det(I + C w l''/temperature)."""
    energy_excess: float
    """c_F = c - temperature dc/dtemperature (total derivative); 0 for a quadratic F of Gaussian particles."""
    bound: float
    """tr(C w l'')/2 >= c."""
    temperature_derivative: float
    """dc/dtemperature, with mu* moving."""


class EntropySandwich(NamedTuple):
    """lower <= gap <= upper for any mu."""

    lower: float
    """temperature KL(mu || mu*)."""
    gap: float
    """L(mu) - L*."""
    upper: float
    """temperature KL(mu || p_mu), p_mu the proximal Gibbs law of mu."""


def particle_constants(optimum: MeanFieldOptimum) -> ParticleConstants:
    """The constants of propagation of chaos: c and c_F of the N-particle stationary law.

        min L^N / N = L* + c/N + O(N^-2),     c = (lambda/2) log det(I + C D / lambda),    D = diag(w l''),
        E F(mu_hat) = F* + c_F/N + O(N^-2),   c_F = c - lambda dc/dlambda,

    lambda the temperature, in continuous time (a step size adds its own bias). The total derivative is exact:
    dC/dlambda is a third moment under mu*; the derivative of l'' along the path is a central difference (relative error
    1e-9). The bound C D/2 >= c is that of Suzuki, Wu & Nitanda (2023) and Chen, Ren & Wang (2022) in form; the constant
    is the Gaussian (second-order) expansion around mu*.
    """
    grid, law, lam = optimum.grid, optimum.law, optimum.grid.temperature
    values = np.maximum(np.linalg.eigvalsh(_scaled_covariance(optimum)), 0)
    excess = lam / 2 * float(np.log1p(values).sum())

    centred, identity = grid.features - law.predictions, np.eye(len(values))
    tilt, moved = temperature_response(optimum)
    covariance_slope = centred.T @ ((law.masses * tilt)[:, None] * centred)
    small = 1e-5 * (1 + np.abs(law.predictions).max()) / (1e-300 + np.abs(moved).max())
    above = grid.loss.curvature(law.predictions + small * moved)
    below = grid.loss.curvature(law.predictions - small * moved)
    curvature_slope = grid.weights * (above - below) / (2 * small)
    # d log det(I + C D / lam) = tr[(I + C D / lam)^-1 d(C D / lam)]
    product = optimum.covariance * optimum.curvatures / lam
    change = covariance_slope * optimum.curvatures / lam + optimum.covariance * curvature_slope / lam - product / lam
    derivative = excess / lam + lam / 2 * float(np.trace(np.linalg.solve(identity + product, change)))
    return ParticleConstants(excess, excess - lam * derivative, lam / 2 * float(values.sum()), derivative)


def width_covariance(optimum: MeanFieldOptimum, features: ArrayLike | Features | None = None) -> np.ndarray:
    """The limit of N Cov(f_hat(z), f_hat(z')), f_hat(z) the mean over N particles of h(z), at stationarity.

        c(z, z') - c_z^T D^(1/2) (lambda I + D^(1/2) C D^(1/2))^-1 D^(1/2) c_z',   D = diag(w l''), c = Cov_mu*(h, h'),

    which for squared loss and w = 1/n is the covariance of a Gaussian-process posterior with noise n lambda. `features`
    are those of the wanted predictions: an array (G, m) on `optimum.grid.points` or a callable of the points; without
    them the result is for the training predictions. Independent particles would give c(z, z').
    """
    grid, law = optimum.grid, optimum.law
    if features is None:
        rows = grid.features
    else:
        rows = on_grid("features", features(grid.points) if callable(features) else features, len(grid.points), 2)
    wanted = rows - law.masses @ rows
    weighted = law.masses[:, None] * wanted
    root = np.sqrt(optimum.curvatures)
    cross = root[:, None] * ((grid.features - law.predictions).T @ weighted)
    inner = grid.temperature * np.eye(len(root)) + root[:, None] * optimum.covariance * root
    return wanted.T @ weighted - cross.T @ np.linalg.solve(inner, cross)


def naive_iteration_radius(optimum: MeanFieldOptimum) -> float:
    """The spectral radius of mu <- p_mu at mu*: the largest eigenvalue of C D / lambda, D = diag(w l'').

    The Jacobian of the predictions is -C D / lambda, so that the iteration oscillates and diverges above 1, where it
    must be damped; Newton's method and the double loops need not be.
    """
    return float(np.linalg.eigvalsh(_scaled_covariance(optimum))[-1])


def temperature_response(optimum: MeanFieldOptimum) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives by the temperature of log mu* on the grid, and of the predictions, with mu* moving."""
    grid, law, weights = optimum.grid, optimum.law, optimum.curvatures
    centred = grid.features - law.predictions
    exponent = -law.log_masses
    exponent = exponent - law.masses @ exponent
    mixed = grid.temperature * np.eye(weights.size) + optimum.covariance * weights
    moved = np.linalg.solve(mixed, centred.T @ (law.masses * exponent))
    return (exponent - centred @ (weights * moved)) / grid.temperature, moved


def _scaled_covariance(optimum: MeanFieldOptimum) -> np.ndarray:
    """D^(1/2) C D^(1/2) / lambda, D = diag(w l'')."""
    root = np.sqrt(optimum.curvatures)
    return root[:, None] * optimum.covariance * root / optimum.grid.temperature


def online_averaging_constant(optimum: MeanFieldOptimum) -> float:
    """lim t E[L(q_t) - L*] of online dual averaging (`training.mean_field.double_loop`) with uniformly drawn rows.

    Around the optimum the deviation of the averaged slopes follows d delta = (2/t)(-(I + A) delta + noise) dt, A = D' C
    W / lambda, D' = diag(l''), W = diag(w), with the covariance Q = n diag(g^2) - g g^T of a drawn slope, so that t
    E[delta delta^T] tends to the solution S of the Lyapunov equation (2(I + A) - 1/2) S + S (2(I + A) - 1/2)^T = 4 Q,
    and

        constant = tr(M S)/2,    M = W C W / lambda + W C D C W / lambda^2,   D = W D'.

    Weights must be 1/n. A linearisation: exact as t grows.
    """
    from scipy.linalg import solve_continuous_lyapunov

    n, lam, weights = optimum.predictions.size, optimum.grid.temperature, optimum.grid.weights
    if not np.allclose(weights, 1 / n, rtol=1e-12):
        raise InputError("optimum must have the weights 1/n for online dual averaging, got others")
    covariance_ = optimum.covariance
    feedback = (optimum.curvatures[:, None] / weights[:, None]) * covariance_ * weights / lam
    drift = 2 * (np.eye(n) + feedback) - np.eye(n) / 2
    g = optimum.multipliers
    spread = solve_continuous_lyapunov(drift, 4 * (n * np.diag(g**2) - np.outer(g, g)))
    pulled = covariance_ * weights
    hessian = weights[:, None] * pulled / lam + pulled.T @ (optimum.curvatures[:, None] * pulled) / lam**2
    return float(np.trace(hessian @ spread)) / 2


def objective_on(grid: GridProblem, law: Gibbs) -> float:
    """L(q) of a Gibbs law on a grid."""
    return energy_and_entropy(grid, law.masses, law.log_masses)[0]


def entropy_sandwich(optimum: MeanFieldOptimum, masses: ArrayLike) -> EntropySandwich:
    """temperature KL(mu || mu*) <= L(mu) - L* <= temperature KL(mu || p_mu), for masses on the optimum's grid.

    Holds for every convex F. Source: Nitanda, Wu & Suzuki (2022), Chizat (2022).
    """
    mu = _masses(optimum, masses)
    grid = optimum.grid
    proximal = gibbs(grid, mu @ grid.features)

    def divergence(law: Gibbs) -> float:
        held = mu > 0
        return float(mu[held] @ (np.log(mu[held]) - law.log_masses[held]))

    value = energy_and_entropy(grid, mu)[0]
    return EntropySandwich(
        grid.temperature * divergence(optimum.law), value - optimum.objective, grid.temperature * divergence(proximal)
    )


def sample_optimum(optimum: MeanFieldOptimum, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` particles (count, d) from mu*: a cell of the grid by its mass, then a uniform point of the cell.

    The cell adds spacing^2/12 to each variance, 1e-4 of the prior's or less on the default grids.
    """
    count = check_whole("count", count, 1, _MOST_PARTICLES)
    return place_samples(optimum, rng.random(count), rng.random((count, optimum.grid.points.shape[1])))


def typical_cloud(optimum: MeanFieldOptimum, count: int, rng: np.random.Generator, clouds: int = 400) -> np.ndarray:
    """Of so many clouds (count, d) from mu* the one whose E|x|^2 is nearest that law's, as this relaxes most slowly."""
    count = check_whole("count", count, 1, _MOST_PARTICLES)
    clouds = check_whole("clouds", clouds, 1, _MOST_PARTICLES // count)
    square = float(optimum.law.masses @ (optimum.grid.points**2).sum(axis=1))
    drawn = sample_optimum(optimum, clouds * count, rng).reshape(clouds, count, -1)
    return drawn[np.abs((drawn**2).sum(axis=2).mean(axis=1) - square).argmin()]


def place_samples(optimum: MeanFieldOptimum, which: Any, where: Any, numpy: Any = np) -> Any:
    """The particles (count, d) of uniform numbers `which` (count,) for the cell and `where` (count, d) inside it.

    `numpy` is the module of arrays to compute with, in the precision of the numbers: `jax.numpy` inside a traced
    function.
    """
    grid, dtype = optimum.grid, where.dtype
    cumulative = np.cumsum(optimum.law.masses)
    cells = numpy.searchsorted(numpy.asarray(cumulative / cumulative[-1], dtype), which, side="right")
    cells = numpy.minimum(cells, len(cumulative) - 1)
    side = float(grid.volume ** (1 / grid.points.shape[1]))
    return numpy.asarray(grid.points, dtype)[cells] + side * (where - 0.5)


def _masses(optimum: MeanFieldOptimum, masses: ArrayLike) -> np.ndarray:
    array = check_array("masses", masses, low=0, ndim=1)
    if array.size != len(optimum.grid.points):
        raise InputError(
            f"masses must have one entry per point of the grid ({len(optimum.grid.points)}), got {array.size}"
        )
    if abs(array.sum() - 1) > 1e-9:
        raise InputError(f"masses must sum to 1, got {array.sum():.12g}")
    return array
