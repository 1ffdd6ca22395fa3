"""The landscape of a feature map below a linear attention layer: slopes, plateaus at integers, and an exact saddle.

A feature map h (k features) is trained so that prompts of tasks v.f(x), v ~ N(0, I), are answered from their context.
With the covariance S = E[h h^T], the cross moments C = E[f h^T] and E[f f^T] = r I ("strength" r) the loss with the
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


class Landscape(NamedTuple):
    """What the moments of a feature map say about the loss around it."""

    loss: float
    """L = tr Z, the risk with the best attention matrix."""
    residual: np.ndarray
    """Z (k', k'), the second moment of what is missed of the k' teacher features; its eigenvalues are in [0, r]."""
    fit: np.ndarray
    """G (k', k), the best linear map from the features to the teacher's."""
    slope: float
    """-2 |Z G|_*, the least dL/ds towards a rotated teacher, at (1 - s) h + s R f over R in the hull of rotations."""
    rotation: np.ndarray
    """The R (k, k') of that slope."""


class Saddle(NamedTuple):
    """The exact saddle of `attention_saddle`."""

    strength: float
    """r = E sigma(z)^2."""
    overlap: float
    """c = E[z sigma(z)]."""
    mean_slope: float
    """s = E sigma'(z), which is c for a Gaussian z."""
    loss: float
    """m r."""
    growth_rate: float
    """nu = 2 k c^2 s^2 / r: the most negative eigenvalue of N times the Hessian is -nu."""
    multiplicity: int
    """m^2, of that eigenvalue."""
    curvature: float
    """d^2 L / ds^2 = -2 m k^2 r towards the teacher whose missing features go to the idle slots."""


def attention_landscape(cross: ArrayLike, covariance: ArrayLike, strength: float) -> Landscape:
    """Loss, missed part and steepest slope towards a rotated teacher, of features with the given moments.

    `cross` is E[f h^T] of shape (k', k), `covariance` E[h h^T] and `strength` r with E[f f^T] = r I. Along
    h_s = (1 - s) h + s R f

        dL/ds = -2 tr(R Z G)   at s = 0,

    the least of which over |R| <= 1 is -2 |Z G|_* (sum of singular values), at R = V U^T of Z G = U D V^T. With k' > k
    teacher features L >= (k' - k) r. Exact for every law of x. Source: Kim & Suzuki 2024, Theorem 1 and its proof.
    """
    cross, covariance, strength = _checked(cross, covariance, strength)
    fit = np.linalg.solve(covariance, cross.T).T
    residual = strength * np.eye(len(cross)) - fit @ cross.T
    residual = (residual + residual.T) / 2
    least = np.linalg.eigvalsh(residual)[0]
    if least < -1e-6 * strength:
        raise InputError(
            "cross, covariance and strength must be moments of one law, with strength >= every eigenvalue of "
            f"cross covariance^-1 cross^T; got strength = {strength:g} and {strength - least:g}"
        )
    left, singular, right = np.linalg.svd(residual @ fit, full_matrices=False)
    return Landscape(
        loss=max(float(np.trace(residual)), 0.0),
        residual=residual,
        fit=fit,
        slope=float(-2 * singular.sum()),
        rotation=right.T @ left.T,
    )


def slope_bound(loss: ArrayLike, strength: ArrayLike, largest: ArrayLike) -> Any:
    """What the slope towards a rotated teacher is at most, if |f(x)| |h(x)| <= `largest`^2 for all x.

        slope <= -(2 / largest^2) (L - m r) ((m + 1) r - L),      m = floor(L / r)

    It is 0 at multiples of r alone, so that descent of this kind can stop nowhere else. For L < r it is the bound of
    Kim & Suzuki 2024, Theorem 1 (1-2), where `largest` is |sigma|_inf and second layers have length at most 1. The
    bound for all L follows from their choice R = E[h f^T] / largest^2, with which the slope is -2 sum z (r - z) /
    largest^2 over the eigenvalues z of Z: a concave function, least where all z but one are 0 or r. Broadcasts.
    """
    loss, strength = check_array("loss", loss, low=0), check_array("strength", strength, above=0)
    largest = check_array("largest", largest, above=0)
    common_shape(loss=loss, strength=strength, largest=largest)
    loss, strength, largest = np.broadcast_arrays(loss, strength, largest)
    above = np.fmod(loss, strength)
    with np.errstate(over="ignore"):
        # 0 at multiples, also where the other factor overflows
        below = np.where(above > 0, strength - above, 0.0)
        return (-2 * (above / largest) * (below / largest))[()]


class MeasuredSlopes(NamedTuple):
    """The loss at some features and its slope towards the best rotated teacher."""

    loss: float
    slope: float
    """dL/ds by a complex step, the imaginary part of L at a tiny imaginary s, without the formula."""
    formula: float
    bound: float
    """That of `slope_bound`."""


