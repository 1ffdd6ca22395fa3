"""Densities on a box as sums of products of B-splines, their diffusion and their score, axis by axis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.numerics.splines.interval import SplineBasis, row_chunks

_LEAST = 1e-6
"""Densities below it are computed again, in logarithms: rounding in the recursion is 1e-16 of the largest values."""


def tensor_values(bases: tuple[SplineBasis, ...], coefficients: ArrayLike, points: ArrayLike) -> np.ndarray:
    """sum_j a_j prod_i B_(j_i)(x_i) at points (n, d) of the box, axis by axis and without a Kronecker product."""
    coefficients, points = _tensor(bases, coefficients, points)
    result = np.empty(len(points))
    for rows in row_chunks(np.arange(len(points)), coefficients.size):
        result[rows] = _contract(coefficients, [b.values(points[rows, i]) for i, b in enumerate(bases)])
    return result


class DiffusedDensity(NamedTuple):
    """The density p_t of X_t at n points."""

    log_density: np.ndarray
    """(n,)."""
    score: np.ndarray
    """grad log p_t, (n, d)."""


def tensor_diffused(
    bases: tuple[SplineBasis, ...], coefficients: ArrayLike, points: ArrayLike, t: float
) -> DiffusedDensity:
    """log p_t and its gradient at any points (n, d) for p_0 = sum_j a_j prod_i B_(j_i)(x_i), a on the simplex.

    Exact, also far outside the support, where the score tends to -(x - e^-t proj(x)) / sigma^2.
    """
    coefficients, points = _tensor(bases, coefficients, points)
    if coefficients.min() < 0 or not coefficients.sum() > 0:
        raise InputError(f"coefficients must be >= 0 with a positive sum, got the least {coefficients.min():g}")
    log_density, score = np.empty(len(points)), np.empty(points.shape)
    for rows in row_chunks(np.arange(len(points)), coefficients.size):
        diffused = [b.diffused(points[rows, i], t) for i, b in enumerate(bases)]
        values = [axis.value for axis in diffused]
        density = _contract(coefficients, values)
        log_density[rows] = np.log(np.maximum(density, _LEAST)) + sum(axis.log_scale for axis in diffused)
        for i, axis in enumerate(diffused):
            slope = _contract(coefficients, [*values[:i], axis.derivative, *values[i + 1 :]])
            score[rows, i] = slope / np.maximum(density, _LEAST)
        lost = rows[density < _LEAST]
        for some in row_chunks(lost, coefficients.size * len(bases)):
            log_density[some], score[some] = _by_logarithms(bases, coefficients, points[some], t)
    return DiffusedDensity(log_density, score)


def _by_logarithms(
    bases: tuple[SplineBasis, ...], coefficients: np.ndarray, points: np.ndarray, t: float
) -> tuple[np.ndarray, np.ndarray]:
    """`tensor_diffused` where no basis function that reaches the point has any weight, such as in a gap of the data."""
    axes = [b.log_diffused(points[:, i], t) for i, b in enumerate(bases)]
    at = np.argwhere(coefficients > 0)
    logs = np.log(coefficients[coefficients > 0]) + sum(axis.log_value[:, at[:, i]] for i, axis in enumerate(axes))
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1)
    score = [(shares * axis.log_derivative[:, at[:, i]]).sum(axis=1) / total for i, axis in enumerate(axes)]
    return top[:, 0] + np.log(total) + sum(axis.log_scale for axis in axes), np.stack(score, axis=1)


def _tensor(
    bases: tuple[SplineBasis, ...], coefficients: ArrayLike, points: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    shape = tuple(b.n_basis for b in bases)
    coefficients, points = check_array("coefficients", coefficients), check_array("points", points, ndim=2)
    if coefficients.shape != shape:
        raise InputError(f"coefficients must have the shape {shape} of the bases, got {coefficients.shape}")
    if points.shape[1] != len(bases):
        raise InputError(f"points must have {len(bases)} column(s), one per basis, got shape {points.shape}")
    return coefficients, points


def _contract(coefficients: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    """sum_j a_j prod_i v_i[n, j_i], (n,)."""
    n = len(values[0])
    result = (values[0] @ coefficients.reshape(len(coefficients), -1)).reshape(n, *coefficients.shape[1:])
    for v in values[1:]:
        result = np.einsum("nj,nj...->n...", v, result)
    return result
