"""Random features of an activation on the sphere: one drawn instance, and its deterministic equivalent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlazy.studies.kernels.shared.sphere import target_covariances

RELU_ENERGIES = (0.0, 1.0, 0.5)
FRESH = 500
ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "relu": (lambda t: np.maximum(t, 0.0), (0.0,)),
    "tanh+0.3he2": (lambda t: np.tanh(t) + 0.3 * (t**2 - 1), ()),
}
"""Each with its breakpoints."""


def feature_risks(
    rng: np.random.Generator,
    activation: str,
    energies: Sequence[float],
    n: int,
    p: int,
    d: int,
    noise_variance: float,
    ridges: Sequence[float],
) -> dict[str, np.ndarray]:
    """Errors on p features sigma(sqrt(d) <x, w>) / sqrt(p) of n points, exact expectations over target and noise."""
    from unlazy.data.unit_vectors import unit_vectors
    from unlazy.training.kernels.ridge import feature_errors

    function = ACTIVATIONS[activation][0]
    x, fresh, weights = (unit_vectors(rng, size, d) for size in (n, FRESH, p))
    features, new = (function(np.sqrt(d) * (points @ weights.T)) / np.sqrt(p) for points in (x, fresh))
    return feature_errors(features, new, target_covariances(x, fresh, energies), noise_variance, ridges)._asdict()


def predicted_features(
    activation: str,
    energies: Sequence[float],
    n: Any,
    p: Any,
    d: int,
    noise_variance: float,
    ridges: Sequence[float],
) -> Any:
    """The equivalent of `feature_risks`."""
    from unlazy.functions.orthogonal import Gegenbauer
    from unlazy.theory.kernels.blocks import activation_blocks
    from unlazy.theory.kernels.random_features import kernel_regression_equivalent

    function, breakpoints = ACTIVATIONS[activation]
    blocks = activation_blocks(function, Gegenbauer(d), breakpoints=breakpoints)
    return kernel_regression_equivalent(
        blocks.eigenvalues,
        blocks.energies(energies),
        n,
        np.array(ridges),
        noise_variance,
        features=p,
        multiplicities=blocks.multiplicities,
    )
