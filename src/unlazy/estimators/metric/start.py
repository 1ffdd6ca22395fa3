"""Where the path of a metric starts: scale and shape of the first metric, and a first noise level, by evidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.ridge import left_out_residuals

EXPONENTS = (-1.0, 0.0, 1.0, 2.0)
"""Exponents e of the first metric m_j ~ variance_j^e: standardised features, ridge, and two that trust variance."""
_RATIOS = np.logspace(-6, 6, 121)
_LEAST_NOISE = 1e-300
_LEFT_OUT_FACTORS = np.logspace(-8, 4, 49)


class StartMetric(NamedTuple):
    """The metric tau w_j of step 0."""

    exponent: float
    scale: float
    """tau."""
    noise_variance: float
    """The noise variance at which evidence is largest, kept in [0.1, 0.9] of the variance of the targets."""


class Starts(NamedTuple):
    """The start with the largest evidence, and ridge: exponent 0, or the only one there is."""

    best: StartMetric
    ridge: StartMetric


class ScalarEvidence(NamedTuple):
    """The largest evidence of a metric tau I, as minus twice a log-likelihood without constants."""

    objective: float
    scale: float
    """tau."""
    noise_variance: float


def start_metrics(
    kernels: dict[float, np.ndarray], targets: np.ndarray, n: int | None = None, outside: float = 0.0
) -> Starts:
    """The exponent whose kernel X diag(variance^e) X^T explains the targets best, with its scale and noise level.

    Both are those of `scalar_evidence`; the scale is kept in [0.02, 100] of what would let the prior explain all of
    the targets. `kernels` and targets are centred. Of n rows that span few dimensions, kernels and targets in an
    orthonormal basis of that span are enough, with the sum of squares of the targets `outside`, mean over tasks.
    """
    plain = 0.0 if 0.0 in kernels else next(iter(kernels))
    n = len(targets) if n is None else n
    variance = float(np.sum(targets**2) / targets.shape[1] + outside) / n
    found: dict[float, tuple[float, StartMetric]] = {}
    for exponent, kernel in kernels.items():
        mean_square = float(np.trace(kernel)) / n
        if mean_square <= 0 or variance <= 0:
            continue
        eigenvalues, vectors = np.linalg.eigh(kernel)
        energies = np.mean((vectors.T @ targets) ** 2, axis=1)
        objective, scale, noise = scalar_evidence(np.maximum(eigenvalues, 0.0), energies, n, outside)
        scale = float(np.clip(scale, 0.02 * variance / mean_square, 100 * variance / mean_square))
        noise = float(np.clip(noise, 0.1 * variance, 0.9 * variance))
        found[exponent] = objective, StartMetric(exponent, scale, noise)
    ridge = found[plain][1] if plain in found else StartMetric(plain, 1.0, 1.0)
    return Starts(min(found.values())[1] if found else ridge, ridge)


def scalar_evidence(
    eigenvalues: np.ndarray, energies: np.ndarray, count: float, outside: float = 0.0
) -> ScalarEvidence:
    """The evidence of y ~ N(0, tau K + s2 I), maximised over tau and s2.

    With the eigenvalues l_i of K, y's energies e_i along its eigenvectors and rho = tau/s2 it minimises

        count log s2 + sum_i log(1 + rho l_i),   s2 = sum_i e_i/(1 + rho l_i) / count

    over 121 values of rho. `count` is the number of rows, less those that means took; `outside` is the energy along
    eigenvectors of eigenvalue 0 that are not listed.
    """
    # where eigenvalues are not listed the mean is over all rows
    mean = eigenvalues.sum() / (count if outside else len(eigenvalues))
    best = ScalarEvidence(np.inf, 1.0, 1.0)
    for ratio in _RATIOS / (mean if mean > 0 else 1.0):
        total = 1 + ratio * eigenvalues
        noise = max((float(np.sum(energies / total)) + outside) / count, _LEAST_NOISE)
        objective = count * np.log(noise) + float(np.log(total).sum())
        if objective < best.objective:
            best = ScalarEvidence(objective, float(ratio * noise), noise)
    return best


def centred_kernel(kernel: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The kernel of some rows after their mean is subtracted."""
    part = kernel[np.ix_(rows, rows)]
    part = part - part.mean(axis=0)
    return part - part.mean(axis=1, keepdims=True)


def left_out_penalty(eigenvalues: np.ndarray, vectors: np.ndarray, targets: np.ndarray) -> float:
    """The penalty c with the least leave-one-out error for a centred kernel K = V diag(l) V^T.

    49 penalties from 1e-8 to 1e4 of the mean of the eigenvalues are compared; V may leave out eigenvalues that are 0.
    """
    n = len(vectors)
    penalties = (float(eigenvalues.sum() / n) or 1.0) * _LEFT_OUT_FACTORS
    if len(eigenvalues) < n:
        projected, squares, errors = vectors.T @ targets, vectors**2, []
        for penalty in penalties:
            learned = eigenvalues / (eigenvalues + penalty)
            weights = np.maximum(1 - 1 / n - squares @ learned, np.finfo(np.float64).eps)
            residuals = targets - vectors @ (learned[:, None] * projected)
            errors.append(float(np.mean((residuals / weights[:, None]) ** 2)))
        return float(penalties[np.argmin(errors)])
    found = left_out_residuals(eigenvalues, vectors, targets, penalties, len(vectors))
    return float(penalties[np.argmin([np.mean(residual**2) for residual, _ in found])])
