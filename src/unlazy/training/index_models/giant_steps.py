"""Two gradient steps on batches of n ~ d samples, the second on the batch of the first or on a fresh one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BIAS_DEVIATION = 0.5


class GiantSteps(NamedTuple):
    """Mean over neurons of the squared overlap with each of the first directions, (directions,)."""

    one: np.ndarray
    """After one step."""
    fresh: np.ndarray
    """After a second one on fresh samples."""
    reused: np.ndarray
    """After a second one on the samples of the first."""


def giant_steps(
    rng: np.random.Generator,
    target: Callable[[np.ndarray], np.ndarray],
    directions: int,
    d: int,
    n: int,
    width: int,
    step_size: float,
    second_step_size: float,
) -> GiantSteps:
    """W <- W + (step_size/d) sum_i a y_i sigma'(W x_i + b) x_i^T twice, sigma = tanh, from uniform unit rows.

    The correlation loss: the network's own output is left out. A step size of order 1 moves the pre-activation of a
    sample by order 1 times its own label, which is what a second look at it sees. The target is a function of the
    first `directions` coordinates. Source: Dandi et al. (2024).
    """
    weights = rng.standard_normal((width, d), dtype=np.float32)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    signs = rng.choice([-1.0, 1.0], (width, 1)).astype(np.float32)
    biases = np.float32(BIAS_DEVIATION) * rng.standard_normal((width, 1), dtype=np.float32)

    def batch() -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((n, d), dtype=np.float32)
        return x, target(x[:, :directions].astype(float)).astype(np.float32)

    def step(weights: np.ndarray, given: tuple[np.ndarray, np.ndarray], size: float) -> np.ndarray:
        x, labels = given
        slopes = 1 - np.tanh(weights @ x.T + biases) ** 2
        return weights + np.float32(size / d) * ((signs * slopes * labels) @ x)

    def squares(weights: np.ndarray) -> np.ndarray:
        return (weights[:, :directions] ** 2 / (weights**2).sum(axis=1, keepdims=True)).mean(axis=0)

    first, other = batch(), batch()
    once = step(weights, first, step_size)
    twice = [step(once, given, second_step_size) for given in (other, first)]
    return GiantSteps(*map(squares, (once, *twice)))
