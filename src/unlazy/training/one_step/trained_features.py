"""The features of a first layer that was trained by gradient steps, next to the theory of features with one spike.

Network and steps are those of `unlazy.training.one_step.gradient_step`; all steps see the same samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.theory.one_step.spiked.features import groups_of_weights
from unlazy.theory.one_step.spiked.spectrum import feature_outliers, feature_spectrum
from unlazy.theory.one_step.spiked.statistics import NeuronGroups
from unlazy.training.one_step.several_steps import trained_layers

_GROUPS = 12


class TrainedFirstLayer(NamedTuple):
    """A first layer (d, N) as theory sees it: one direction that its neurons share, and generic weights beside it."""

    weights: np.ndarray
    neuron_groups: NeuronGroups
    """Their measured overlaps with the direction, and what is left of their norms."""
    cosine: float
    """Of the direction with the target."""
    outliers: int
    """Singular values 5% above the edge 1 + sqrt(N/d) of a layer that was not trained."""


def trained_layer(
    rng: np.random.Generator,
    activation: str,
    link: Any,
    step_samples: int,
    d: int,
    width: int,
    noise_variance: float,
    step_size: float,
    steps: int,
) -> TrainedFirstLayer:
    """Draw and train; the direction is the leading one of what the steps added, the target's if they added nothing."""
    from scipy.linalg import eigh

    def target(x: np.ndarray) -> np.ndarray:
        return link(x[:, 0])

    problem = activation, target, step_samples, d, width, noise_variance, step_size, steps, "same"
    layers = trained_layers(rng, *problem)
    initial = weights = next(layers)
    for layer in layers:
        weights = layer
    added = (weights - initial).astype(np.float64)
    direction = eigh(added @ added.T, subset_by_index=[d - 1, d - 1])[1][:, 0] if steps else np.eye(d)[0]
    weights = weights.astype(np.float64)
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(weights @ weights.T), 0.0))
    outliers = int(np.sum(singular > 1.05 * (1 + np.sqrt(width / d))))
    groups = groups_of_weights(weights, direction, group_count=_GROUPS)
    return TrainedFirstLayer(weights, groups, abs(float(direction[0])), outliers)


def covariance_eigenvalues(rng: np.random.Generator, activation: str, weights: np.ndarray, n: int) -> np.ndarray:
    """Those of F^T F / n in increasing order, F = sigma(X W) with n fresh samples."""
    hidden = as_activation(activation)(rng.standard_normal((n, len(weights))) @ weights)
    return np.sort(np.maximum(np.linalg.eigvalsh(hidden.T @ hidden / n), 0.0))


def against_the_bulk(values: np.ndarray, **setting: Any) -> dict[str, float]:
    """Kolmogorov distance to the law of the bulk, and the ends of all eigenvalues and of the bulk, also by the theory.

    The bulk ends half-way, in logarithms, between its predicted end and the outliers.
    """
    theory = feature_outliers(**setting)
    limit = np.sqrt(theory.bulk_edge * theory.outliers[-1]) if theory.outliers.size else np.inf
    points = np.quantile(values[values > 1e-9], np.linspace(0.02, 0.98, 25))
    law = feature_spectrum(**setting, eigenvalue=points).distribution
    empirical = np.searchsorted(values, points, side="right") / len(values)
    return {
        "bulk_distance": np.abs(empirical - law).max(),
        "largest_eigenvalue": values[-1],
        "bulk_edge": values[values < limit][-1],
        "measured_largest_eigenvalue": theory.outliers[0] if theory.outliers.size else theory.bulk_edge,
        "measured_bulk_edge": theory.bulk_edge,
    }
