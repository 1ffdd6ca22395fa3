"""Two-layer networks after steps of several sizes and kernels, on the same readout and test data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.training.one_step.gradient_step import draw_samples, features_readout, first_step
from unlazy.training.one_step.kernels import kernel_risks


class Rivals(NamedTuple):
    """By learner, the networks first: the least risk of all ridges, and what the two outermost at either end gain."""

    risk: list[float]
    outermost_gain: list[float]


def rival_risks(
    rng: np.random.Generator,
    activation: str,
    link: Any,
    n: int,
    d: int,
    width: int,
    noise_variance: float,
    step_sizes: Sequence[float],
    squared_bandwidths: Sequence[float],
    *,
    feature_ridges: Sequence[float],
    kernel_ridges: Sequence[float],
    fresh: int,
) -> Rivals:
    """Networks after steps, on samples of their own, of these sizes, and the tangent, Gaussian and linear kernels."""
    data, step_data = (draw_samples(rng, n, d, link, noise_variance) for _ in range(2))
    test = draw_samples(rng, fresh, d, link, 0.0)
    step = first_step(rng, step_data, width, activation)
    layers = [step.weights(size) for size in step_sizes]
    risks = [features_readout(activation, layer, data, test, feature_ridges).risk for layer in layers]
    risks += kernel_risks(data, test, activation, tuple(squared_bandwidths), kernel_ridges)
    return Rivals([risk.min() for risk in risks], [1 - risk.min() / risk[2:-2].min() for risk in risks])
