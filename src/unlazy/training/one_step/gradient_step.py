"""One gradient step on the first layer of a two-layer network, then ridge regression on its features.

The network is f(x) = N^(-1/2) a.sigma(W^T x) with W (d, N), W_ij ~ N(0, 1/d) and sqrt(N) a_i standard normal or from a
finite set; labels are y = g(x_1) + noise for x ~ N(0, I_d). The step W + eta sqrt(N) G follows minus the gradient of
half the mean squared error on samples of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.numerics.ridge import ridge_coefficients, ridge_solutions
from unlazy.theory.one_step.moments import activation_moments

_SINGLE = 1e-3
"""The ridge from which on Gram matrices in single precision, whose errors are some 1e-6 in norm, are exact enough."""


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


def draw_samples(
    rng: np.random.Generator, n: int, d: int, link: Any, noise_variance: float, precision: Any = np.float64
) -> Samples:
    """Single-index samples whose direction is the first coordinate; labels are in double precision."""
    inputs = rng.standard_normal((n, d), dtype=precision)
    truth = link(inputs[:, 0].astype(np.float64))
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
    """Draw the network and take its gradient, in the precision of the inputs.

    `support` is the set from which sqrt(N) a_i is drawn, normal if None. Without `with_output` the residual is y alone.
    """
    (n, d), precision = samples.inputs.shape, samples.inputs.dtype
    linear = activation_moments(activation).linear
    initial = rng.standard_normal((d, width), dtype=precision.type) / math.sqrt(d)
    raw = rng.standard_normal(width) if support is None else rng.choice(np.asarray(support, float), width)
    second_layer = (raw / np.sqrt(width)).astype(precision)
    direction = step_direction(samples, initial, second_layer, activation, with_output=with_output)
    correlation = (samples.inputs.T @ samples.labels.astype(precision)) * (linear / n)
    return FirstStep(initial, second_layer, direction, np.outer(correlation, second_layer))


def step_direction(
    samples: Samples, weights: np.ndarray, second_layer: np.ndarray, activation: str, *, with_output: bool = True
) -> np.ndarray:
    """sqrt(N) G (d, N) at any first layer (d, N): what a step adds to it per unit of its size."""
    n, sigma = len(samples.inputs), as_activation(activation)
    hidden = samples.inputs @ weights
    residual = samples.labels.astype(hidden.dtype)
    if with_output:
        residual = residual - sigma(hidden) @ second_layer / math.sqrt(len(second_layer))
    return samples.inputs.T @ (residual[:, None] * sigma.slope(hidden)) * (second_layer / n)


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
    """Draw everything; both errors by step size and ridge. All step sizes share network, gradient, readout and test.

    The risk of erf features is exact, that of others a mean over `fresh` points.
    """
    precision = np.float32 if min(ridges) >= _SINGLE else np.float64
    step_data, data = (draw_samples(rng, n, d, link, noise_variance, precision) for _ in range(2))
    step = first_step(rng, step_data, width, activation, support=support)
    test = draw_samples(rng, 0 if activation == "erf" else fresh, d, link, 0.0, precision)
    # sigma(X (W + eta G)) from two products for all step sizes
    known, new = ((s.inputs @ step.initial, s.inputs @ step.direction) for s in (data, test))
    sigma, errors = as_activation(activation), []
    for size in map(float, step_sizes):
        features = sigma(known[0] + size * known[1])
        if activation == "erf":
            fits = ridge_coefficients(features, data.labels.astype(precision), n * np.asarray(ridges)).T
            training_error = np.mean((features @ fits.astype(precision) - data.labels[:, None]) ** 2, axis=0)
            errors.append(ReadoutErrors(erf_risk(step.weights(size), fits, link), training_error))
        else:
            errors.append(readout(features, data.labels, sigma(new[0] + size * new[1]), test.truth, ridges))
    return ReadoutErrors(*map(np.array, zip(*errors, strict=True)))


def erf_risk(weights: np.ndarray, fits: np.ndarray, link: Any) -> np.ndarray:
    """E (b.erf(W^T x) - g(x_1))^2 for the columns b of `fits` (N, fits), of a first layer (d, N) and a smooth link.

        E erf(u.x) erf(w.x) = (2/pi) arcsin(2 u.w / sqrt((1 + 2|u|^2)(1 + 2|w|^2)))      (Williams 1997)

    and given s = x_1 a feature is erf(w_1 s / sqrt(1 + 2|w|^2 - 2 w_1^2)) on average.
    """
    sigma = as_activation("erf")
    gram = (weights.T @ weights).astype(np.float64)
    scale = 1 + 2 * np.diagonal(gram)
    covariance = 2 / np.pi * np.arcsin(2 * gram / np.sqrt(scale[:, None] * scale))
    s = np.linspace(-9, 9, 451)
    density = np.exp(-(s**2) / 2) / np.exp(-(s**2) / 2).sum()
    along = weights[0].astype(np.float64)
    given = sigma(s[:, None] * (along / np.sqrt(scale - 2 * along**2)))
    crossed = (density * link(s)) @ given
    return density @ link(s) ** 2 - 2 * crossed @ fits + np.sum(fits * (covariance @ fits), axis=0)


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
