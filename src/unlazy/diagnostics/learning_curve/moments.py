"""Learning curves of ridge regression from the moments of a population: no rows, no kernel matrix."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_symmetric
from unlazy.diagnostics.curves import FEWEST_ROWS
from unlazy.diagnostics.learning_curve import pages
from unlazy.diagnostics.learning_curve.results import Alignment, BestPenalty
from unlazy.diagnostics.learning_curve.theory import CurveLists, Theory, one_size
from unlazy.numerics.roots import scalar_minimum
from unlazy.theory.regression.ridge import RidgeEquivalent, ridge_curve_by_effective_ridge, ridge_equivalent

_PENALTIES = 400
# kappa of the search for the best penalty, in units of the largest eigenvalue and of the trace
_SMALLEST, _LARGEST = 1e-9, 1e3
_ROUNDING = 1e-9


class PopulationMoments(NamedTuple):
    """A population in the eigenbasis of its covariance."""

    spectrum: np.ndarray
    """Eigenvalues above 0, ascending."""
    coefficients: np.ndarray
    """Squared weights of the best linear predictor along them, summed over outputs."""
    noise_variance: float
    """What no linear predictor explains."""
    target_variance: float
    outputs: int


def population_moments(covariance: ArrayLike, cross_moment: ArrayLike, target_variance: float) -> PopulationMoments:
    """Omega = E x x^T, u = E x y and E y^2 in the eigenbasis of Omega, or a refusal where no population has them."""
    matrix = check_symmetric("covariance", covariance, largest=1e100)
    d = len(matrix)
    if not matrix.any():
        raise InputError("covariance must have an eigenvalue > 0, got only zeros")
    cross = check_array("cross_moment", cross_moment, high=1e100, low=-1e100)
    if cross.ndim > 2 or cross.ndim == 0 or len(cross) != d:
        raise InputError(f"cross_moment must have shape ({d},) or ({d}, outputs), got shape {cross.shape}")
    variance = float(check_array("target_variance", target_variance, above=0, high=1e100, ndim=0))
    eigenvalues, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if eigenvalues[0] < -_ROUNDING * eigenvalues[-1]:
        raise InputError(f"covariance must be positive semi-definite, got the eigenvalue {eigenvalues[0]:g}")
    reached = eigenvalues > d * np.finfo(np.float64).eps * eigenvalues[-1]
    products = np.sum((vectors.T @ cross.reshape(d, -1)) ** 2, axis=1)
    if products[~reached].sum() > _ROUNDING**2 * eigenvalues[-1] * variance:
        raise InputError("cross_moment must lie in the range of covariance, got a part along its null vectors")
    spectrum = eigenvalues[reached]
    explained = float(np.sum(products[reached] / spectrum))
    if explained > variance * (1 + _ROUNDING):
        raise InputError(
            f"target_variance must be >= {explained:g}, which u.Omega^-1.u says is explained, got {variance:g}"
        )
    return PopulationMoments(
        spectrum,
        products[reached] / spectrum**2,
        max(variance - explained, 0.0),
        variance,
        cross.reshape(d, -1).shape[1],
    )


class MomentsTheory(Theory):
    """A population by its moments."""

    has_intervals = False
    without_matrix = "the kernel matrix of rows, and moments have none"
    page = pages.MOMENTS

    def __init__(self, moments: PopulationMoments):
        self.moments = moments

    def predict(self, n: np.ndarray, penalty: np.ndarray, width: np.ndarray, method: str) -> CurveLists:
        if np.isfinite(width).any():
            raise InputError(f"width must be None for moments of a population, got {width[0]:g}")
        used = penalty.copy()
        for size in np.unique(n[np.isnan(penalty)]):
            used[np.isnan(penalty) & (n == size)] = self.best_penalty(float(size)).penalty
        found = self._equivalent(n, used)
        error = found.risk + self.moments.noise_variance
        training = np.asarray(found.training_error)
        in_range = np.isfinite(error)
        reliable = in_range & (n >= FEWEST_ROWS)
        deviation = np.where(in_range, np.nan, 0.0)
        kinds = np.full(n.shape, "moments", dtype="<U9")
        return CurveLists(used, error, deviation, training, in_range, reliable, kinds)

    def best_penalty(self, n: float) -> BestPenalty:
        """Of least error, by effective penalty: on a grid, then between its neighbours."""
        spectrum = self.moments.spectrum
        least = float(ridge_equivalent(spectrum, 0.0, n, 0.0, 0.0).effective_ridge)
        low = max(least * (1 + 1e-6), _SMALLEST * spectrum[-1])
        grid = np.geomspace(low, max(_LARGEST * spectrum.sum(), 2 * low), _PENALTIES)

        def error(effective: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            curve = ridge_curve_by_effective_ridge(
                spectrum, self.moments.coefficients, n, effective, self.moments.noise_variance
            )
            return np.asarray(curve.ridge), np.asarray(curve.equivalent.risk + self.moments.noise_variance)

        penalties, errors = error(grid)
        best = int(np.argmin(errors))
        if best in (0, _PENALTIES - 1):
            return BestPenalty(float(n * penalties[best]), float(errors[best]), "largest" if best else "smallest")
        ends = math.log(grid[best - 1]), math.log(grid[best + 1])
        place, value = scalar_minimum(lambda log: float(error(math.exp(log))[1]), *ends, 1e-7)
        return BestPenalty(float(n * error(math.exp(place))[0]), value, "inside")

    def noise_estimate(self) -> tuple[float, float]:
        return self.moments.noise_variance, math.nan

    def alignment(self, n: ArrayLike, penalty: Any) -> Alignment:
        size, level = one_size(n, penalty)
        kappa = float(self._equivalent(np.array([size]), np.array([level])).effective_ridge[0])
        spectrum = self.moments.spectrum
        return Alignment.at(spectrum, spectrum * self.moments.coefficients, kappa)

    def _equivalent(self, n: np.ndarray, penalty: np.ndarray) -> RidgeEquivalent:
        moments = self.moments
        return ridge_equivalent(moments.spectrum, moments.coefficients, n, penalty / n, moments.noise_variance)
