"""The LASSO in high dimension: its errors and the number of nonzeros without drawing data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape
from unlazy.numerics.quadrature import unit_rule
from unlazy.numerics.roots import expanded, increasing_root

_FACTOR = 16.0
_NEAR = 1.0
_SMALL_PENALTY = 1e-3
_LARGEST_NOISE = 1e150
_QUADRATURE = 16


class LassoStateEvolution(NamedTuple):
    """Limits of the fit; every field has the broadcast shape of the arguments."""

    effective_noise_deviation: np.ndarray
    """tau: the fit is that of each coefficient seen alone with normal noise of standard deviation tau."""
    relative_threshold: np.ndarray
    """theta: coefficients are soft-thresholded at theta tau; infinite where y = 0, so that tau = 0."""
    coefficient_error: np.ndarray
    """Mean squared error of a coefficient."""
    selected_share: np.ndarray
    """Share of coefficients that the fit does not set to 0."""
    training_error: np.ndarray
    """|y - A s|^2 / n."""
    risk: np.ndarray
    """Squared error of a new row against its noiseless value, tau^2 - noise_variance."""


def lasso_state_evolution(
    nonzero_share: ArrayLike, samples_per_dimension: ArrayLike, l1_penalty: ArrayLike, noise_variance: ArrayLike
) -> LassoStateEvolution:
    """Errors and support of argmin |y - A s|^2 / 2 + l1_penalty |s|_1 for y = A s* + noise, A_ij ~ N(0, 1/n).

    With ratio = n/d, d coefficients s* that are N(0, 1) with probability `nonzero_share` and else 0, eta the soft
    threshold at theta tau and P = P(eta != 0),

        tau^2 = noise_variance + E (eta(s* + tau z) - s*)^2 / ratio,      l1_penalty = theta tau (1 - P / ratio),
        training error = tau^2 (1 - P / ratio)^2.

    The penalty multiplies the sum, not the mean: scikit-learn's `Lasso(alpha=l1_penalty / n)`. All arguments broadcast;
    l1_penalty must be at least 1e-100, noise may be 0. Exact as n and d grow at a fixed ratio. Source: Bayati &
    Montanari (2012), "The LASSO risk for Gaussian matrices", Theorem 1.5 and Corollary 1.6.

    >>> found = lasso_state_evolution(0.1, samples_per_dimension=[0.6, 1], l1_penalty=0.2, noise_variance=0.04)
    >>> print(found.risk.round(4), found.selected_share.round(4))
    [0.0296 0.0145] [0.2493 0.2858]
    """
    arguments = {
        "nonzero_share": check_array("nonzero_share", nonzero_share, low=0, high=1),
        "samples_per_dimension": check_array("samples_per_dimension", samples_per_dimension, above=0, high=1e6),
        "l1_penalty": check_array("l1_penalty", l1_penalty, low=1e-100, high=1e6),
        "noise_variance": check_array("noise_variance", noise_variance, low=0, high=1e6),
    }
    shape = common_shape(**arguments)
    density, ratio, penalty, noise = (np.broadcast_to(a, shape).ravel() for a in arguments.values())
    tau, theta, mse, share, unused = (np.zeros(ratio.size) for _ in range(5))
    theta[:] = np.inf
    noisy = (density > 0) | (noise > 0)
    sparse = noisy & (penalty >= _SMALL_PENALTY * np.sqrt(noise))
    for rows, solve in ((sparse, _penalty_first), (noisy & ~sparse, _noise_first)):
        if rows.any():
            problem = _LassoProblem(*(array[rows] for array in (ratio, penalty, density, noise)))
            tau[rows], theta[rows] = solve(problem)
            found = _averages(theta[rows], tau[rows], problem.density)
            mse[rows], share[rows] = tau[rows] ** 2 * found.error, found.share
            unused[rows] = problem.penalty / (theta[rows] * tau[rows])
    fields = (tau, theta, mse, share, (tau * unused) ** 2, mse / ratio)
    return LassoStateEvolution(*(field.reshape(shape)[()] for field in fields))


class _LassoProblem(NamedTuple):
    ratio: np.ndarray
    penalty: np.ndarray
    density: np.ndarray
    noise: np.ndarray


def _penalty_first(problem: _LassoProblem) -> tuple[np.ndarray, np.ndarray]:
    """tau and theta: tau from the equation of the penalty at each theta, then theta from that of tau.

    For little noise: without noise, tau of the other equation leaves 0 at some theta with an infinite relative slope.
    theta = least + excess, and the excess is the unknown, as small as it may be.
    """
    from scipy.special import ndtri

    # below it a fit of pure noise would have more nonzeros than samples
    least = np.where(problem.ratio < 1, -ndtri(np.minimum(problem.ratio, 1.0) / 2), 0.0)
    arguments = (least, *problem)

    def missing(excess: np.ndarray, least: np.ndarray, *case: np.ndarray) -> np.ndarray:
        problem = _LassoProblem(*case)
        return _missing(least + excess, _noise_at(excess, least, *case), problem)

    start = np.ones(least.size)
    low = expanded(lambda x: missing(x, *arguments) < 0, start, 1 / _FACTOR)
    high = expanded(lambda x: missing(x, *arguments) > 0, start, _FACTOR)
    excess = increasing_root(missing, low, high, *arguments)
    return _noise_at(excess, *arguments), least + excess


def _noise_first(problem: _LassoProblem) -> tuple[np.ndarray, np.ndarray]:
    """tau and theta: tau from its own equation at each theta, then theta from that of the penalty.

    For little penalty: with it, P / ratio nears 1, of which tau would be a function without any digits.
    """

    def noise_of(theta: np.ndarray, problem: _LassoProblem) -> np.ndarray:
        """tau, infinite where theta is too small for a solution."""
        low, high = np.sqrt(problem.noise) * (1 - 1e-12), np.full_like(theta, _LARGEST_NOISE)
        solvable = _missing(theta, high, problem) < 0
        tau = np.full_like(theta, np.inf)
        if solvable.any():
            rows = [array[solvable] for array in (low, high, theta, *problem)]
            tau[solvable] = increasing_root(
                lambda tau, theta, *case: -_missing(theta, tau, _LassoProblem(*case)), *rows
            )
        return tau

    def reached(theta: np.ndarray, *case: np.ndarray) -> np.ndarray:
        """What theta stands for as a penalty, over the penalty, minus 1."""
        problem = _LassoProblem(*case)
        tau = noise_of(theta, problem)
        solvable = np.isfinite(tau)
        zeros = _averages(theta, np.where(solvable, tau, 1.0), problem.density).zeros
        unused = (problem.ratio - 1 + zeros) / problem.ratio
        return np.where(solvable, theta * np.where(solvable, tau, 1.0) * unused / problem.penalty, -np.inf) - 1

    start = np.ones(problem.ratio.size)
    low = expanded(lambda x: reached(x, *problem) < 0, start, 1 / _FACTOR)
    high = expanded(lambda x: reached(x, *problem) > 0, start, _FACTOR)
    theta = increasing_root(reached, low, high, *problem)
    # where no double number solves it, the side on which there is a solution
    theta = np.where(np.isfinite(noise_of(theta, problem)), theta, theta * (1 + 1e-15))
    return noise_of(theta, problem), theta


def _missing(theta: np.ndarray, tau: np.ndarray, problem: _LassoProblem) -> np.ndarray:
    """(noise + mse / ratio) / tau^2 - 1, which falls with tau and rises with theta."""
    ratio, _, density, noise = problem
    found = _averages(theta, tau, density)
    with np.errstate(over="ignore"):
        # of few samples the error is far below 1, and its excess has none of its digits
        small = (np.sqrt(noise) / tau) ** 2 - 1 + found.error / ratio
        return np.where(found.error < 0.5, small, (np.sqrt(noise) / tau) ** 2 + (found.excess - (ratio - 1)) / ratio)


def _noise_at(
    excess: np.ndarray,
    least: np.ndarray,
    ratio: np.ndarray,
    penalty: np.ndarray,
    density: np.ndarray,
    noise: np.ndarray,
) -> np.ndarray:
    """tau of theta tau (1 - P / ratio) = penalty, of which the left side rises with tau where it is positive."""
    theta = least + excess
    # 1 - P / ratio for an infinite tau
    largest = (np.maximum(ratio - 1, 0.0) + 2 * _probability(least, excess)) / ratio

    def lacking(tau: np.ndarray, *case: np.ndarray) -> np.ndarray:
        theta, largest, ratio, penalty, density = case
        scaled = theta / np.hypot(1, 1 / tau)
        shift = theta / (np.hypot(1, tau) * (np.hypot(1, tau) + tau))
        return theta * tau * (largest - 2 * density * _probability(scaled, shift) / ratio) / penalty - 1

    low = penalty / (theta * largest)
    high = np.maximum(2 * low, np.sqrt(density * theta / (ratio * largest)))
    return increasing_root(lacking, low * (1 - 1e-12), high * (1 + 1e-12), theta, largest, ratio, penalty, density)


def _probability(start: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Phi(start + width) - Phi(start) for start, width >= 0, to all digits also where the width is small."""
    from scipy.special import ndtr

    points, weights = unit_rule(_QUADRATURE)
    short = np.minimum(width, _NEAR)
    places = start[:, None] + short[:, None] * points
    inside = short * (np.exp(-(places**2) / 2) @ weights) / np.sqrt(2 * np.pi)
    return np.where(width <= _NEAR, inside, ndtr(-start) - ndtr(-start - width))


