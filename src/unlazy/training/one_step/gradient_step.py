"""One gradient step on the first layer of a two-layer network, then ridge regression on its features.

The network is f(x) = N^(-1/2) a.sigma(W^T x) with W (d, N), W_ij ~ N(0, 1/d) and sqrt(N) a_i standard normal or from a
finite set; labels are y = g(x_1) + noise for x ~ N(0, I_d). The step W + eta sqrt(N) G follows minus the gradient of
half the mean squared error on samples of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.numerics.ridge import ridge_coefficients, ridge_solutions
from unlazy.theory.one_step.moments import activation_moments


class Samples(NamedTuple):
    """Inputs (n, d), labels with noise, and what the labels are without it."""

    inputs: np.ndarray
    labels: np.ndarray
    truth: np.ndarray


class FirstStep(NamedTuple):
    """The first layer before the step, and what the step adds per unit of eta."""

    initial: np.ndarray
    second_layer: np.ndarray
    """a, shape (N,)."""
    direction: np.ndarray
    """sqrt(N) G, (d, N)."""
    rank_one: np.ndarray
    """sqrt(N) A, the part mu_1 X^T y a^T / n of it, (d, N)."""

    def weights(self, step_size: float) -> np.ndarray:
        """The first layer after a step of this size."""
        return self.initial + step_size * self.direction


class ReadoutErrors(NamedTuple):
    """One entry per ridge."""

    risk: np.ndarray
    """Mean squared error at the test points, without noise."""
    training_error: np.ndarray


def draw_samples(rng: np.random.Generator, n: int, d: int, link: Any, noise_variance: float) -> Samples:
    """Single-index samples whose direction is the first coordinate."""
    inputs = rng.standard_normal((n, d))
    truth = link(inputs[:, 0])
    return Samples(inputs, truth + np.sqrt(noise_variance) * rng.standard_normal(n), truth)


def first_step(
    rng: np.random.Generator,
    samples: Samples,
    width: int,
    activation: str,
    *,
    support: Sequence[float] | None = None,
    with_output: bool = True,
) -> FirstStep:
    """Draw the network and take its gradient.

    `support` is the set from which sqrt(N) a_i is drawn, normal if None. Without `with_output` the residual is y alone.
    """
    n, d = samples.inputs.shape
    sigma, linear = as_activation(activation), activation_moments(activation).linear
    initial = rng.standard_normal((d, width)) / np.sqrt(d)
    raw = rng.standard_normal(width) if support is None else rng.choice(np.asarray(support, float), width)
    second_layer = raw / np.sqrt(width)
    hidden = samples.inputs @ initial
    residual = samples.labels
    if with_output:
        residual = residual - sigma(hidden) @ second_layer / np.sqrt(width)
    direction = samples.inputs.T @ (residual[:, None] * sigma.slope(hidden)) * (second_layer / n)
    rank_one = np.outer(samples.inputs.T @ samples.labels * (linear / n), second_layer)
    return FirstStep(initial, second_layer, direction, rank_one)


def step_risks(
    rng: np.random.Generator,
    activation: str,
    link: Any,
    n: int,
    d: int,
    width: int,
    noise_variance: float,
    step_sizes: Sequence[float],
    ridges: Sequence[float],
    *,
    support: Sequence[float] | None = None,
    fresh: int = 2000,
) -> ReadoutErrors:
    """Draw everything; both errors by step size and ridge. All step sizes share network, gradient, readout and test."""
    step_data, data = (draw_samples(rng, n, d, link, noise_variance) for _ in range(2))
    test = draw_samples(rng, fresh, d, link, 0.0)
    step = first_step(rng, step_data, width, activation, support=support)
    found = [features_readout(activation, step.weights(size), data, test, ridges) for size in step_sizes]
    return ReadoutErrors(*map(np.array, zip(*found, strict=True)))


def features_readout(
    activation: str, weights: np.ndarray, data: Samples, test: Samples, ridges: Sequence[float]
) -> ReadoutErrors:
    """`readout` on the features sigma(W^T x) of a first layer (d, N)."""
    known, new = (as_activation(activation)(points.inputs @ weights) for points in (data, test))
    return readout(known, data.labels, new, test.truth, ridges)


def readout(
    features: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray, ridges: Sequence[float]
) -> ReadoutErrors:
    """Ridge regression (1/n)|y - F b|^2 + ridge |b|^2 for all ridges."""
    fits = ridge_coefficients(features, labels, len(features) * np.asarray(ridges)).T
    return _errors(features @ fits, labels, test @ fits, truth)


def kernel_readout(
    kernel: np.ndarray, labels: np.ndarray, crossed: np.ndarray, truth: np.ndarray, ridges: Sequence[float]
) -> ReadoutErrors:
    """Kernel ridge regression k(x)^T (K + n ridge I)^-1 y for all ridges; `crossed` holds k(x) at the test points."""
    dual = ridge_solutions(kernel, labels, len(kernel) * np.asarray(ridges)).T
    return _errors(kernel @ dual, labels, crossed @ dual, truth)


def _errors(fitted: np.ndarray, labels: np.ndarray, predicted: np.ndarray, truth: np.ndarray) -> ReadoutErrors:
    risk, training_error = (
        np.mean((found - known[:, None]) ** 2, axis=0) for found, known in ((predicted, truth), (fitted, labels))
    )
    return ReadoutErrors(risk, training_error)
