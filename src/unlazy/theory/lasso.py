"""The LASSO in high dimension: its errors and the number of nonzeros without drawing data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.errors import check_array, common_shape
from unlazy.numerics.roots import increasing_root

_LEAST_THRESHOLD = 1e-9
_LARGEST_NOISE = 1e12


class LassoStateEvolution(NamedTuple):
    """Limits of the fit; every field has the broadcast shape of the arguments."""

    effective_noise: np.ndarray
    """tau: the fit is that of each coefficient seen alone with normal noise of standard deviation tau."""
    threshold: np.ndarray
    """theta: coefficients are soft-thresholded at theta tau."""
    mse: np.ndarray
    """Mean squared error per coefficient."""
    nonzeros: np.ndarray
    """Share of coefficients that are not 0."""
    train_mse: np.ndarray
    """|y - A s|^2 / n."""
    prediction_error: np.ndarray
    """Excess test error of a new row, tau^2 - noise_variance."""


def lasso_state_evolution(
    ratio: ArrayLike, penalty: ArrayLike, density: ArrayLike, noise_variance: ArrayLike
) -> LassoStateEvolution:
    """Errors and support of argmin |y - A s|^2 / 2 + penalty |s|_1 for y = A s* + noise, A_ij ~ N(0, 1/n).

    With `ratio` n/p, coefficients s* that are N(0, 1) with probability `density` and else 0, eta the soft threshold at
    theta tau and P = P(eta != 0),

        tau^2 = noise_variance + E (eta(s* + tau z) - s*)^2 / ratio,      penalty = theta tau (1 - P / ratio),
        train mse = tau^2 (1 - P / ratio)^2.

    The penalty multiplies the sum, not the mean: scikit-learn's `Lasso(alpha=penalty / n)`. All arguments broadcast;
    penalty and noise_variance must be > 0. Exact as n and p grow at a fixed ratio. Source: Bayati & Montanari (2012),
    "The LASSO risk for Gaussian matrices", Theorem 1.5 and Corollary 1.6.
    """
    arguments = {
        "ratio": check_array("ratio", ratio, above=0, high=1e6),
        "penalty": check_array("penalty", penalty, above=0, high=1e6),
        "density": check_array("density", density, low=0, high=1),
        "noise_variance": check_array("noise_variance", noise_variance, above=0, high=1e6),
    }
    shape = common_shape(**arguments)
    ratio, penalty, density, noise = (np.broadcast_to(a, shape).ravel() for a in arguments.values())

    def excess(theta: np.ndarray, *case: np.ndarray) -> np.ndarray:
        ratio, penalty, density, noise = case
        tau = _effective_noise(theta, ratio, density, noise)
        share = _average(theta, np.where(np.isfinite(tau), tau, 1.0), density)[1]
        reached = np.where(np.isfinite(tau), theta * tau * (1 - share / ratio), -np.inf)
        return reached - penalty

    most = 10 + 4 * penalty / np.sqrt(noise)
    theta = increasing_root(excess, np.full_like(most, _LEAST_THRESHOLD), most, ratio, penalty, density, noise)
    tau = _effective_noise(theta, ratio, density, noise)
    mse, share = _average(theta, tau, density)
    fields = (tau, theta, mse, share, (tau * (1 - share / ratio)) ** 2, mse / ratio)
    return LassoStateEvolution(*(field.reshape(shape)[()] for field in fields))


def _average(theta: np.ndarray, tau: np.ndarray, density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E (eta - s*)^2 and P(eta != 0)."""
    from scipy.special import ndtr

    mse, share = np.zeros_like(tau), np.zeros_like(tau)
    threshold = theta * tau
    for weight, variance in ((1 - density, 0.0), (density, 1.0)):
        total = variance + tau**2
        scaled = threshold / np.sqrt(total)
        tail = ndtr(-scaled)
        density_at = np.exp(-(scaled**2) / 2) / np.sqrt(2 * np.pi)
        square = 2 * total * ((1 + scaled**2) * tail - scaled * density_at)
        mse += weight * (square - 4 * variance * tail + variance)
        share += weight * 2 * tail
    return mse, share


def _effective_noise(theta: np.ndarray, ratio: np.ndarray, density: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """tau, infinite where the threshold is too small for a solution."""

    def excess(tau: np.ndarray, theta: np.ndarray, *case: np.ndarray) -> np.ndarray:
        ratio, density, noise = case
        return tau**2 - noise - _average(theta, tau, density)[0] / ratio

    tau = np.full_like(theta, np.inf)
    most = np.full_like(theta, _LARGEST_NOISE)
    solvable = excess(most, theta, ratio, density, noise) > 0
    if solvable.any():
        case = (array[solvable] for array in (theta, ratio, density, noise))
        tau[solvable] = increasing_root(excess, np.sqrt(noise[solvable]) * (1 - 1e-12), most[solvable], *case)
    return tau
