"""The landscape of a feature map below a linear attention layer: slopes, plateaus at integers, and an exact saddle.

A feature map h (k features) is trained so that prompts of tasks v.f(x), v ~ N(0, I), are answered from their context.
With `feature_moment` S = E[h h^T], `cross_moment` C = E[f h^T] and E[f f^T] = r I (`target_moment` r) the loss with the
best attention matrix S^-1 is

    L = E|f - G h|^2 = tr Z,      G = C S^-1,      Z = r I - C S^-1 C^T.

The loss has no factor 1/2; the constants of Kim & Suzuki 2024 are those of half of it, and are translated here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_symmetric, check_whole, common_shape
from unlazy.functions.elementwise import as_activation
from unlazy.numerics.gaussian import normal_averages, normal_nodes

_LARGEST_CONDITION = 1e10
_ROUNDING = 1e-9
_LARGEST = 1e100


class Landscape(NamedTuple):
    """What the moments of a feature map say about the loss around it."""

    loss: float
    """L = tr Z, the risk with the best attention matrix."""
    missed_moment: np.ndarray
    """Z (k', k'), the second moment of what is missed of the k' teacher features; its eigenvalues are in [0, r]."""
    best_fit: np.ndarray
    """G (k', k), the best linear map from the features to the teacher's."""
    steepest_slope: float
    """-2 |Z G|_*, the least dL/ds towards a rotated teacher, at (1 - s) h + s R f over R in the hull of rotations."""
    rotation: np.ndarray
    """The R (k, k') of that slope."""


class Saddle(NamedTuple):
    """The exact saddle of `attention_saddle`."""

    target_moment: float
    """r = E sigma(z)^2."""
    linear_coefficient: float
    """c = E[z sigma(z)]."""
    mean_slope: float
    """s = E sigma'(z), which is c for a Gaussian z."""
    loss: float
    """m r."""
    escape_rate: float
    """nu = 2 k c^2 s^2 / r: the most negative eigenvalue of N times the Hessian is -nu."""
    multiplicity: int
    """m^2, of that eigenvalue."""
    curvature: float
    """d^2 L / ds^2 = -2 m k^2 r towards the teacher whose missing features go to the idle slots."""


def attention_landscape(cross_moment: ArrayLike, feature_moment: ArrayLike, target_moment: float) -> Landscape:
    """Loss, missed part and steepest slope towards a rotated teacher, of features with the given moments.

    `cross_moment` is E[f h^T] of shape (k', k), `feature_moment` E[h h^T] and `target_moment` r with E[f f^T] = r I.
    Along h_s = (1 - s) h + s R f

        dL/ds = -2 tr(R Z G)   at s = 0,

    the least of which over |R| <= 1 is -2 |Z G|_* (sum of singular values), at R = V U^T of Z G = U D V^T. With k' > k
    teacher features L >= (k' - k) r. Exact for every law of x. Source: Kim & Suzuki 2024, Theorem 1 and its proof.

    >>> cross_moment, feature_moment = [[0.5, 0], [0, 0]], [[1, 0], [0, 1]]
    >>> found = attention_landscape(cross_moment, feature_moment, target_moment=1)
    >>> print(f"{found.loss:.3f} {found.steepest_slope:.3f}")
    1.750 -0.750
    """
    cross, covariance, strength = _checked(cross_moment, feature_moment, target_moment)
    fit = np.linalg.solve(covariance, cross.T).T
    residual = strength * np.eye(len(cross)) - fit @ cross.T
    residual = (residual + residual.T) / 2
    least = np.linalg.eigvalsh(residual)[0]
    if least < -1e-6 * strength:
        raise InputError(
            "cross_moment, feature_moment and target_moment must be moments of one law, with target_moment >= every "
            f"eigenvalue of cross_moment feature_moment^-1 cross_moment^T; got target_moment = {strength:g} and "
            f"{strength - least:g}"
        )
    left, singular, right = np.linalg.svd(residual @ fit, full_matrices=False)
    return Landscape(
        loss=max(float(np.trace(residual)), 0.0),
        missed_moment=residual,
        best_fit=fit,
        steepest_slope=float(-2 * singular.sum()),
        rotation=right.T @ left.T,
    )


