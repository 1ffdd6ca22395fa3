"""Several gradient steps on the first layer of a two-layer network, and ridge regression after each.

Network and step are those of `unlazy.training.one_step.gradient_step`. All steps see one batch of samples, or each one
of its own; the readout has fresh samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.training.one_step.gradient_step import Samples, first_step, readout, step_direction

_PRECISION = np.float32
"""Enough for ridges from 1e-3 on."""


class SeveralSteps(NamedTuple):
    """After each number of steps, none first."""

    risk: np.ndarray
    """The least of all ridges, at fresh points; NaN without ridges."""
    component: np.ndarray
    """Mean over the neurons of their weights along x_1 and x_2, (steps + 1, 2)."""
    squared_component: np.ndarray
    """The same of the squares of these weights."""


def target_samples(
    rng: np.random.Generator, n: int, d: int, target: Callable[[np.ndarray], np.ndarray], noise_variance: float
) -> Samples:
    """Samples of a target of the first two coordinates, (n, 2) -> (n,)."""
    inputs = rng.standard_normal((n, d), dtype=_PRECISION)
    truth = target(inputs[:, :2].astype(np.float64))
    return Samples(inputs, truth + np.sqrt(noise_variance) * rng.standard_normal(n), truth)


def trained_layers(
    rng: np.random.Generator,
    activation: str,
    target: Callable[[np.ndarray], np.ndarray],
    n: int,
    d: int,
    width: int,
    noise_variance: float,
    step_size: float,
    steps: int,
    batches: str,
) -> Iterator[np.ndarray]:
    """The first layer (d, N) at the start and after each step; `batches` is "same" or "fresh"."""
    samples = target_samples(rng, n, d, target, noise_variance)
    step = first_step(rng, samples, width, activation)
    weights = step.initial
    yield weights
    for taken in range(steps):
        if taken and batches == "fresh":
            samples = target_samples(rng, n, d, target, noise_variance)
        moved = step_direction(samples, weights, step.second_layer, activation) if taken else step.direction
        weights = weights + float(step_size) * moved
        yield weights


def several_steps(
    rng: np.random.Generator,
    activation: str,
    target: Callable[[np.ndarray], np.ndarray],
    n: int,
    d: int,
    width: int,
    noise_variance: float,
    step_size: float,
    steps: int,
    batches: str,
    ridges: Sequence[float],
    *,
    fresh: int = 2000,
) -> SeveralSteps:
    """Draw everything, train, and fit the second layer on n fresh samples after each number of steps."""
    data, test = (target_samples(rng, size if ridges else 0, d, target, noise_variance) for size in (n, fresh))
    sigma: Any = as_activation(activation)
    found = []
    problem = activation, target, n, d, width, noise_variance, step_size, steps, batches
    for weights in trained_layers(rng, *problem):
        risk = np.nan
        if ridges:
            known, new = (sigma(samples.inputs @ weights) for samples in (data, test))
            risk = readout(known, data.labels.astype(_PRECISION), new, test.truth, ridges).risk.min()
        along = weights[:2].astype(np.float64)
        found.append((risk, along.mean(axis=1), np.mean(along**2, axis=1)))
    return SeveralSteps(*map(np.array, zip(*found, strict=True)))
