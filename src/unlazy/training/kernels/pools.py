"""Errors that are predicted from a pool of rows and trained on more, or fewer, of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlazy.training.kernels.learning_curves import eigenlearning_forecast, kernel_of, power_law_forecast, trained

Forecast = Callable[[np.ndarray, np.ndarray, list[int], tuple, str], np.ndarray]
"""Kernel matrix and labels of a pool, sizes, penalties and a method -> errors (penalties, sizes)."""


def inside_a_pool(
    rng: np.random.Generator,
    forecast: Forecast,
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    kernel: str,
    pool_size: int,
    pool_shares: Sequence[float],
    penalties: tuple[float, ...],
    splits: int,
) -> dict[str, np.ndarray]:
    """Predict from a random pool, then train on random parts of it."""
    rows = rng.permutation(len(inputs))[:pool_size]
    matrix = kernel_of(kernel, inputs[rows])
    labels = targets[rows] - targets[rows].mean(axis=0)
    sizes = [max(2, round(share * len(rows))) for share in pool_shares]
    given = matrix, labels, sizes, penalties
    return {
        "trained": np.array([trained(rng, matrix, labels, n, penalties, splits) for n in sizes]).T,
        "eigenlearning": eigenlearning_forecast(*given),
        **{method: forecast(*given, method) for method in ("fast", "hybrid", "pointwise")},
    }


def beyond_a_pool(
    rng: np.random.Generator,
    forecast: Forecast,
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    kernel: str,
    pool_size: int,
    pool_multiples: Sequence[float],
    penalties: tuple[float, ...],
    splits: int,
) -> dict[str, Any]:
    """Predict from a smaller pool, then train on multiples of its rows."""
    few = min(len(inputs) // 4, pool_size // 2)
    many = rng.permutation(len(inputs))[: 4 * few + pool_size]
    whole = kernel_of(kernel, inputs[many])
    sizes = [round(multiple * few) for multiple in pool_multiples]
    part = rng.permutation(len(many))[:few]
    matrix, labels = whole[np.ix_(part, part)], targets[many][part]
    given = matrix, labels - labels.mean(axis=0), sizes, penalties
    truth = [trained(rng, whole, targets[many], n, penalties, splits) for n in sizes]
    return {
        "trained_beyond": np.array(truth).T,
        "forecast_beyond": forecast(*given, "auto"),
        "power_law_beyond": power_law_forecast(rng, *given, splits),
        "eigenlearning_beyond": eigenlearning_forecast(*given),
    }