def slope_bound(loss: ArrayLike, target_moment: ArrayLike, largest_length: ArrayLike) -> Any:
    """What the slope towards a rotated teacher is at most, if |f(x)| |h(x)| <= c^2 for all x, c = `largest_length`.

        slope <= -(2 / c^2) (L - m r) ((m + 1) r - L),      m = floor(L / r)

    It is 0 at multiples of r alone, so that descent of this kind can stop nowhere else. For L < r it is the bound of
    Kim & Suzuki 2024, Theorem 1 (1-2), where c is |sigma|_inf and second layers have length at most 1. The
    bound for all L follows from their choice R = E[h f^T] / c^2, with which the slope is -2 sum z (r - z) / c^2
    over the eigenvalues z of Z: a concave function, least where all z but one are 0 or r. Broadcasts.

    >>> print(slope_bound(loss=[0.5, 1, 1.5], target_moment=1, largest_length=2))
    [-0.125  0.    -0.125]
    """
    loss, strength = check_array("loss", loss, low=0), check_array("target_moment", target_moment, above=0)
    largest = check_array("largest_length", largest_length, above=0)
    common_shape(loss=loss, target_moment=strength, largest_length=largest)
    loss, strength, largest = np.broadcast_arrays(loss, strength, largest)
    above = np.fmod(loss, strength)
    with np.errstate(over="ignore"):
        # 0 at multiples, also where the other factor overflows
        below = np.where(above > 0, strength - above, 0.0)
        return (0.0 - 2 * (above / largest) * (below / largest))[()]


def descent_time(
    start_loss: ArrayLike,
    end_loss: ArrayLike,
    target_moment: ArrayLike,
    largest_length: ArrayLike,
    density_ratio: ArrayLike,
) -> Any:
    """The time in which the flow of infinitely many neurons takes the loss from L0 < r to L1, at most.

        (c^4 R / 4 r^3) [g(L0/r) - g(L1/r)],      g(u) = -1/u + 1/(1 - u) + 2 log(u / (1 - u))

    If under the teacher's law E|a|^2 <= 1 and its density under that of the neurons is at most R = `density_ratio`,
    rotated in any way, a slope -delta towards the teacher makes dL/dt <= -delta^2/R, and delta is at least that of
    `slope_bound`, with c = `largest_length`: then dL/dt <= -(4/(c^4 R)) L^2 (r - L)^2, of which this is the solution.
    For small L it is L <= c^4 R / (4 r^2 T), which is O(R k^2/T) for c = 1 and r of order 1/k. Source: Kim & Suzuki
    2024, improvement rates (constants and the integral are the project's). Broadcasts.

    >>> print(descent_time(start_loss=0.5, end_loss=[0.5, 0.05], target_moment=1, largest_length=1, density_ratio=10))
    [ 0.    62.091]
    """
    given = {"start_loss": start_loss, "end_loss": end_loss, "target_moment": target_moment}
    given |= {"largest_length": largest_length, "density_ratio": density_ratio}
    arrays = {name: check_array(name, each, above=0) for name, each in given.items()}
    common_shape(**arrays)
    start, end, strength, largest, ratio = np.broadcast_arrays(*arrays.values())
    if (start >= strength).any() or (end > start).any():
        raise InputError("start_loss must be below target_moment and end_loss at most start_loss, got others")
    with np.errstate(over="ignore"):
        passed = [-1 / u + 1 / (1 - u) + 2 * (np.log(u) - np.log1p(-u)) for u in (start / strength, end / strength)]
        # a product of parts that may overflow one by one
        scale = (largest / strength) ** 2 * largest**2 * ratio / (4 * strength)
        found = np.where(end < start, scale * (passed[0] - passed[1]), 0.0)
    if not np.isfinite(found).all():
        raise InputError("start_loss, end_loss and target_moment are too far apart for a number")
    return found[()]


class MeasuredSlopes(NamedTuple):
    """The loss at some features and its slope towards the best rotated teacher."""

    loss: float
    steepest_slope: float
    """dL/ds by a complex step, the imaginary part of L at a tiny imaginary s, without the formula."""
    slope_formula: float
    """That of `attention_landscape`."""
    slope_bound: float
    """That of `slope_bound`."""


