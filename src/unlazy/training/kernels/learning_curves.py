"""Learning curves of kernel regression on real rows: what training gives, and two ways to guess it without theory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.numerics.ridge import ridge_solutions


def kernel_of(kernel: str, inputs: np.ndarray) -> np.ndarray:
    """The kernel matrix, with the width that fits the spread of the rows; rbf, narrow rbf, laplacian or poly."""
    from sklearn.metrics import pairwise

    width = 1 / (inputs.shape[1] * inputs.var())
    if kernel == "laplacian":
        return pairwise.laplacian_kernel(inputs, gamma=0.5 * width)
    if kernel == "poly":
        return pairwise.polynomial_kernel(inputs, degree=3, gamma=width, coef0=1) / 8
    return pairwise.rbf_kernel(inputs, gamma=width if kernel == "rbf" else 5 * width)


def trained(
    rng: np.random.Generator, kernel: np.ndarray, targets: np.ndarray, n: int, penalties: Sequence[float], splits: int
) -> np.ndarray:
    """The mean test error of training on n random rows and testing on the others; a split serves all penalties."""
    errors = np.zeros(len(penalties))
    for _ in range(splits):
        order = rng.permutation(len(kernel))
        train, test = order[:n], order[n:]
        fits = kernel[np.ix_(test, train)] @ ridge_solutions(kernel[np.ix_(train, train)], targets[train], penalties)
        errors += np.mean(np.sum((fits - targets[test]) ** 2, axis=2), axis=1)
    return errors / splits


def power_law_forecast(
    rng: np.random.Generator,
    kernel: np.ndarray,
    targets: np.ndarray,
    sizes: Sequence[int],
    penalties: Sequence[float],
    splits: int,
) -> np.ndarray:
    """a + b n^-c fitted to the curve of subsampled training, shape (penalties, sizes): what one does without theory."""
    from scipy.optimize import least_squares

    shares = (0.2, 0.35, 0.5, 0.65, 0.8)
    seen = np.array([max(2, int(share * len(kernel))) for share in shares])
    curve = np.array([trained(rng, kernel, targets, n, penalties, splits) for n in seen])
    found = []
    for errors in curve.T:

        def residuals(parameters: np.ndarray, errors: np.ndarray = errors) -> Any:
            floor, height, decay = np.exp(parameters)
            return np.log(floor + height * (seen / seen[-1]) ** -decay) - np.log(errors)

        start = np.log([0.5 * errors[-1], 0.5 * errors[-1], 0.5])
        floor, height, decay = np.exp(least_squares(residuals, start, bounds=(-20, 5)).x)
        found.append(floor + height * (np.asarray(sizes) / seen[-1]) ** -decay)
    return np.array(found)


def eigenlearning_forecast(
    kernel: np.ndarray, targets: np.ndarray, sizes: Sequence[int], penalties: Sequence[float]
) -> np.ndarray:
    """The population formula with the pool's eigenvalues in place of the population's, shape (penalties, sizes)."""
    from unlazy.theory.kernels.random_features import kernel_regression_equivalent

    eigenvalues, vectors = np.linalg.eigh(kernel)
    energies = np.sum((vectors.T @ targets) ** 2, axis=1) / len(kernel)
    kept = np.maximum(eigenvalues, 0.0) / len(kernel)
    return kernel_regression_equivalent(kept, energies, np.asarray(sizes), np.asarray(penalties)[:, None], 0.0).risk
