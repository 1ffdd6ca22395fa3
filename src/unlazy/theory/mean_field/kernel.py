"""Factors of a positive semidefinite kernel on a grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.mean_field.grid import MOST_ENTRIES, called, on_grid


def kernel_factors(
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray],
    mesh: np.ndarray,
    diagonal: np.ndarray,
    weights: np.ndarray,
    precision: float,
    most_work: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Columns Phi with Phi Phi^T = kernel on the mesh by pivoted Cholesky decomposition, and what is left of k(x, x).

    It stops when weights times what is left is at most `precision` times the largest k(x, x), and refuses a rank whose
    square times the number of points, the work of a step of Newton's method, is above `most_work`.
    """
    if (diagonal < 0).any():
        raise InputError(f"interaction_kernel must be positive semidefinite, got {diagonal.min():g} on its diagonal")
    largest = diagonal.max()
    if largest == 0:
        raise InputError("interaction_kernel must not vanish on the whole grid")
    remaining, columns = diagonal.copy(), np.empty((64, len(mesh)))
    rank = 0
    while rank < len(mesh):
        pivot = int((weights * remaining).argmax())
        if weights[pivot] * remaining[pivot] <= precision * largest or remaining[pivot] <= 1e-15 * largest:
            break
        column = on_grid(
            "interaction_kernel", called("interaction_kernel", kernel, mesh, mesh[pivot : pivot + 1]), len(mesh), 2
        )[:, 0]
        column = (column - columns[:rank].T @ columns[:rank, pivot]) / np.sqrt(remaining[pivot])
        if rank == len(columns):
            columns = np.concatenate([columns, np.empty_like(columns)])
        columns[rank] = column
        remaining = remaining - column**2
        remaining[pivot] = 0.0
        rank += 1
        if remaining.min() < -1e-9 * largest:
            raise InputError(
                f"interaction_kernel must be positive semidefinite, got a pivot of "
                f"{remaining.min() / largest:.2g} of its diagonal"
            )
        if rank * len(mesh) > MOST_ENTRIES or rank**2 * len(mesh) > most_work:
            raise ConvergenceError(
                f"interaction_kernel has a rank above {rank} on {len(mesh)} points, too narrow for its box; give fewer "
                "grid_points= if so fine a grid is not needed"
            )
    return np.ascontiguousarray(columns[:rank].T), np.maximum(remaining, 0)


def kernel_diagonal(kernel: Callable[[np.ndarray, np.ndarray], np.ndarray], mesh: np.ndarray) -> np.ndarray:
    """k(x, x) for every point, in blocks: a kernel is a function of two sets of points."""
    size = 64
    parts = [mesh[i : i + size] for i in range(0, len(mesh), size)]
    blocks = [
        on_grid("interaction_kernel", called("interaction_kernel", kernel, part, part), len(part), 2) for part in parts
    ]
    if blocks[0].shape != (len(parts[0]), len(parts[0])):
        raise InputError(
            f"interaction_kernel must give a matrix {(len(parts[0]), len(parts[0]))} here, got {blocks[0].shape}"
        )
    return np.concatenate([np.diag(block) for block in blocks])


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sum([(x[:, None, axis] - y[None, :, axis]) ** 2 for axis in range(x.shape[1])], axis=0)