def measured_slopes(
    basis_cross_moment: ArrayLike, basis_root: ArrayLike, largest_length: float, true_features: int
) -> MeasuredSlopes:
    """The slope of `attention_landscape` and what its loss says itself, for features h = T^T q and E[f f^T] = I.

    The first k' = `true_features` rows of `basis_cross_moment` are E[f q^T] with E[q q^T] = I, `basis_root` is T: the
    moment T^T T is then as good as the digits of T. `largest_length` is that of `slope_bound`.

    >>> cross, root = [[0.5, 0], [0, 0.2]], [[1, 0], [0, 1]]
    >>> found = measured_slopes(cross, basis_root=root, largest_length=2, true_features=2)
    >>> print(f"{found.steepest_slope:.4f} {found.slope_formula:.4f} {found.slope_bound:.4f}")
    -1.1340 -1.1340 -0.1030
    """
    basis_cross = check_array("basis_cross_moment", basis_cross_moment, ndim=2, low=-_LARGEST, high=_LARGEST)
    root = check_array("basis_root", basis_root, ndim=2, low=-_LARGEST, high=_LARGEST)
    if len(root) != basis_cross.shape[1]:
        raise InputError(
            f"basis_root must have {basis_cross.shape[1]} rows like basis_cross_moment columns, got {len(root)}"
        )
    true_features = check_whole("true_features", true_features, 1, len(basis_cross))
    largest = check_array("largest_length", largest_length, above=0, ndim=0)
    cross, covariance = basis_cross[:true_features] @ root, root.T @ root
    found = attention_landscape(cross, covariance, 1.0)
    s, rotation = 1e-30j, found.rotation
    turned = rotation @ cross
    moved_cross = (1 - s) * cross + s * rotation.T
    moved = (1 - s) ** 2 * covariance + s * (1 - s) * (turned + turned.T) + s**2 * rotation @ rotation.T
    fitted = np.sum(moved_cross * np.linalg.solve(moved, moved_cross.T).T)
    slope = float(-fitted.imag / s.imag)
    return MeasuredSlopes(found.loss, slope, found.steepest_slope, slope_bound(found.loss, 1.0, largest))


def saddle_curvature(cross_moment: ArrayLike, feature_moment: ArrayLike, target_moment: float) -> float:
    """d^2 L / ds^2 at a saddle, along (1 - s) h + s R f with R that maps missing teacher features onto ker G.

        d^2 L / ds^2 = -2 r^2 tr over ker G of S^-1  <=  -2 L^2 / c^2     (c = sup |h|, as many features as teachers)

    Only where Z G = 0, so that L is a multiple of r; other moments are refused. It is stronger than the bound
    -(2/k) L^2 / c^2 of Kim & Suzuki 2024, Theorem 1 (2). 0 if nothing is missing or no feature is idle.

    >>> cross_moment, feature_moment = [[1, 0], [0, 0]], [[1, 0], [0, 1]]
    >>> print(saddle_curvature(cross_moment, feature_moment, target_moment=1))
    -2.0
    """
    found = attention_landscape(cross_moment, feature_moment, target_moment)
    _, covariance, strength = _checked(cross_moment, feature_moment, target_moment)
    _, singular, right = np.linalg.svd(found.best_fit)
    # of a fit that misses nothing: G itself may be 0 up to rounding
    scale = math.sqrt(strength / np.trace(covariance))
    if -found.steepest_slope > 1e-6 * strength * max(scale, singular[0]):
        raise InputError(
            "cross_moment, feature_moment and target_moment must be those of a saddle, where the slope towards the "
            f"teacher is 0; got the slope {found.steepest_slope:g}"
        )
    missing = round(found.loss / strength)
    idle = right[np.count_nonzero(singular > 1e-6 * scale) :]
    inverse = np.sort(np.linalg.eigvalsh(idle @ np.linalg.inv(covariance) @ idle.T))[::-1]
    return float(-2 * strength**2 * inverse[:missing].sum()) + 0.0


