"""What a convex linear model would have said of each row had it been fitted without that row, from one fit.

The model minimises sum_i w_i loss(y_i, z_i) + sum_j penalty_j |W_j|^2 / 2 with r scores z_i = x_i W. Leaving row i out
is one Newton step from the optimum,

    z_i without i  =  z_i + (I - w_i h_i L_i)^-1 w_i h_i g_i,       h_i = x_i^T H^-1 x_i   (r x r),

with g = dloss/dz, L = d^2 loss/dz^2 and H = diag(penalty) + sum_i w_i L_i (x) x_i x_i^T. It is exact for the square
loss. Source: Rad & Maleki (2020). The matrix before g_i is the Onsager term of message passing, row by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_FLOATS_TOGETHER = 2**22
_LEAST_PIVOT = 1e-7


class SingularHessian(ArithmeticError):
    """The fit has no unique optimum: some direction of the weights has neither penalty nor curvature."""


class LeaveOneOut(NamedTuple):
    """What one fit says of its own rows."""

    scores: np.ndarray
    """Of each row without that row, (n, r)."""
    leverage: np.ndarray
    """Largest eigenvalue of w_i h_i L_i, between 0 and 1: how far row i holds its own score, (n,)."""


def span(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows in an orthonormal basis of their span, where that has fewer columns, and the basis (p, n), else None.

    Inner products stay equal, so that a fit with the same penalty on all columns does.
    """
    if rows.shape[1] <= rows.shape[0]:
        return rows, None
    from scipy.linalg import qr

    basis, triangle = qr(rows.T, mode="economic", check_finite=False)
    return triangle.T.copy(), basis


def inverse_hessian(rows: np.ndarray, penalty: np.ndarray, weights: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """H^-1 as (r, p, r, p) for rows (n, p), penalties (p,), row weights (n,) and L (n, r, r).

    r (r + 1) / 2 weighted Gram products and one Cholesky factor of r p columns.
    """
    from scipy.linalg import lapack

    p, r = rows.shape[1], curvature.shape[1]
    hessian = np.empty((r, p, r, p))
    for a in range(r):
        for b in range(a + 1):
            block = rows.T @ (rows * (weights * curvature[:, a, b])[:, None])
            hessian[a, :, b], hessian[b, :, a] = block, block
        hessian[a, np.arange(p), a, np.arange(p)] += penalty
    flat = hessian.reshape(r * p, r * p)
    scale = np.sqrt(np.diag(flat))
    if not (scale > 0).all():
        raise SingularHessian("a column has neither penalty nor curvature")
    flat /= scale
    flat /= scale[:, None]
    factor, failed = lapack.dpotrf(flat.T, lower=1, overwrite_a=1)
    if failed or not np.diag(factor).min() >= _LEAST_PIVOT:
        raise SingularHessian("some direction of the weights has neither penalty nor curvature")
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    inverse /= scale
    inverse /= scale[:, None]
    return inverse.reshape(r, p, r, p)


def newton_step(inverse: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """-H^-1 residual, for the gradient (p, r) of the whole objective."""
    r, p = inverse.shape[:2]
    return -(inverse.reshape(r * p, r * p) @ residual.T.ravel()).reshape(r, p).T


def leave_one_out(
    rows: np.ndarray,
    inverse: np.ndarray,
    weights: np.ndarray,
    scores: np.ndarray,
    gradient: np.ndarray,
    curvature: np.ndarray,
) -> LeaveOneOut:
    """Scores without each row, for rows (n, p), H^-1, row weights (n,), scores and gradients (n, r), L (n, r, r)."""
    n, p = rows.shape
    r = scores.shape[1]
    held = np.empty((n, r, r))
    step = max(1, _FLOATS_TOGETHER // p)
    for first in range(0, n, step):
        some = rows[first : first + step]
        for a in range(r):
            for b in range(a + 1):
                values = np.einsum("ij,ij->i", some @ inverse[a, :, b], some)
                held[first : first + step, a, b] = held[first : first + step, b, a] = values
    held *= weights[:, None, None]
    own = held @ curvature
    leverage = own[:, 0, 0] if r == 1 else np.abs(np.linalg.eigvals(own)).max(axis=1)
    if not (leverage < 1 - 1e-10).all():
        row = int(np.argmax(leverage))
        raise SingularHessian(f"without row {row} some direction of the weights has neither penalty nor curvature")
    without = scores + np.linalg.solve(np.eye(r) - own, (held @ gradient[..., None]))[..., 0]
    return LeaveOneOut(without, leverage)
