"""Linear fits of odd against even digits and of Gaussian rows with the same moments, for nested sets of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.data.digit_parity import digit_moments, digits, gaussian_clusters, gaussian_regression
from unlazy.numerics.convex_fits import convex_fit
from unlazy.numerics.ridge import ridge_coefficients


class DigitErrors(NamedTuple):
    """Arrays (n, penalty)."""

    test_error: np.ndarray
    """Of the fit to digits."""
    surrogate_error: np.ndarray
    """Of the fit to Gaussian rows, exactly."""
    training_loss: np.ndarray
    """Of the fit to digits."""


def ridge_errors(rng: np.random.Generator, n: Sequence[int], penalty: Sequence[float]) -> DigitErrors:
    """Squared errors on all images of fits |targets - rows w|^2 + penalty |w|^2 to images drawn with replacement."""
    pool, (covariance, cross, square) = digits(), digit_moments()
    most, targets = max(n), pool.targets
    drawn = rng.integers(0, len(pool.inputs), most)
    gaussian, gaussian_targets = gaussian_regression(rng, most)
    found = DigitErrors(*np.empty((3, len(n), len(penalty))))
    for i, size in enumerate(n):
        rows, labels = pool.inputs[drawn[:size]], targets[drawn[:size]]
        weights = _ridge_weights(rows, labels, penalty)
        found.test_error[i] = np.mean((targets[:, None] - pool.inputs @ weights) ** 2, axis=0)
        found.training_loss[i] = np.mean((labels[:, None] - rows @ weights) ** 2, axis=0)
        other = _ridge_weights(gaussian[:size], gaussian_targets[:size], penalty)
        found.surrogate_error[i] = square - 2 * cross @ other + np.sum(other * (covariance @ other), axis=0)
    return found


def logistic_errors(rng: np.random.Generator, n: Sequence[int], penalty: Sequence[float]) -> DigitErrors:
    """Shares of wrong labels among the images not drawn, of fits with bias to images drawn without replacement."""
    from scipy.special import ndtr

    pool = digits()
    order = rng.permutation(len(pool.inputs))
    gaussian, signs = gaussian_clusters(rng, max(n))
    found = DigitErrors(*np.empty((3, len(n), len(penalty))))
    for i, size in enumerate(n):
        seen, unseen = order[:size], order[size:]
        for j, strength in enumerate(penalty):
            weights, bias = convex_fit("logistic", pool.inputs[seen], pool.labels[seen], strength, fit_intercept=True)
            margins = pool.labels * (pool.inputs @ weights + bias)
            found.test_error[i, j] = np.mean(margins[unseen] < 0)
            found.training_loss[i, j] = np.mean(np.logaddexp(0, -margins[seen]))
            weights, bias = convex_fit("logistic", gaussian[:size], signs[:size], strength, fit_intercept=True)
            centres = np.array([-1.0, 1.0]) * (pool.class_means @ weights + bias)
            spread = np.sqrt(np.einsum("i,cij,j->c", weights, pool.class_covariances, weights))
            found.surrogate_error[i, j] = pool.class_shares @ ndtr(-centres / spread)
    return found


def _ridge_weights(rows: np.ndarray, targets: np.ndarray, penalty: Sequence[float]) -> np.ndarray:
    """Weights (columns, penalties)."""
    return ridge_coefficients(rows, targets, penalty).T
