"""Linear algebra of `pointwise`: inverses of K + diag(kappa), and systems with their entrywise squares.

With an intercept that no penalty shrinks, K stands for K + c 1 1^T with c going to infinity, inverse and determinant
for

    G = A - A 1 1^T A / 1^T A 1,   log det - log c -> log det(K + diag kappa) + log 1^T A 1,   A = (K + diag kappa)^-1,

which do not depend on what K has along 1. Leaving out row j takes G e_j e_j^T G / G_jj from G, as without an intercept,
so that (G y)_j / G_jj is what a fit without row j misses, its intercept estimated without that row too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import ConvergenceError

# where rounding errors leave nothing better
_LEAST_PRECISION = 1e-5
_MOST_PRODUCTS = 500
_BLOCK = 128


class PoolKernel(NamedTuple):
    """The kernel matrix of a pool; with an intercept it must have a positive part along 1, of any size."""

    matrix: np.ndarray
    intercept: bool = False

    @property
    def rows(self) -> int:
        return len(self.matrix)

    def cholesky(self, kappa: np.ndarray, scale: float = 1.0) -> tuple[np.ndarray, float]:
        """The factor from which `inverse` comes, and the logarithm of the determinant, or its limit."""
        factor, log_determinant = cholesky(self.matrix if scale == 1 else scale * self.matrix, kappa)
        if self.intercept:
            from scipy.linalg.lapack import dpotrs

            log_determinant += float(np.log(dpotrs(factor, np.ones(self.rows), lower=1)[0].sum()))
        return factor, log_determinant

    def inverse(self, factor: np.ndarray) -> np.ndarray:
        """G; the factor is overwritten."""
        found = inverse_of(factor)
        if self.intercept:
            sums = found.sum(axis=1)
            found -= np.outer(sums, sums / sums.sum())
        return found


def cholesky(kernel: np.ndarray, kappa: np.ndarray) -> tuple[np.ndarray, float]:
    """The lower factor of K + diag kappa, which must be positive definite, and the logarithm of its determinant."""
    from scipy.linalg.lapack import dpotrf

    # K is symmetric: its transpose is in the order of LAPACK without moving a number
    matrix = kernel.copy().T if kernel.flags.c_contiguous else np.array(kernel, order="F")
    np.einsum("ii->i", matrix)[:] += kappa
    factor, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if failed or not np.isfinite(factor[-1, -1]):
        raise ConvergenceError("K + diag(kappa) is not positive definite")
    return factor, 2 * float(np.sum(np.log(np.diagonal(factor))))


def inverse_of(factor: np.ndarray) -> np.ndarray:
    """(L L^T)^-1 from a lower factor, which is overwritten."""
    from scipy.linalg.lapack import dpotri

    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    for begin in range(0, len(inverse), _BLOCK):
        end = begin + _BLOCK
        corner = inverse[begin:end, begin:end]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
        inverse[begin:end, end:] = inverse[end:, begin:end].T
    return inverse.T


def solve(
    squares: np.ndarray, diagonal: np.ndarray, weight: float, right: np.ndarray, precision: float = 1e-13
) -> np.ndarray:
    """y with [diag(d) + weight G*G] y = right, by conjugate gradients; the matrix must be positive definite.

    Scaled to diagonal 1 it is well conditioned, so that some tens of products replace a decomposition.
    """
    from scipy.linalg.blas import dsymv

    units = 1 / np.sqrt(np.maximum(diagonal + weight * np.diagonal(squares), 1e-300))
    solution, residual = np.zeros(len(units)), right * units
    direction, norm = residual, float(residual @ residual)
    first = norm
    for _ in range(_MOST_PRODUCTS):
        if norm <= precision**2 * first:
            break
        scaled = units * direction
        image = units * (diagonal * scaled + weight * dsymv(1.0, squares.T, scaled))
        curvature = float(direction @ image)
        if not curvature > 0:
            raise ConvergenceError("the Jacobian is not positive definite")
        length = norm / curvature
        solution, residual = solution + length * direction, residual - length * image
        new = float(residual @ residual)
        direction, norm = residual + new / norm * direction, new
    if not norm <= max(_LEAST_PRECISION, precision) ** 2 * first:
        raise ConvergenceError("conjugate gradients do not converge")
    return solution * units
