"""Softmax loss in contrast coordinates and its proximal operator, for many points at once.

Points are columns: omega has shape (r, N), matrices per point (r, r, N), so that every operation is one over N.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import ConvergenceError

_NEWTON_STEPS = 100


class Prox(NamedTuple):
    """The proximal point p (r, N), g = -grad loss(p) (r, N), dg/domega (r, r, N), and v with p = omega + L v."""

    point: np.ndarray
    pull: np.ndarray
    slope: np.ndarray
    start: np.ndarray


def softmax(scores: np.ndarray) -> np.ndarray:
    """exp(scores) over its sum along the first axis."""
    weights = np.exp(scores - scores.max(axis=0))
    return weights / weights.sum(axis=0)


def loss(scores: np.ndarray, label: int) -> np.ndarray:
    """log sum_k exp(scores_k) - scores_label along the first axis."""
    top = scores.max(axis=0)
    return np.log(np.exp(scores - top).sum(axis=0)) + top - scores[label]


def softmax_prox(
    basis: np.ndarray, label: int, omega: np.ndarray, root: np.ndarray, start: np.ndarray | None = None
) -> Prox:
    """argmin_p loss(label, B p) + (p - omega)^T V^-1 (p - omega) / 2 with V = L L^T, by Newton with backtracking.

    In v with p = omega + L v the function is loss(B p) + |v|^2/2, whose Hessian I + L^T H L is at least I for every V,
    also a singular one. `start` is a v to begin with.
    """
    r, count = omega.shape
    v = np.zeros_like(omega) if start is None else start.copy()
    target = basis[label][:, None]
    pairs = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), r * r).T
    both = np.kron(root.T, root.T)
    tolerance = 1e-11 * (1 + np.abs(root).max())
    point = omega + root @ v
    scores = basis @ point
    value = loss(scores, label) + (v * v).sum(axis=0) / 2
    for _ in range(_NEWTON_STEPS):
        shares = softmax(scores)
        mean = basis.T @ shares
        hessian = pairs @ shares - (mean[:, None] * mean[None]).reshape(r * r, count)
        gradient = v - root.T @ (target - mean)
        step = solve_positive(np.eye(r)[:, :, None] + (both @ hessian).reshape(r, r, count), gradient[:, None])[:, 0]
        fall = (gradient * step).sum(axis=0)
        size = np.ones(count)
        for _ in range(40):
            trial = v - size * step
            point = omega + root @ trial
            scores = basis @ point
            reached = loss(scores, label) + (trial * trial).sum(axis=0) / 2
            worse = reached > value - 1e-4 * size * fall + 1e-13 * (1 + np.abs(value))
            if not worse.any():
                break
            size = np.where(worse, size / 2, size)
        v, value = trial, reached
        error = np.abs(gradient).max()
        if error < tolerance:
            shares = softmax(scores)
            mean = basis.T @ shares
            hessian = (pairs @ shares).reshape(r, r, count) - mean[:, None] * mean[None]
            inner = np.eye(r)[:, :, None] + (both @ hessian.reshape(r * r, count)).reshape(r, r, count)
            pulled = np.einsum("ba,bcn->acn", root, hessian)
            slope = np.einsum("ban,bcn->acn", pulled, solve_positive(inner, pulled)) - hessian
            return Prox(point, target - mean, slope, v)
    raise ConvergenceError(
        f"the proximal operator of softmax left a gradient of {error:.2g} after {_NEWTON_STEPS} steps"
    )


def solve_positive(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """matrices^-1 right per point for positive definite (r, r, N) and (r, m, N): elimination, which needs no pivots."""
    r = len(matrices)
    work = np.concatenate([matrices, right], axis=1)
    for j in range(r):
        row = work[j, j:] / work[j, j]
        work[j, j:] = row
        for i in range(r):
            if i != j:
                work[i, j:] -= work[i, j] * row
    return work[:, r:]


def root(matrix: np.ndarray) -> np.ndarray:
    """L with L L^T the positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