def attention_saddle(activation: Any, features: int, missing_features: int, *, nodes: int | None = None) -> Saddle:
    """The numbers of an exact saddle: k - m of k slots have learned their feature, m watch irrelevant coordinates.

    The teacher is f_j = sigma(x_j), j <= k, in k + m dimensions or more. A slot is 1/k of all neurons, with one second
    layer e_j; those of a learned slot have the weight e_j, those of an idle one that of a coordinate beyond k. The
    gradient is 0 and L = m r. The flow is theta_i' = -N dL/dtheta_i; the fastest growing perturbations turn idle slots
    towards missing coordinates:

        growth rate nu = 2 k c^2 s^2 / r,      c = E[z sigma(z)],  s = E sigma'(z),  r = E sigma(z)^2,

    m^2 of them. `activation` is an odd function: a name, a `Link` or a function. z is standard normal, or, if
    `nodes` is given, has the law of the Gauss-Hermite rule of that many points (`normal_nodes`), whose product is then
    the law of x. Exact. Source: the project's; strict saddles are Theorem 1 (2) of Kim & Suzuki 2024.

    >>> found = attention_saddle("tanh", features=2, missing_features=1)
    >>> print(f"{found.escape_rate:.4f} {found.curvature:.4f}")
    1.3655 -3.1544
    """
    k, m = check_whole("features", features, 1), check_whole("missing_features", missing_features, 1)
    if m > k:
        raise InputError(f"missing_features must be at most features = {k}, got {m}")
    sigma = as_activation(activation)
    _check_odd(sigma)
    if nodes is None:
        averages = normal_averages("activation", sigma, 0.0, 1.0)
        overlap = slope = float(averages.linear)
        strength = float(averages.linear**2 + averages.rest)
    else:
        points, weights = normal_nodes(check_whole("nodes", nodes, 2))
        values = np.asarray(sigma(points), np.float64)
        strength, overlap = float(weights @ values**2), float(weights @ (points * values))
        slope = float(weights @ sigma.slope(points))
    if not strength > 0 or not math.isfinite(strength):
        raise InputError(f"activation must have a finite E sigma^2 > 0, got {strength:g}")
    return Saddle(
        target_moment=strength,
        linear_coefficient=overlap,
        mean_slope=slope,
        loss=m * strength,
        escape_rate=2 * k * (overlap * slope) ** 2 / strength,
        multiplicity=m * m,
        curvature=-2.0 * m * k**2 * strength,
    )


def escape_slope(escape_rate: ArrayLike, step_size: ArrayLike) -> Any:
    """The slope of log(m r - L) in time while a saddle is left by Euler steps: 2 log(1 + eta nu) / eta.

    2 nu for step size eta = 0, the flow. Exact as long as the perturbation is small and its fastest part dominates.
    Broadcasts.

    >>> print(escape_slope(escape_rate=1.365, step_size=[0, 0.1, 1]))
    [2.73  2.559 1.722]
    """
    rate, step = check_array("escape_rate", escape_rate, low=0), check_array("step_size", step_size, low=0)
    common_shape(escape_rate=rate, step_size=step)
    rate, step = np.broadcast_arrays(rate, step)
    with np.errstate(over="ignore"):
        move = step * rate
        # the flow where the logarithm is its argument, and a sum of logarithms where the product overflows
        small, large = move < _ROUNDING, np.isinf(move)
        flow = 2 * rate * (1 - np.where(small, move, 0.0) / 2)
        ones = np.ones_like(rate)
        logs = np.log(np.where(large, rate, ones)) + np.log(np.where(large, step, ones))
        logs = np.where(large, logs, np.log1p(np.where(large, 0.0, move)))
        return np.where(small, flow, 2 * logs / np.where(small, ones, step))[()]


def _checked(cross: Any, covariance: Any, strength: Any) -> tuple[np.ndarray, np.ndarray, float]:
    cross = check_array("cross_moment", cross, ndim=2)
    covariance = check_symmetric("feature_moment", covariance, cross.shape[1])
    strength = float(check_array("target_moment", strength, above=0, ndim=0))
    eigenvalues = np.linalg.eigvalsh(covariance)
    if not eigenvalues[0] * _LARGEST_CONDITION >= eigenvalues[-1] or eigenvalues[-1] <= 0:
        raise InputError(
            f"feature_moment must be positive definite with a condition number <= {_LARGEST_CONDITION:g}, got "
            f"eigenvalues from {eigenvalues[0]:g} to {eigenvalues[-1]:g}"
        )
    return cross, covariance, strength


def _check_odd(function: Any) -> None:
    points = np.array([0.0, 0.037, 0.31, 1.0, 1.9, 4.3])
    with np.errstate(all="ignore"):
        there, back = np.asarray(function(points), float), np.asarray(function(-points), float)
    if not np.isfinite([there, back]).all() or np.abs(there + back).max() > _ROUNDING * np.abs(there).max():
        worst = points[np.argmax(np.abs(there + back))]
        raise InputError(f"activation must be odd, got values of unequal size at {worst:g} and {-worst:g}")
