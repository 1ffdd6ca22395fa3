"""The eigenvalues of the feature covariance of planted weights, next to the law of their bulk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.theory.one_step.spiked.spectrum import feature_outliers, feature_spectrum
from unlazy.training.one_step.planted import planted_weights


def covariance_eigenvalues(
    rng: np.random.Generator, spikes: Sequence[float], *, activation: str, n: int, d: int, width: int
) -> np.ndarray:
    """Those of F^T F / n in increasing order, F = sigma(X W) with the spikes planted in W along the target."""
    weights = planted_weights(rng, spikes, d, width, cosine=1.0)
    hidden = as_activation(activation)(rng.standard_normal((n, d)) @ weights)
    return np.sort(np.maximum(np.linalg.eigvalsh(hidden.T @ hidden / n), 0.0))


def against_the_bulk(values: np.ndarray, **setting: Any) -> dict[str, float]:
    """Kolmogorov distance to the law of the bulk, and the ends of all eigenvalues and of the bulk.

    The bulk ends half-way, in logarithms, between its predicted end and the outliers.
    """
    outliers = feature_outliers(**setting)
    limit = np.sqrt(outliers.bulk_edge * outliers.outliers[-1]) if outliers.outliers.size else np.inf
    points = np.quantile(values[values > 1e-9], np.linspace(0.02, 0.98, 33))
    law = feature_spectrum(**setting, eigenvalue=points).distribution
    empirical = np.searchsorted(values, points, side="right") / len(values)
    distance = np.abs(empirical - law).max()
    return {"bulk_distance": distance, "largest_eigenvalue": values[-1], "bulk_edge": values[values < limit][-1]}
