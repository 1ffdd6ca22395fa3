"""Ridge regression: solutions for given penalties, and a path on which one decomposition serves all ridges, 0 included.

The estimator minimises (1/n)|y - X b|^2 + ridge |b|^2; the penalty of a sum, |y - X b|^2 + penalty |b|^2, is n ridge.
On the path, with X = U diag(s) V^T, all quantities are sums over singular values of s^2 / (s^2 + penalty).
Ridge 0 is the limit from above: the pseudo-inverse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array

_GRAM_CONDITION = 1e-8
_LARGEST = 1e300
# penalties from which on one tridiagonal form is faster than their Cholesky factors
_MANY = 5


class RidgeDecomposition(NamedTuple):
    """X = U diag(s) V^T on the rank r of X."""

    design: np.ndarray
    squares: np.ndarray
    """s^2, shape (r,)."""
    right: np.ndarray
    """V, shape (d, r)."""
    left: np.ndarray | None
    """U, shape (n, r), where the decomposition gave it for nothing."""


class ConditionalRisk(NamedTuple):
    """Expectations over target and noise given the design; each field has the shape of the ridges."""

    risk: np.ndarray
    bias: np.ndarray
    variance: np.ndarray
    training_error: np.ndarray
    degrees_of_freedom: np.ndarray
    gcv: np.ndarray


class RidgePath(NamedTuple):
    """Fits of one data set, with the ridges along the first axis and the shape of Y after it."""

    coefficients: np.ndarray
    fitted: np.ndarray
    degrees_of_freedom: np.ndarray
    gcv: np.ndarray
    loo_residuals: np.ndarray


def ridge_solutions(matrix: np.ndarray, right: np.ndarray, penalties: ArrayLike) -> np.ndarray:
    """(A + penalty I)^-1 right for A (n, n) >= 0 and right (n,) or (n, k); its shape follows that of the penalties.

    The dual of ridge regression (A = X X^T, right = y) or the primal (A = X^T X, right = X^T y). A Cholesky factor for
    each penalty, or one tridiagonal form for all if they are many; if they are not above the rounding errors of A, one
    eigendecomposition. Penalty 0 is the pseudo-inverse, for which eigenvalues within these errors are 0.
    """
    from scipy.linalg import cho_factor, cho_solve

    levels = np.asarray(penalties, dtype=np.float64)
    n = len(matrix)
    large = levels.min() > n * np.finfo(np.float64).eps * np.trace(matrix)
    if large and levels.size < _MANY:
        shifted = (_shifted(matrix, level) for level in levels.ravel())
        factors = (cho_factor(one, overwrite_a=True, check_finite=False) for one in shifted)
        found = [cho_solve(factor, right, check_finite=False) for factor in factors]
    elif large and n > 2:
        found = _tridiagonal_solutions(matrix, right.reshape(n, -1), levels.ravel())
    else:
        eigenvalues, vectors = np.linalg.eigh(matrix)
        projected = vectors.T @ right.reshape(n, -1)
        eigenvalues = np.maximum(eigenvalues, 0.0)[:, None]
        rounding = n * np.finfo(np.float64).eps * eigenvalues.max()
        known = np.where(eigenvalues > rounding, eigenvalues, np.inf)
        found = [vectors @ (projected / (eigenvalues + level if level else known)) for level in levels.ravel()]
    return np.reshape(found, levels.shape + right.shape)


def _shifted(matrix: np.ndarray, level: float) -> np.ndarray:
    """A + level I in double precision, in the order that LAPACK overwrites."""
    found = np.array(matrix.T, dtype=np.float64, order="F")
    found.ravel(order="K")[:: len(matrix) + 1] += level
    return found


def _tridiagonal_solutions(matrix: np.ndarray, right: np.ndarray, penalties: np.ndarray) -> list[np.ndarray]:
    """With A = Q T Q^T a penalty costs a product with Q: a third of an eigendecomposition for all.

    Q leaves the first coordinate alone, and is stored as the reflections of a QR decomposition on the others.
    """
    from scipy.linalg import lapack

    size = int(lapack.dsytrd_lwork(len(matrix), lower=1)[0])
    reduced, diagonal, beside, scales, _ = lapack.dsytrd(matrix, lower=1, lwork=size)
    reflections = np.asfortranarray(reduced[1:, :-1])

    def rotated(columns: np.ndarray, way: str) -> np.ndarray:
        rest, _, _ = lapack.dormqr("L", way, reflections, scales, columns[1:], 64 * columns.shape[1])
        return np.concatenate([columns[:1], rest])

    inside = rotated(right, "T")
    found = [lapack.dptsv(diagonal + penalty, beside, inside)[2] for penalty in penalties]
    return np.split(rotated(np.concatenate(found, axis=1), "N"), len(penalties), axis=1)


def ridge_coefficients(design: np.ndarray, targets: np.ndarray, penalties: ArrayLike) -> np.ndarray:
    """argmin_b |y - X b|^2 + penalty |b|^2, from the smaller of X X^T and X^T X; its shape follows the penalties'."""
    n, d = design.shape
    if n >= d:
        return ridge_solutions(design.T @ design, design.T @ targets, penalties)
    dual = ridge_solutions(design @ design.T, targets.reshape(n, -1), penalties)
    return (design.T @ dual).reshape(*np.shape(penalties), d, *targets.shape[1:])


