"""The saddle of `saddle-escape` by differences of its loss, with nothing of the closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

_STENCIL = 1e-4


def moved(state: Any, rows: Any) -> Any:
    """The state with its neurons moved by the given rows."""
    d = state.weights.shape[1]
    return state._replace(weights=state.weights + rows[:, :d], outputs=state.outputs + rows[:, d:])


def by_differences(features: int, missing: int) -> tuple[np.ndarray, float]:
    """Eigenvalues of N times the Hessian at the saddle with a neuron per slot, and the second derivative towards f.

    By central differences of the loss of erf neurons, from its moments in NumPy: nothing of the closed form.
    """
    k, d = features, 2 * features
    slots = np.arange(k)
    watched = np.where(slots < k - missing, slots, slots + k)
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
        given = np.concatenate([np.eye(d)[:k], np.diag((slots >= k - missing) * s * k)], axis=1)
        start = np.concatenate([saddle[:, :d], (1 - s) * saddle[:, d:]], axis=1)
        return float(_loss(np.concatenate([start, given])))

    step = 1e-4
    strength = 2 / np.pi * np.arcsin(2 / 3)
    return strength * np.linalg.eigvalsh(k * hessian), (towards(step) + towards(-step) - 2 * towards(0.0)) / step**2


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
