"""Where the path of a metric starts: scale and shape of the first metric, and a first noise level, by evidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

EXPONENTS = (-1.0, 0.0, 1.0, 2.0)
"""Exponents e of the first metric m_j ~ variance_j^e: standardised features, ridge, and two that trust variance."""
_RATIOS = np.logspace(-6, 6, 121)
_LEFT_OUT_FACTORS = np.logspace(-2, 2, 33)


class StartMetric(NamedTuple):
    """The metric tau w_j of step 0."""

    exponent: float
    scale: float
    """tau."""
    noise_variance: float
    """The noise variance at which evidence is largest, kept in [0.1, 0.9] of the variance of the targets."""


class _ScalarEvidence(NamedTuple):
    objective: float
    scale: float
    noise_variance: float


def start_metric(kernels: dict[float, np.ndarray], targets: np.ndarray) -> StartMetric:
    """The exponent whose kernel X diag(variance^e) X^T explains the targets best, with its scale and noise level.

    tau and s2 minimise n log s2 + log det(I + rho K) with rho = tau/s2 and s2 = tr[T (I + rho K)^-1]/n, the
    evidence of y ~ N(0, tau K + s2 I) maximised over s2. The scale is kept in [0.02, 100] of what would let the
    prior explain all of the targets. `kernels` and targets are centred.
    """
    variance = float(np.mean(targets**2))
    best: tuple[float, StartMetric] | None = None
    for exponent, kernel in kernels.items():
        found = _scalar_evidence(kernel, targets)
        mean_square = float(np.trace(kernel)) / len(kernel)
        if mean_square <= 0 or variance <= 0:
            continue
        scale = float(np.clip(found.scale, 0.02 * variance / mean_square, 100 * variance / mean_square))
        noise = float(np.clip(found.noise_variance, 0.1 * variance, 0.9 * variance))
        if best is None or found.objective < best[0]:
            best = found.objective, StartMetric(exponent, scale, noise)
    return StartMetric(next(iter(kernels)), 1.0, 1.0) if best is None else best[1]


def centred_kernel(kernel: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The kernel of some rows after their mean is subtracted."""
    part = kernel[np.ix_(rows, rows)]
    part = part - part.mean(axis=0)
    return part - part.mean(axis=1, keepdims=True)


def left_out_penalty(eigenvalues: np.ndarray, vectors: np.ndarray, targets: np.ndarray, penalty: float) -> float:
    """The penalty c near the given one with the least leave-one-out error for a centred kernel K = V diag(l) V^T.

        residual_i = (G y)_i / (G_ii - 1/(n c)),   G = (K + c I)^-1,

    where 1/(n c) stands for the mean, which is relearned without the row too.
    """
    n = len(vectors)
    projected = vectors.T @ targets
    best = np.inf, penalty
    for candidate in penalty * _LEFT_OUT_FACTORS:
        inverse = candidate / (eigenvalues + candidate)
        diagonal = np.maximum(vectors**2 @ inverse - 1 / n, np.finfo(np.float64).eps)
        residual = vectors @ (inverse[:, None] * projected) / diagonal[:, None]
        best = min(best, (float(np.mean(residual**2)), float(candidate)))
    return best[1]


def _scalar_evidence(kernel: np.ndarray, targets: np.ndarray) -> _ScalarEvidence:
    n = len(kernel)
    eigenvalues, vectors = np.linalg.eigh(kernel)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    energies = np.mean((vectors.T @ targets) ** 2, axis=1)
    mean = eigenvalues.mean()
    ratios = _RATIOS / (mean if mean > 0 else 1.0)
    total = 1 + ratios[:, None] * eigenvalues
    noise = np.maximum(np.mean(energies / total, axis=1), 1e-300)
    objective = n * np.log(noise) + np.log(total).sum(axis=1)
    i = int(np.argmin(objective))
    return _ScalarEvidence(float(objective[i]), float(ratios[i] * noise[i]), float(noise[i]))
