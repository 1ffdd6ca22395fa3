"""The rows that a learning curve is read off: checked input, a subsample, their kernel matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice
from unlazy.data.encoding import encode_table

LARGEST = 1e100


def checked_rows(X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """X as a matrix and y as it is, or what is wrong with them."""
    rows = check_array("X", encode_table(X)[0], low=-LARGEST, high=LARGEST, ndim=2)
    targets = check_array("y", y, low=-LARGEST, high=LARGEST)
    if len(rows) < 2:
        raise InputError(f"X must have at least 2 rows, got shape {rows.shape}")
    if targets.ndim not in (1, 2) or len(targets) != len(rows):
        raise InputError(
            f"y must have shape ({len(rows)},) or ({len(rows)}, outputs) like the rows of X, got {targets.shape}"
        )
    return rows, targets


def subsample(rows: int, most: int, random_state: Any) -> np.ndarray:
    """Indices of at most so many rows, in their order."""
    from sklearn.utils import check_random_state

    if rows <= most:
        return np.arange(rows)
    return np.sort(check_random_state(random_state).permutation(rows)[:most])


def kernel_matrix(
    rows: np.ndarray,
    pool: np.ndarray,
    kernel: str | Callable[..., float],
    options: dict[str, Any],
    own_options: dict[str, Any] | None,
) -> np.ndarray:
    """The kernel matrix of the pool, symmetric; `options` for scikit-learn's kernels, `own_options` for a callable."""
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

    if callable(kernel):
        matrix = pairwise_kernels(rows[pool], metric=kernel, **(own_options or {}))
    elif kernel == "precomputed":
        if rows.shape[0] != rows.shape[1]:
            raise InputError(f"X must be a square matrix for kernel='precomputed', got shape {rows.shape}")
        matrix = rows[np.ix_(pool, pool)]
    else:
        check_choice("kernel", kernel, (*sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed"))
        # distances are computed from inner products, in which a common mean costs digits
        moved = rows[pool] - rows[pool].mean(axis=0) if kernel == "rbf" else rows[pool]
        try:
            matrix = pairwise_kernels(moved, metric=kernel, filter_params=True, **options)
        except ValueError as error:
            raise InputError(f"X does not suit kernel={kernel!r}: {error}") from None
    matrix = check_array("the kernel matrix", matrix, low=-LARGEST, high=LARGEST)
    asymmetry = np.abs(matrix - matrix.T).max()
    if asymmetry > 1e-8 * np.abs(matrix).max():
        raise InputError(f"the kernel matrix must be symmetric, got differences up to {asymmetry:.3g}")
    return (matrix + matrix.T) / 2
