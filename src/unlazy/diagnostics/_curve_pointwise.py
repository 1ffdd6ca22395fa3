"""Learning curves with an effective ridge for each row, which agree with leave-one-out errors at n = N.

Rows enter a training set with probability f = n/N. With G = (s K + diag kappa)^-1,

    kappa_i = ridge + (1-f) / G_ii,        1/s = 1 + tr(K G)/p        (s = 1 without random features),
    [diag(G_ii^2) - (1-f) G*G] x - (s^2/p) b y = a,      -(1-f) b.x + (1 - s^2 tr(GKGK)/p) y = sum of Y^T G K G Y,

a_i = |(G Y)_i|^2, b_i = (G K G)_ii, G*G entrywise: row i has the expected squared error f x_i when it is not chosen.
f > 1 stands for rows that are not there yet. One Newton step costs one inverse.

For f < 1 the map kappa -> ridge + (1-f)/G_ii is increasing and concave, so Newton's method decreases monotonically to
the one solution from every point above it, and one step leads above it from wherever the Jacobian is an M-matrix. For
f > 1 the equations say that the concave function log det(K + diag kappa) + (f-1) sum log(ridge - kappa_i) is
stationary: there is exactly one solution, and line search finds it. kappa_i may be negative then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import ConvergenceError

_TOLERANCE = 1e-9
# where rounding errors leave nothing better
_LEAST_PRECISION = 1e-5
_MOST_STEPS = 60
_MOST_PRODUCTS = 500


class PointwiseError(NamedTuple):
    kappa: np.ndarray
    scale: float
    """s, 1 without random features."""
    errors: np.ndarray
    """One for each row."""
    training_error: float
    deviation: float
    """Standard deviation over pools of the mean of `errors`."""


def pointwise_error(
    kernel: np.ndarray,
    targets: np.ndarray,
    n: float,
    ridge: float,
    features: float = np.inf,
    start: tuple[float, float] = (1.0, 1.0),
) -> PointwiseError:
    """Errors of the rows at one n, ridge and number of features, for a kernel of mean diagonal about 1.

    With features the iteration starts from `start`, one kappa_i for all rows and s.
    """
    part, scale = n / len(kernel), 1.0
    if np.isfinite(features):
        kappa, scale, inverse = _with_features(kernel, part, ridge, features, start)
    elif part < 1:
        kappa, inverse = _fewer_rows(kernel, part, ridge)
    elif part == 1:
        kappa = np.full(len(kernel), ridge)
        inverse, _ = _inverse(kernel, kappa)
    else:
        kappa, inverse = _more_rows(kernel, part, ridge)
    g, squares = np.diagonal(inverse), inverse**2
    residuals = inverse @ targets
    a = np.sum(residuals**2, axis=1)
    x = _solve(squares, g**2, part - 1, a)
    if np.isfinite(features):
        b, _, twice = _feature_sums(squares, g, kappa, scale)
        energy = (np.sum(targets * residuals) - kappa @ a) / scale
        response = _solve(squares, g**2, part - 1, b)
        y = (energy + (1 - part) * (b @ x)) / (
            1 - scale**2 * twice / features - (1 - part) * scale**2 / features * (b @ response)
        )
        x = x + scale**2 / features * y * response
    # the response of s to a row that is left out is neglected
    deviation = _deviation(inverse, squares, residuals, x, part)
    if not x.mean() >= 0:
        raise ConvergenceError(f"a negative mean error for {part:g} times the rows at ridge {ridge:g}")
    training = ridge**2 * float(x @ g**2) / n
    return PointwiseError(kappa, scale, part * x, training, deviation)


def _fewer_rows(kernel: np.ndarray, part: float, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    kappa, before = (ridge + (1 - part) * np.diagonal(kernel)) / part, np.inf
    for _ in range(_MOST_STEPS):
        inverse, _ = _inverse(kernel, kappa)
        g = np.diagonal(inverse)
        residual = kappa - ridge - (1 - part) / g
        distance = float(np.max(np.abs(residual) / kappa))
        if distance <= _TOLERANCE or before <= distance <= _LEAST_PRECISION:
            return kappa, inverse
        before = distance
        kappa = kappa - _solve(inverse**2, g**2, part - 1, g**2 * residual)
    raise ConvergenceError(f"no effective ridges for {part:g} of the rows at ridge {ridge:g}")


def _more_rows(kernel: np.ndarray, part: float, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    kappa = np.full(len(kernel), ridge / part)
    inverse, value = _concave(kernel, part, ridge, kappa)
    for _ in range(_MOST_STEPS):
        g, gap = np.diagonal(inverse), ridge - kappa
        residual = (part - 1) / g - gap
        if (np.abs(residual) <= _TOLERANCE * gap).all():
            return kappa, inverse
        squares, gradient = inverse**2, g - (part - 1) / gap
        # the equations are nearly linear, so their Newton step is the better one; that of the function always ascends
        for diagonal, weight, right, trials in (
            (g**2, part - 1, -(g**2) * residual, 2),
            ((part - 1) / gap**2, 1.0, gradient, 40),
        ):
            step = _solve(squares, diagonal, weight, right)
            gain = 1e-4 * float(gradient @ step)
            accepted = _ascend(kernel, part, ridge, kappa, step, gain, value, trials)
            if accepted is not None:
                break
        else:
            break
        kappa, inverse, value = accepted
    raise ConvergenceError(f"no effective ridges for {part:g} times the rows at ridge {ridge:g}")


def _ascend(
    kernel: np.ndarray,
    part: float,
    ridge: float,
    kappa: np.ndarray,
    step: np.ndarray,
    gain: float,
    value: float,
    trials: int,
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The next kappa along a step, halved until the concave function grows."""
    for halvings in range(trials if gain > 0 else 0):
        following = kappa + 0.5**halvings * step
        try:
            found, next_value = _concave(kernel, part, ridge, following)
        except ConvergenceError:
            continue
        if next_value >= value + 0.5**halvings * gain - 1e-12 * abs(value):
            return following, found, next_value
    return None


