"""Regression on the unit sphere with targets of known energy per degree, of which only points are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlazy.data.unit_vectors import unit_vectors
from unlazy.functions.elementwise import Link, as_activation
from unlazy.functions.orthogonal import Gegenbauer
from unlazy.training.kernels.ridge import Covariances, SmootherErrors, feature_errors, kernel_errors


def by_degree(products: np.ndarray, d: int, weights: Sequence[float]) -> np.ndarray:
    """sum_k weights[k] q_k(sqrt(d) <x, y>) / sqrt(N_k): a dot-product kernel of these masses, from <x, y>."""
    family = Gegenbauer(d)
    values = family.values(np.sqrt(d) * products, len(weights) - 1)
    scaled = [w / np.sqrt(n) for w, n in zip(weights, family.multiplicities(len(weights) - 1), strict=True)]
    return np.tensordot(scaled, values, axes=1)


def harmonic_kernel(products: np.ndarray, d: int, degree: int) -> np.ndarray:
    """The kernel of one degree alone that is 1 at 1, as a polynomial of <x, y>."""
    points, family = np.cos(np.arange(degree + 1)), Gegenbauer(d)
    values = family.values(np.sqrt(d) * points, degree)[-1] / np.sqrt(family.multiplicity(degree))
    return np.polyval(np.polyfit(points, values, degree), products)


def _covariances(x: np.ndarray, fresh: np.ndarray, energies: Sequence[float]) -> Covariances:
    """The Gaussian process with energy V_k in degree k: a generic function of that energy on the sphere."""
    d = x.shape[1]
    return Covariances(by_degree(x @ x.T, d, energies), by_degree(fresh @ x.T, d, energies), float(sum(energies)))


def kernel_risks(
    rng: np.random.Generator,
    masses: Sequence[float],
    energies: Sequence[float],
    n: int,
    d: int,
    penalties: Sequence[float],
    noise_variance: float,
    fresh: int = 500,
) -> SmootherErrors:
    """Errors of kernel regression on n points, the kernel of these masses by degree, at `fresh` new points."""
    x, new = unit_vectors(rng, n, d), unit_vectors(rng, fresh, d)
    kernel, crossed = (by_degree(points @ x.T, d, masses) for points in (x, new))
    return kernel_errors(kernel, crossed, _covariances(x, new, energies), noise_variance, penalties)


def feature_risks(
    rng: np.random.Generator,
    activation: str | Link | Callable[[Any], Any],
    energies: Sequence[float],
    n: int,
    d: int,
    width: int,
    penalties: Sequence[float],
    noise_variance: float,
    fresh: int = 500,
) -> SmootherErrors:
    """Errors of ridge regression on p = `width` features sigma(sqrt(d) <x, w>) / sqrt(p), x and w on the sphere."""
    x, new, weights = (unit_vectors(rng, size, d) for size in (n, fresh, width))
    sigma = as_activation(activation)
    known, crossed = (sigma(np.sqrt(d) * (points @ weights.T)) / np.sqrt(width) for points in (x, new))
    return feature_errors(known, crossed, _covariances(x, new, energies), noise_variance, penalties)