def left_out_residuals(
    eigenvalues: np.ndarray,
    vectors: np.ndarray,
    targets: np.ndarray,
    penalties: ArrayLike,
    centred_rows: ArrayLike = np.inf,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each penalty c what a fit without row i misses it by, (..., n, tasks), and the weights c g_i (..., n).

        residual_i = (G y)_i / g_i,   g_i = G_ii - 1/(m c),   G = (K + c I)^-1,   K = V diag(l) V^T

    for kernels (..., n, n) of m = `centred_rows` centred rows, whose mean is relearned without the row too; infinitely
    many stand for no centring. Since 1/g_i is the variance that the model expects of residual_i, c g_i residual_i^2
    estimates the noise. c g_i is kept above rounding.
    """
    projected, squares = vectors.mT @ targets, vectors**2
    for penalty in np.asarray(penalties):
        # times c: between 0 and 1
        inverse = (penalty / (eigenvalues + penalty))[..., None]
        weights = np.maximum((squares @ inverse)[..., 0] - 1 / np.asarray(centred_rows), np.finfo(np.float64).eps)
        yield vectors @ (inverse * projected) / weights[..., None], weights


class LeftOutFit(NamedTuple):
    """Kernel ridge regression at one penalty."""

    residuals: np.ndarray
    """(n, tasks), what a fit without the row misses it by."""
    dual: np.ndarray
    """(n, tasks), (K + c I)^-1 Y."""


def left_out_solution(matrix: np.ndarray, targets: np.ndarray, penalty: float) -> LeftOutFit | None:
    """What `left_out_residuals` gives without centring, of one kernel matrix (n, n) at one penalty c.

    From a Cholesky factor and its inverse: where few penalties are asked, a fraction of the time of a spectral
    decomposition. None where K + c I is not positive but for rounding.
    """
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(_shifted(matrix, penalty), overwrite_a=1)
    if failed:
        return None
    dual = lapack.dpotrs(factor, targets)[0]
    inverse, failed = lapack.dpotri(factor, overwrite_c=1)
    if failed:
        return None
    weights = np.maximum(np.diag(inverse), np.finfo(np.float64).eps / penalty)
    return LeftOutFit(dual / weights[:, None], dual)


def decompose(design: ArrayLike) -> RidgeDecomposition:
    """The singular values and vectors of X (n x d), from the smaller of X X^T and X^T X.

    A Gram matrix squares the condition number, so where that would cost more than half the digits X itself
    is decomposed.
    """
    design = check_array("design", design, ndim=2)
    n, d = design.shape
    squares, vectors = np.linalg.eigh(design @ design.T if n < d else design.T @ design)
    if squares[0] <= _GRAM_CONDITION * squares[-1]:
        left, singular, right_rows = np.linalg.svd(design, full_matrices=False)
        kept = singular > max(n, d) * np.finfo(np.float64).eps * singular[0]
        return RidgeDecomposition(design, singular[kept] ** 2, right_rows[kept].T, left[:, kept])
    if n < d:
        return RidgeDecomposition(design, squares, design.T @ (vectors / np.sqrt(squares)), vectors)
    return RidgeDecomposition(design, squares, vectors, None)


def conditional_risk(
    decomposition: RidgeDecomposition,
    spectrum: ArrayLike,
    prior: ArrayLike,
    noise_variance: float,
    ridges: ArrayLike,
) -> ConditionalRisk:
    """Risk, training error, degrees of freedom and GCV of ridge regression given X, over target and noise.

    For a drawn X, covariance diag(l) (`spectrum`), target b ~ (0, diag(p)) (`prior`), noise variance s2 and
    Q = I - X^T G X, G = (X X^T + penalty I)^-1,

        bias = sum_ij l_i Q_ij^2 p_j,    variance = s2 sum_ij (G X)_ij^2 l_j,
        gcv = E mean((G y)^2) / (tr G / n)^2.

    With A = V^T diag(l) V, C = V^T diag(p) V and the residual weights r = penalty / (s^2 + penalty) the
    bias is the quadratic form bias_0 + 2 r.(diag(V^T diag(l p) V) - W 1) + r.W r, W = A * C entrywise: a
    ridge costs one product with W. Exact for every X; the targets need only have mean 0 and the given
    second moments.
    """
    (n, d), squares, right = decomposition.design.shape, decomposition.squares, decomposition.right
    spectrum, prior = _direction_values("spectrum", spectrum, d), _direction_values("prior", prior, d)
    noise_variance = float(check_array("noise_variance", noise_variance, low=0, ndim=0))
    ridges = check_array("ridges", ridges, low=0, high=_LARGEST)
    shrinkage, residual, weights = _weights(decomposition, ridges)
    null = n - squares.size

    weighted_covariance, weighted_prior = _weighted_gram(right, spectrum), _weighted_gram(right, prior)
    product = weighted_covariance * weighted_prior
    bias = np.einsum("...i,...i->...", residual @ product, residual)
    if squares.size < d:
        # X misses directions of the target
        row_sums, diagonal = product.sum(axis=1), (spectrum * prior) @ right**2
        missed = spectrum @ prior - 2 * diagonal.sum() + row_sums.sum()
        bias = bias + 2 * residual @ (diagonal - row_sums) + missed
    variance = noise_variance * (shrinkage**2 @ (np.diagonal(weighted_covariance) / squares))

    label_variance = squares * np.diagonal(weighted_prior) + noise_variance
    training_error = (residual**2 @ label_variance + null * noise_variance) / n
    gcv_numerator = (weights**2 @ label_variance + null * noise_variance) / n
    gcv = gcv_numerator / ((weights.sum(axis=-1) + null) / n) ** 2
    return ConditionalRisk(bias + variance, bias, variance, training_error, shrinkage.sum(axis=-1), gcv)


def sample_effective_ridge(decomposition: RidgeDecomposition, ridges: ArrayLike) -> np.ndarray:
    """The sample's effective ridge 1 / tr G at each of the ridges, G = (X X^T + penalty I)^-1; 0 if G is infinite."""
    n, squares = len(decomposition.design), decomposition.squares
    penalty = n * check_array("ridges", ridges, low=0, high=_LARGEST, ndim=1)[:, None]
    null = n - squares.size
    with np.errstate(divide="ignore"):
        trace = (1 / (squares + penalty)).sum(axis=1) + (null / penalty[:, 0] if null else 0.0)
    return 1 / trace


def ridge_path(
    decomposition: RidgeDecomposition, targets: ArrayLike, ridges: ArrayLike, *, centred: bool = False
) -> RidgePath:
    """Coefficients, fitted values, degrees of freedom, GCV and leave-one-out residuals of a path of ridges.

        b = X^T G y,    gcv = mean((G y)^2) / (tr G / n)^2,    leave-one-out residual_i = (G y)_i / G_ii.

    `targets` has shape (n,) or (n, tasks). A left-out fit keeps the penalty n ridge of the full one; if X and Y are
    `centred` it relearns their means, which takes 1/(n penalty) from G_ii. At ridge 0 all values are limits. Sources:
    Golub, Heath & Wahba (1979); Hastie, Montanari, Rosset & Tibshirani (2022) for ridge 0.
    """
    design, squares, right, left = decomposition
    n, d = design.shape
    targets = check_array("targets", targets)
    if targets.ndim not in (1, 2) or len(targets) != n:
        raise InputError(f"targets must have shape ({n},) or ({n}, tasks), got shape {targets.shape}")
    ridges = np.atleast_1d(check_array("ridges", ridges, low=0, high=_LARGEST))
    if ridges.ndim != 1:
        raise InputError(f"ridges must have at most 1 dimension, got shape {ridges.shape}")
    if left is None:
        left = (design @ right) / np.sqrt(squares)
    shrinkage, _, weights = _weights(decomposition, ridges)

    columns = targets.reshape(n, -1)
    projected = left.T @ columns
    null = n - squares.size
    outside = columns - left @ projected if null else np.zeros(columns.shape)
    coefficients = right @ (shrinkage[:, :, None] * (projected / np.sqrt(squares)[:, None]))
    dual = left @ (weights[:, :, None] * projected) + outside
    gcv = np.mean(dual**2, axis=1) / ((weights.sum(axis=1) + null)[:, None] / n) ** 2

    # for a sample inside the range of X both sides of the quotient vanish at ridge 0 in the weights' scale
    outside_share = 1 - np.sum(left**2, axis=1) - (1 / n if centred else 0.0)
    contained = outside_share <= n * np.finfo(np.float64).eps
    inverse = 1 / (squares + n * ridges[:, None])
    diagonal = weights @ (left**2).T + outside_share
    diagonal[:, contained] = inverse @ (left[contained] ** 2).T
    dual[:, contained] = left[contained] @ (inverse[:, :, None] * projected)
    loo_residuals = dual / diagonal[:, :, None]

    task_shape = targets.shape[1:]
    return RidgePath(
        coefficients.reshape(-1, d, *task_shape),
        (design @ coefficients).reshape(-1, n, *task_shape),
        shrinkage.sum(axis=1),
        gcv.reshape(-1, *task_shape),
        loo_residuals.reshape(-1, n, *task_shape),
    )


def _weights(decomposition: RidgeDecomposition, ridges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On the range of X: the eigenvalues of the hat matrix H, of I - H, and of G up to a factor.

    The factor makes those of G finite at ridge 0: it is the least eigenvalue of X X^T + penalty I, so that
    G is 1 on the null space of X X^T if there is one.
    """
    n, squares = len(decomposition.design), decomposition.squares
    penalty = n * ridges[..., None]
    least = 0.0 if squares.size < n else squares.min()
    total = squares + penalty
    return squares / total, penalty / total, (penalty + least) / total


def _weighted_gram(right: np.ndarray, values: np.ndarray) -> np.ndarray:
    """V^T diag(values) V."""
    if np.ptp(values) == 0:
        return values[0] * np.eye(right.shape[1])
    half = np.sqrt(values)[:, None] * right
    return half.T @ half


def _direction_values(name: str, value: ArrayLike, d: int) -> np.ndarray:
    values = check_array(name, value, low=0)
    if values.ndim and values.shape != (d,):
        raise InputError(f"{name} must be a number or have shape ({d},), got shape {values.shape}")
    return np.broadcast_to(values, (d,))