class _Averages(NamedTuple):
    error: np.ndarray
    """E (eta - s*)^2 / tau^2."""
    excess: np.ndarray
    """The same minus 1."""
    share: np.ndarray
    """P(eta != 0)."""
    zeros: np.ndarray
    """P(eta = 0)."""


def _averages(theta: np.ndarray, tau: np.ndarray, density: np.ndarray) -> _Averages:
    from scipy.special import ndtr

    total = np.hypot(1, tau)
    parts = []
    no_signal = (theta, np.ones_like(theta), np.zeros_like(theta))
    for x, stretch, unit in (no_signal, (theta * (tau / total), total / tau, 1 / total)):
        # x = T / total; all but tau^2 + T^2 is of higher order at small x, and what would cancel is an integral
        small, gauss, tail = np.minimum(x, 1.0), np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), ndtr(-x)
        inner = _probability(np.zeros_like(x), small)
        close = theta**2 - 2 * (1 + theta**2) * inner - 2 * small * gauss
        close += 2 * _third_order(small) * small * (theta * unit) ** 2
        with np.errstate(over="ignore", invalid="ignore"):
            pure = np.maximum(2 * ((1 + x**2) * tail - x * gauss), 0.0)
            far = stretch**2 * pure + (1 - 4 * tail) * (unit * stretch) ** 2
        near = x < 1
        parts.append(
            (
                np.where(near, 1 + close, far),
                np.where(near, close, far - 1),
                2 * tail,
                np.where(near, 2 * inner, 1 - 2 * tail),
            )
        )
    return _Averages(*((1 - density) * none + density * signal for none, signal in zip(*parts, strict=True)))


def _third_order(x: np.ndarray) -> np.ndarray:
    """(Phi(x) - 1/2 - x phi(x)) / x^3 for 0 <= x <= 1, as the integral of u^2 phi(x u) over u from 0 to 1."""
    points, weights = unit_rule(_QUADRATURE)
    return np.exp(-((x[:, None] * points) ** 2) / 2) @ (points**2 * weights) / np.sqrt(2 * np.pi)