def _concave(kernel: np.ndarray, part: float, ridge: float, kappa: np.ndarray) -> tuple[np.ndarray, float]:
    """G and the function that is stationary for f > 1."""
    if not (kappa < ridge).all():
        raise ConvergenceError("an effective ridge above the ridge")
    inverse, log_determinant = _inverse(kernel, kappa)
    return inverse, log_determinant + (part - 1) * float(np.sum(np.log(ridge - kappa)))


def _with_features(
    kernel: np.ndarray, part: float, ridge: float, features: float, start: tuple[float, float]
) -> tuple[np.ndarray, float, np.ndarray]:
    kappa, scale = np.full(len(kernel), start[0]), start[1]
    for _ in range(_MOST_STEPS):
        inverse, _ = _inverse(scale * kernel, kappa)
        g, squares = np.diagonal(inverse), inverse**2
        b, trace, twice = _feature_sums(squares, g, kappa, scale)
        residual = kappa - ridge - (1 - part) / g
        scale_residual = 1 / scale - 1 - trace / features
        if (np.abs(residual) <= _TOLERANCE * np.abs(kappa)).all() and abs(scale_residual) <= _TOLERANCE / scale:
            return kappa, scale, inverse
        plain = _solve(squares, g**2, part - 1, g**2 * residual)
        response = _solve(squares, g**2, part - 1, b)
        below = twice / features - 1 / scale**2 + (1 - part) * (b @ response) / features
        scale_step = (b @ plain / features - scale_residual) / below
        step = (1 - part) * scale_step * response - plain
        length = 1.0
        while scale + length * scale_step <= 0 or (part <= 1 and (kappa + length * step <= 0).any()):
            length /= 2
        kappa, scale = kappa + length * step, scale + length * scale_step
    raise ConvergenceError(f"no effective ridges for {part:g} of the rows and {features:g} features at ridge {ridge:g}")


