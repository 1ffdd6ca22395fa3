"""The saddle of `attention_saddle` by differences of its loss, with nothing of the closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import check_whole

_STENCIL = 1e-4
_MOST_FEATURES = 10


class SaddleDifferences(NamedTuple):
    """What differences of the loss say of the saddle."""

    least_eigenvalue: float
    """The most negative one of N times the Hessian."""
    multiplicity: float
    """How many eigenvalues are within 0.1% of it."""
    curvature: float
    """d^2 (L/r) / ds^2 towards the teacher whose missing features go to the idle slots."""


def saddle_by_differences(features: int, missing_features: int) -> SaddleDifferences:
    """Hessian and curvature at the saddle of erf neurons, one per slot, by central differences.

    For tokens N(0, I), k = `features` of which m = `missing_features` are not learned, by the exact moments of erf
    neurons.

    >>> found = saddle_by_differences(features=2, missing_features=1)
    >>> print(f"{found.least_eigenvalue:.4f} {found.multiplicity:.0f} {found.curvature:.4f}")
    -1.5509 1 -8.0000
    """
    k = check_whole("features", features, 1, _MOST_FEATURES)
    m, d = check_whole("missing_features", missing_features, 1, k), 2 * k
    slots = np.arange(k)
    watched = np.where(slots < k - m, slots, slots + k)
    saddle = np.concatenate([np.eye(d)[watched], np.eye(k)], axis=1)
    size = saddle.size
    moves = _STENCIL * np.eye(size)
    ahead = moves[:, None] + moves[None]
    across = moves[:, None] - moves[None]
    found = [
        _loss((saddle.ravel() + sign * move).reshape(size, size, k, d + k))
        for move in (ahead, across)
        for sign in (1, -1)
    ]
    hessian = (found[0] + found[1] - found[2] - found[3]) / (4 * _STENCIL**2)

    def towards(s: float) -> float:
        given = np.concatenate([np.eye(d)[:k], np.diag((slots >= k - m) * s * k)], axis=1)
        start = np.concatenate([saddle[:, :d], (1 - s) * saddle[:, d:]], axis=1)
        return float(_loss(np.concatenate([start, given])))

    strength = 2 / np.pi * np.arcsin(2 / 3)
    curvature = (towards(_STENCIL) + towards(-_STENCIL) - 2 * towards(0.0)) / _STENCIL**2
    eigenvalues = strength * np.linalg.eigvalsh(k * hessian)
    return SaddleDifferences(eigenvalues[0], float(np.sum(eigenvalues < 0.999 * eigenvalues[0])), curvature)


def _loss(neurons: np.ndarray) -> np.ndarray:
    """The loss over strength of erf neurons (..., N, d + k), second layers last, for the teacher erf(x_j), j <= k."""
    k = neurons.shape[-1] // 3
    weights, outputs = neurons[..., : 2 * k], neurons[..., 2 * k :]

    def kernel(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        lengths = [1 + 2 * np.sum(part**2, axis=-1) for part in (one, other)]
        return np.arcsin(2 * one @ other.mT / np.sqrt(lengths[0][..., :, None] * lengths[1][..., None, :]))

    cross = kernel(np.eye(2 * k)[:k], weights) @ outputs
    covariance = outputs.mT @ kernel(weights, weights) @ outputs
    return k - np.sum(cross * np.linalg.solve(covariance, cross.mT).mT, axis=(-2, -1)) / np.arcsin(2 / 3)
