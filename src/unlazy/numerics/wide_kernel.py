"""The kernels of an infinitely wide two-layer network with standard normal weights, for any activation."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.gaussian import normal_nodes

_DEGREE = 12
_NODES = 400


def wide_kernel(function: Any, points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """E f(w.x) f(w.y), w ~ N(0, I), for rows x of `points` (p, d) and y of `others` (q, d): shape (p, q).

        sum_k c_k(|x|) c_k(|y|) cos^k,      c_k(r) = E[f(r z) h_k(z)] with Hermite polynomials h_k, E h_k^2 = 1.

    Beyond k = 12 the series is closed by its sum at cos = 1, times cos^13: exact for x = y, and to |cos|^13 of what is
    left of E f^2 elsewhere, where cosines are small in high dimension.
    """
    nodes, weights = normal_nodes(_NODES)
    basis = np.array(Hermite().values(nodes, _DEGREE)) * weights
    (left, left_rest), (right, right_rest) = (
        _expansion(function, rows, nodes, weights, basis) for rows in (points, others)
    )
    norms = np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(others, axis=1)
    cosine = np.clip(points @ others.T / np.maximum(norms, np.finfo(np.float64).tiny), -1, 1)
    found = np.outer(left_rest, right_rest)
    for a, b in zip(left.T[::-1], right.T[::-1], strict=True):
        found = found * cosine + np.outer(a, b)
    return found


def wide_tangent_kernel(function: Any, slope: Any, points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The tangent kernel of both layers, E f(w.x) f(w.y) + x.y E f'(w.x) f'(w.y); Jacot, Gabriel & Hongler (2018)."""
    return wide_kernel(function, points, others) + (points @ others.T) * wide_kernel(slope, points, others)


def _expansion(
    function: Any, rows: np.ndarray, nodes: np.ndarray, weights: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """c_k of every row, shape (rows, degree + 1), and the root of what E f^2 has beyond them."""
    values = function(np.linalg.norm(rows, axis=1)[:, None] * nodes)
    found = values @ basis.T
    return found, np.sqrt(np.maximum(values**2 @ weights - np.sum(found**2, axis=1), 0.0))