def _feature_sums(
    squares: np.ndarray, g: np.ndarray, kappa: np.ndarray, scale: float
) -> tuple[np.ndarray, float, float]:
    """(G K G)_ii, tr K G and tr G K G K, from s K = G^-1 - diag kappa."""
    product = squares @ kappa
    size = len(g)
    return (
        (g - product) / scale,
        float(size - kappa @ g) / scale,
        float(size - 2 * kappa @ g + kappa @ product) / scale**2,
    )


def _deviation(inverse: np.ndarray, squares: np.ndarray, residuals: np.ndarray, x: np.ndarray, part: float) -> float:
    """The jackknife standard deviation of mean(f x): what leaving out row j changes, all rows at once.

    Without row j, G becomes G - G e_j e_j^T G / G_jj exactly. What this does to the equations of kappa and x is
    carried to the mean by their adjoint solutions, to first order.
    """
    size, g = len(x), np.diagonal(inverse)
    adjoint = _solve(squares, g**2, part - 1, np.full(size, part / size))
    # diag(G diag(p) G diag(x) G); three digits are enough for a standard deviation
    units = g.max(), np.abs(adjoint).max(), max(np.abs(x).max(), 1e-300)
    single, p, right = (
        (array / unit).astype(np.float32) for array, unit in zip((inverse, adjoint, x), units, strict=True)
    )
    triple = np.einsum("ij,ij->i", (single * p) @ single, single * right) * (units[0] ** 3 * units[1] * units[2])
    weighted = np.sum(residuals * (inverse @ (adjoint[:, None] * residuals)), axis=1)
    by_kappa = 2 * (squares @ (adjoint * g * x) - weighted - (1 - part) * triple)
    shift = _solve(squares, g**2, part - 1, by_kappa)
    direct = by_kappa / g + x * (squares @ adjoint) - (squares**2 @ (adjoint * x)) / g**2
    ratio = squares / np.outer(g, g)
    np.fill_diagonal(ratio, 0.0)
    through_kappa = (1 - part) * (ratio / (1 - ratio)) @ shift
    changes = direct + through_kappa - part / size * x
    return float(np.sqrt((size - 1) / size * np.sum((changes - changes.mean()) ** 2)))


def _inverse(kernel: np.ndarray, kappa: np.ndarray) -> tuple[np.ndarray, float]:
    """(K + diag kappa)^-1 and log det of K + diag kappa, which must be positive definite."""
    from scipy.linalg.lapack import dpotrf, dpotri

    matrix = np.array(kernel, order="F")
    matrix[np.diag_indices_from(matrix)] += kappa
    factor, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if failed or not np.isfinite(factor[-1, -1]):
        raise ConvergenceError("K + diag(kappa) is not positive definite")
    log_determinant = 2 * float(np.sum(np.log(np.diagonal(factor))))
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    lower = np.tril(inverse, -1)
    return lower + lower.T + np.diag(np.diagonal(inverse)), log_determinant


def _solve(squares: np.ndarray, diagonal: np.ndarray, weight: float, right: np.ndarray) -> np.ndarray:
    """y with [diag(d) + weight G*G] y = right, by conjugate gradients; the matrix must be positive definite.

    Scaled to diagonal 1 it is well conditioned, so that some tens of products replace a decomposition.
    """
    units = 1 / np.sqrt(np.maximum(diagonal + weight * np.diagonal(squares), 1e-300))
    solution, residual = np.zeros(len(units)), right * units
    direction, norm = residual, float(residual @ residual)
    first = norm
    for _ in range(_MOST_PRODUCTS):
        if norm <= 1e-26 * first:
            break
        scaled = units * direction
        image = units * (diagonal * scaled + weight * (squares @ scaled))
        curvature = float(direction @ image)
        if not curvature > 0:
            raise ConvergenceError("the Jacobian is not positive definite")
        length = norm / curvature
        solution, residual = solution + length * direction, residual - length * image
        new = float(residual @ residual)
        direction, norm = residual + new / norm * direction, new
    if not norm <= _LEAST_PRECISION**2 * first:
        raise ConvergenceError("conjugate gradients do not converge")
    return solution * units
