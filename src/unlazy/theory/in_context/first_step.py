"""The first gradient step of attention on prompts of single-index tasks, in expectation.

Inputs are N(0, I_d). A task is f(x) = sum_{i=k}^p c_i h_i(x.beta), h_i = He_i / sqrt(i!), with beta uniform on the unit
sphere of a fixed r-dimensional subspace and c uniform on the unit sphere. The model answers a query x with

    (1/n) sum_l y_l sigma(W x + b)^T Gamma sigma(W x_l + b),      sigma = relu, Gamma diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.orthogonal import Hermite

_LARGEST = 1e100
_LARGEST_DEGREE = 100
# the normal density is 0 in floating point beyond
_FAR = 40.0


class PromptGradient(NamedTuple):
    """Expectations over tasks, one entry per neuron."""

    gradient: np.ndarray
    """E[phi grad_w phi], (m, d): along_subspace u + along_weights w, u the projection of w on the subspace."""
    along_subspace: np.ndarray
    """The coefficient of u, (m,)."""
    along_weights: np.ndarray
    """The coefficient of w, (m,)."""
    mean_square: np.ndarray
    """E phi^2, (m,)."""


def prompt_gradient(
    weights: ArrayLike, biases: ArrayLike, subspace: ArrayLike, lowest_degree: int, highest_degree: int
) -> PromptGradient:
    """The expected gradient of every neuron: minus the gradient of E (y - model)^2 is 4 Gamma_jj times this.

    With phi = E_x[f(x) relu(w.x + b)], k = `lowest_degree`, p = `highest_degree`, |w| = 1 and u the projection of w on
    the subspace,

        E phi grad phi = sum_i K_i {i A_i^2 |u|^(2i-2) u + (A_i D_i - i A_i^2) |u|^(2i) w} / (p-k+1),
        K_i = prod_{s=1}^i (2s-1)/(r+2s-2),    A_i = E[h_i(z) relu(z+b)],    D_i = E[h_i(z) z 1(z > -b)]:
        A_1 = Phi(b),            A_i = phi(b) He_{i-2}(-b) / sqrt(i!),
        D_1 = Phi(b) - b phi(b), D_i = phi(b) (He_i(-b) + i He_{i-2}(-b)) / sqrt(i!).

    For other lengths it is |w| times the value at w/|w|, b/|w|. `weights` is (m, d), `biases` (m,) or a number; the
    columns of `subspace` (d, r) span the subspace. Exact to first order in Gamma, for prompts of any length, one query
    or many, and label noise of mean 0. Source: Oko, Song, Suzuki & Wu (2024), Algorithm 1, phase I; the project's
    closed form.

    >>> weights, subspace = [[0.6, 0.8, 0]], [[1], [0], [0]]
    >>> print(prompt_gradient(weights, biases=0.5, subspace=subspace, lowest_degree=1, highest_degree=3).gradient)
    [[ 0.0948 -0.0135  0.    ]]
    """
    weights = check_array("weights", weights, low=-_LARGEST, high=_LARGEST, ndim=2)
    biases = check_array("biases", biases, low=-_LARGEST, high=_LARGEST)
    if biases.shape not in ((), weights.shape[:1]):
        raise InputError(f"biases must be a number or have shape ({len(weights)},), got shape {biases.shape}")
    basis = _orthonormal_columns("subspace", subspace, weights.shape[1])
    lowest = check_whole("lowest_degree", lowest_degree, 1, _LARGEST_DEGREE)
    highest = check_whole("highest_degree", highest_degree, lowest, _LARGEST_DEGREE)

    lengths = np.linalg.norm(weights, axis=1)
    moved = lengths > 0
    scale = np.where(moved, lengths, 1.0)
    units = weights / scale[:, None]
    with np.errstate(over="ignore"):
        slopes = _relu_coefficients(np.broadcast_to(biases, scale.shape) / scale, highest)
    projected = units @ basis
    share = np.sum(projected**2, axis=1)

    degrees = np.arange(lowest, highest + 1)
    values, changes = slopes.hermite_coefficients[lowest:], slopes.scale_derivatives[lowest:]
    moments = _sphere_moments(basis.shape[1], highest)[lowest:, None] / degrees.size
    powers = share ** (degrees[:, None] - 1)
    along = np.sum(moments * degrees[:, None] * values**2 * powers, axis=0)
    radial = np.sum(moments * (values * changes - degrees[:, None] * values**2) * powers * share, axis=0)
    square = np.sum(moments * values**2 * powers * share, axis=0) * lengths**2
    gradient = lengths[:, None] * (along[:, None] * (projected @ basis.T) + radial[:, None] * units)
    return PromptGradient(gradient, along, radial, square)


class ReluCoefficients(NamedTuple):
    """Entry i of the first axis belongs to h_i; the other axes are those of b."""

    hermite_coefficients: np.ndarray
    """A_i = E[h_i(z) relu(z + b)]."""
    scale_derivatives: np.ndarray
    """D_i = E[h_i(z) z 1(z > -b)], the derivative of E[h_i(z) relu(s z + b)] in s at s = 1."""


def relu_coefficients(bias: ArrayLike, highest_degree: int) -> ReluCoefficients:
    """The Hermite coefficients of relu(z + b) and of z 1(z > -b), z standard normal, up to `highest_degree`.

    A_0 = b Phi(b) + phi(b),    A_1 = Phi(b),                A_i = phi(b) He_{i-2}(-b) / sqrt(i!),
    D_0 = phi(b),               D_1 = Phi(b) - b phi(b),     D_i = phi(b) (He_i(-b) + i He_{i-2}(-b)) / sqrt(i!)

    >>> print(relu_coefficients(bias=0.5, highest_degree=3).hermite_coefficients)
    [ 0.698  0.691  0.249 -0.072]
    """
    highest = check_whole("highest_degree", highest_degree, 1, _LARGEST_DEGREE)
    return _relu_coefficients(check_array("bias", bias), highest)


def _relu_coefficients(bias: np.ndarray, highest: int) -> ReluCoefficients:
    from scipy.special import ndtr

    near = np.clip(bias, -_FAR, _FAR)
    density = np.exp(-(near**2) / 2) / np.sqrt(2 * np.pi)
    hermite = Hermite().values(-near, max(highest, 1))
    # for b << 0 the mean b Phi(b) + phi(b) is below phi(b)/b^2 and would come out as rounding errors
    values = [np.maximum(np.maximum(bias, -_FAR) * ndtr(bias) + density, 0.0), ndtr(bias)]
    changes = [density, ndtr(bias) - near * density]
    for i in range(2, highest + 1):
        below = hermite[i - 2] / np.sqrt(i * (i - 1))
        values.append(density * below)
        changes.append(density * (hermite[i] + i * below))
    return ReluCoefficients(np.stack(values[: highest + 1]), np.stack(changes[: highest + 1]))


def sphere_moments(rank: int, highest_degree: int) -> np.ndarray:
    """K_i = E beta_1^(2i) for beta uniform on the unit sphere in `rank` dimensions, i = 0, ..., `highest_degree`.

    >>> print(sphere_moments(rank=3, highest_degree=3))
    [1.    0.333 0.2   0.143]
    """
    highest = check_whole("highest_degree", highest_degree, 1, _LARGEST_DEGREE)
    return _sphere_moments(check_whole("rank", rank, 1), highest)


def _sphere_moments(r: int, highest: int) -> np.ndarray:
    s = np.arange(1, highest + 1)
    return np.append(1.0, np.cumprod((2 * s - 1) / (r + 2 * s - 2)))


def _orthonormal_columns(name: str, matrix: ArrayLike, d: int) -> np.ndarray:
    """An orthonormal basis (d, r) of the space that the columns span, which must be independent."""
    columns = check_array(name, matrix, low=-_LARGEST, high=_LARGEST, ndim=2)
    if len(columns) != d or columns.shape[1] > d:
        raise InputError(f"{name} must have shape ({d}, r) with r <= {d}, got shape {columns.shape}")
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    if sizes[-1] <= d * np.finfo(np.float64).eps * sizes[0]:
        raise InputError(f"{name} must have independent columns, got singular values {sizes[0]:g} to {sizes[-1]:g}")
    return left
