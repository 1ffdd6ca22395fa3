"""What kernels learn of the samples that a network gets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.numerics.wide_kernel import wide_tangent_kernel
from unlazy.training.one_step.gradient_step import Samples, kernel_readout, readout


def kernel_risks(
    data: Samples, test: Samples, activation: str, squared_bandwidths: Sequence[float], ridges: Sequence[float]
) -> list[np.ndarray]:
    """Test errors, one per ridge, of the tangent kernel of an infinitely wide network, of Gaussian kernels
    exp(-|x - x'|^2 / (2 d w)), w of `squared_bandwidths`, and of linear regression, in this order."""
    n, d = data.inputs.shape
    scaled, fresh = data.inputs / np.sqrt(d), test.inputs / np.sqrt(d)
    points, sigma = np.concatenate([scaled, fresh]), as_activation(activation)
    squares = np.sum(points**2, axis=1)
    distances = squares[:, None] + squares[:n] - 2 * points @ scaled.T
    kernels = [wide_tangent_kernel(sigma, sigma.slope, points, scaled)]
    kernels += [np.exp(-distances / (2 * square)) for square in squared_bandwidths]
    found = [kernel_readout(kernel[:n], data.labels, kernel[n:], test.truth, ridges) for kernel in kernels]
    return [one.risk for one in (*found, readout(scaled, data.labels, fresh, test.truth, ridges))]
