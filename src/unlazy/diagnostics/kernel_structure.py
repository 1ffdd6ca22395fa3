"""Do a user's rows have structure beyond their covariance? A test by the largest eigenvalue of a kernel matrix."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice
from unlazy.data.encoding import encode_table
from unlazy.functions.elementwise import Link, as_link
from unlazy.functions.orthogonal import Gegenbauer
from unlazy.theory.kernels.spectrum import function_spectrum

_DEGREE = 8
_LARGEST_ENTRY = 1e100
_STREAM = 0x6E756C6C


class KernelStructure(NamedTuple):
    """What `kernel_structure_test` found."""

    largest_eigenvalue: float
    """That of the kernel matrix."""
    null_edge: float
    """The right end of its spectrum for rows without structure, in theory."""
    p_value: float
    """The share of draws without structure whose largest eigenvalue is at least as large, the data counted as one."""
    null_eigenvalues: np.ndarray
    """The largest eigenvalues of these draws."""
    n: int
    """The number of rows used."""

    def __str__(self) -> str:
        return (
            f"largest eigenvalue {self.largest_eigenvalue:.3g} from {self.n} rows; without structure "
            f"{np.mean(self.null_eigenvalues):.3g} on average and at most {np.max(self.null_eigenvalues):.3g} in "
            f"{self.null_eigenvalues.size} draws (edge {self.null_edge:.3g}): "
            f"p = {self.p_value:.2g}"
        )


def kernel_structure_test(
    X: ArrayLike,
    kernel_function: str | Link | Callable[[np.ndarray], Any] | None = None,
    *,
    whiten: bool = False,
    null_draws: int = 99,
    max_rows: int = 1500,
    random_state: Any = 0,
) -> KernelStructure:
    """Test whether rows X (n, d) are like isotropic Gaussian ones, by the top eigenvalue of a nonlinear kernel matrix.

    Columns are standardised (`whiten` also removes their correlations, so that only structure beyond the covariance is
    left) and rows projected to the unit sphere; then

        A_ij = f(sqrt(d) <x_i, x_j>) / sqrt(n),    A_ii = 0,      f = `kernel_function`, (t^2 - 1)/sqrt(2) unless given.

    The quadratic f sees structure in pairs of coordinates and their squares that principal components do not: a sparse
    coordinate, a mixture of scales. It needs about n > d^2/2. The p-value compares with `null_draws` Gaussian data sets
    of the same shape that are treated alike, so it is exact at any size for the null hypothesis of Gaussian rows with
    independent columns, or with any columns if `whiten`. It is at least 1 / (null_draws + 1). `null_edge` is that of
    `unlazy.theory.function_spectrum`, for which an f with kinks is a `Link`. More than `max_rows` rows are subsampled.
    A DataFrame with text, dates or gaps is encoded by `TableEncoder`.
    Sources: Lu & Yau (2022) for the law; the test is this project's.
    """
    rows = check_array("X", encode_table(X)[0], low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY, ndim=2)
    check_choice("whiten", whiten, (True, False))
    draws = int(check_array("null_draws", null_draws, low=1, high=1e6, ndim=0))
    n, d = rows.shape
    if d < 3:
        raise InputError(f"X must have at least 3 columns, got shape {rows.shape}")
    least = d + 2 if whiten else 4
    if min(n, int(check_array("max_rows", max_rows, low=1, ndim=0))) < least:
        raise InputError(f"X must have at least {least} rows, got {n} rows and max_rows = {max_rows}")
    still = np.flatnonzero(np.ptp(rows, axis=0) == 0)
    if still.size:
        raise InputError(f"X must vary in every column, got the constant column {still[0]}")
    generator = _generator(random_state)
    if n > max_rows:
        rows = rows[np.sort(generator.permutation(n)[: int(max_rows)])]
        n = len(rows)
    if whiten and np.linalg.matrix_rank(rows - rows.mean(axis=0)) < d:
        raise InputError(f"X must have {d} columns that are not linear combinations of each other for whiten=True")
    kernel = as_link(_quadratic if kernel_function is None else kernel_function, "kernel_function")
    law = function_spectrum(kernel, Gegenbauer(d), n, last_degree=_DEGREE)
    top = _largest_eigenvalue(rows, kernel, whiten)
    null = np.array([_largest_eigenvalue(generator.standard_normal((n, d)), kernel, whiten) for _ in range(draws)])
    p_value = (1 + np.count_nonzero(null >= top)) / (draws + 1)
    return KernelStructure(top, float(law.edges[-1, 1]), float(p_value), null, n)


def _generator(random_state: Any) -> np.random.Generator:
    """A stream apart from default_rng(seed), from which the data may come: draws equal to them would hide it all."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if not isinstance(random_state, Integral) or random_state < 0:
        raise InputError(f"random_state must be a whole number >= 0, a Generator or None, got {random_state!r}")
    return np.random.default_rng([_STREAM, int(random_state)])


def _quadratic(t: np.ndarray) -> np.ndarray:
    return (t**2 - 1) / np.sqrt(2)


def _largest_eigenvalue(rows: np.ndarray, kernel: Link, whiten: bool) -> float:
    from scipy.linalg import eigh

    n, d = rows.shape
    # columns of any unit, without overflow in their squares
    centred = rows - rows.mean(axis=0)
    centred = centred / np.abs(centred).max(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[0] if whiten else centred / centred.std(axis=0)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    directions = directions / np.where(lengths > 0, lengths, 1.0)
    products = np.clip(directions @ directions.T, -1.0, 1.0)
    matrix = np.asarray(kernel(np.sqrt(d) * products), dtype=np.float64) / np.sqrt(n)
    np.fill_diagonal(matrix, 0.0)
    return float(eigh(matrix, eigvals_only=True, subset_by_index=[n - 1, n - 1])[0])