def measured_slopes(basis_cross: ArrayLike, root: ArrayLike, largest: float, true_features: int) -> MeasuredSlopes:
    """The slope of `attention_landscape` and what its loss says itself, for features h = T^T q and E[f f^T] = I.

    The first k' = `true_features` rows of `basis_cross` are E[f q^T] with E[q q^T] = I, `root` is T: the covariance
    T^T T is then as good as the digits of T. `largest` is that of `slope_bound`.
    """
    basis_cross, root = check_array("basis_cross", basis_cross, ndim=2), check_array("root", root, ndim=2)
    true_features = check_whole("true_features", true_features, 1, len(basis_cross))
    cross, covariance = basis_cross[:true_features] @ root, root.T @ root
    found = attention_landscape(cross, covariance, 1.0)
    s, rotation = 1e-30j, found.rotation
    turned = rotation @ cross
    moved_cross = (1 - s) * cross + s * rotation.T
    moved = (1 - s) ** 2 * covariance + s * (1 - s) * (turned + turned.T) + s**2 * rotation @ rotation.T
    fitted = np.sum(moved_cross * np.linalg.solve(moved, moved_cross.T).T)
    slope = float(-fitted.imag / s.imag)
    return MeasuredSlopes(found.loss, slope, found.slope, slope_bound(found.loss, 1.0, largest))


def saddle_curvature(cross: ArrayLike, covariance: ArrayLike, strength: float) -> float:
    """d^2 L / ds^2 at a saddle, along (1 - s) h + s R f with R that maps missing teacher features onto ker G.

        d^2 L / ds^2 = -2 r^2 tr over ker G of S^-1  <=  -2 L^2 / c^2     (c = sup |h|, as many features as teachers)

    Only where Z G = 0, so that L is a multiple of r; other moments are refused. It is stronger than the bound
    -(2/k) L^2 / c^2 of Kim & Suzuki 2024, Theorem 1 (2). 0 if nothing is missing or no feature is idle.
    """
    found = attention_landscape(cross, covariance, strength)
    cross, covariance, strength = _checked(cross, covariance, strength)
    _, singular, right = np.linalg.svd(found.fit)
    # of a fit that misses nothing: G itself may be 0 up to rounding
    scale = math.sqrt(strength / np.trace(covariance))
    if -found.slope > 1e-6 * strength * max(scale, singular[0]):
        raise InputError(
            "cross, covariance and strength must be those of a saddle, where the slope towards the teacher is 0; got "
            f"the slope {found.slope:g}"
        )
    missing = round(found.loss / strength)
    idle = right[np.count_nonzero(singular > 1e-6 * scale) :]
    inverse = np.sort(np.linalg.eigvalsh(idle @ np.linalg.inv(covariance) @ idle.T))[::-1]
    return float(-2 * strength**2 * inverse[:missing].sum()) + 0.0


def attention_saddle(activation: Any, features: int, missing: int, *, nodes: int | None = None) -> Saddle:
    """The numbers of an exact saddle: k - m of k slots have learned their feature, m watch irrelevant coordinates.

    The teacher is f_j = sigma(x_j), j <= k, in k + m dimensions or more. A slot is 1/k of all neurons, with one second
    layer e_j; those of a learned slot have the weight e_j, those of an idle one that of a coordinate beyond k. The
    gradient is 0 and L = m r. The flow is theta_i' = -N dL/dtheta_i; the fastest growing perturbations turn idle slots
    towards missing coordinates:

        growth rate nu = 2 k c^2 s^2 / r,      c = E[z sigma(z)],  s = E sigma'(z),  r = E sigma(z)^2,

    m^2 of them. `activation` is an odd function: a name, a `Link` or a function. z is standard normal, or, if
    `nodes` is given, has the law of the Gauss-Hermite rule of that many points (`normal_nodes`), whose product is then
    the law of x. Exact. Source: the project's; strict saddles are Theorem 1 (2) of Kim & Suzuki 2024.
    """
    k, m = check_whole("features", features, 1), check_whole("missing", missing, 1)
    if m > k:
        raise InputError(f"missing must be at most features = {k}, got {m}")
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
        strength=strength,
        overlap=overlap,
        mean_slope=slope,
        loss=m * strength,
        growth_rate=2 * k * (overlap * slope) ** 2 / strength,
        multiplicity=m * m,
        curvature=-2.0 * m * k**2 * strength,
    )


def escape_slope(growth_rate: ArrayLike, step: ArrayLike) -> Any:
    """The slope of log(m r - L) in time while a saddle is left by Euler steps: 2 log(1 + step nu) / step.

    2 nu for step 0, the flow. Exact as long as the perturbation is small and its fastest part dominates. Broadcasts.
    """
    rate, step = check_array("growth_rate", growth_rate, low=0), check_array("step", step, low=0)
    common_shape(growth_rate=rate, step=step)
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
    cross = check_array("cross", cross, ndim=2)
    covariance = check_symmetric("covariance", covariance, cross.shape[1])
    strength = float(check_array("strength", strength, above=0, ndim=0))
    eigenvalues = np.linalg.eigvalsh(covariance)
    if not eigenvalues[0] * _LARGEST_CONDITION >= eigenvalues[-1] or eigenvalues[-1] <= 0:
        raise InputError(
            f"covariance must be positive definite with a condition number <= {_LARGEST_CONDITION:g}, got eigenvalues "
            f"from {eigenvalues[0]:g} to {eigenvalues[-1]:g}"
        )
    return cross, covariance, strength


def _check_odd(function: Any) -> None:
    points = np.array([0.0, 0.037, 0.31, 1.0, 1.9, 4.3])
    with np.errstate(all="ignore"):
        there, back = np.asarray(function(points), float), np.asarray(function(-points), float)
    if not np.isfinite([there, back]).all() or np.abs(there + back).max() > _ROUNDING * np.abs(there).max():
        worst = points[np.argmax(np.abs(there + back))]
        raise InputError(f"activation must be odd, got values of unequal size at {worst:g} and {-worst:g}")
