"""Rows whose inner products are of order d^-1/2: uniform on the unit sphere, or independent entries of variance 1/d."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.checks import check_choice
from unlazy.functions.elementwise import Link, as_link

LAWS = ("sphere", "rademacher", "uniform", "gaussian")


def unit_vectors(rng: np.random.Generator, n: int, d: int, input_law: str = "sphere") -> np.ndarray:
    """n rows in R^d of mean square 1: exactly for the sphere and the hypercube, on average for the other laws."""
    check_choice("input_law", input_law, LAWS)
    if input_law == "rademacher":
        return (2.0 * rng.integers(0, 2, (n, d)) - 1) / np.sqrt(d)
    if input_law == "uniform":
        return rng.uniform(-np.sqrt(3 / d), np.sqrt(3 / d), (n, d))
    rows = rng.standard_normal((n, d))
    return rows / (np.linalg.norm(rows, axis=1, keepdims=True) if input_law == "sphere" else np.sqrt(d))


def kernel_eigenvalues(
    rng: np.random.Generator,
    kernel_function: str | Link | Callable[[Any], Any],
    n: int,
    d: int,
    input_law: str = "sphere",
) -> np.ndarray:
    """Ascending eigenvalues of A_ij = f(sqrt(d) <x_i, x_j>) / sqrt(n), A_ii = 0, of n drawn rows."""
    x = unit_vectors(rng, n, d, input_law)
    matrix = as_link(kernel_function, "kernel_function")(np.sqrt(d) * (x @ x.T)) / np.sqrt(n)
    np.fill_diagonal(matrix, 0.0)
    return np.linalg.eigvalsh(matrix)
