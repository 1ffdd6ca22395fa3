"""Denoising score matching of a two-layer quadratic network in closed form, and its symmetric stationary points.

A sample is two patches [mu_y, xi] with orthogonal mu_1, mu_-1. The network maps each patch to
f(x) = m^(-1/2) sum_r <w_r, x>^2 w_r and predicts the noise eps in x_t = e^-t x + beta eps, beta^2 = 1 - e^(-2t).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole, common_shape
from unlazy.numerics.roots import ConvergenceError, increasing_root

_OVERLAP = (1 + np.sqrt(3)) ** (-1 / 3)
"""a beta^(-1/3) where the loss of one patch is least over a and |w|^2; there beta^2 |w|^2 = a^2/sqrt(3)."""
_LARGEST_ENTRY = 1e30
_LEAST_TIME, _LARGEST_TIME = 1e-60, 100.0
_LARGEST_WIDTH = 4096
"""Their overlaps are a matrix."""
_LEAST_PATCH = 1e-75
"""Times e^-t; below, powers of it underflow."""


class DenoisingLoss(NamedTuple):
    """What `denoising_loss` computes."""

    loss: float
    """Mean over samples of E |f - eps|^2 - d, summed over patches."""
    gradient: np.ndarray
    """With respect to the weights, (m, d)."""


class StationaryPoint(NamedTuple):
    """All neurons alike, at a stationary point of the loss."""

    weights: np.ndarray
    """w (d,), of each of the m neurons."""
    overlaps: np.ndarray
    """<w, x> of every patch, (n, patches)."""
    loss: float
    gradient_norm: float
    """|gradient| over the norm of its part that is linear in the patches, at most 1e-6."""
    outside_square: float
    """The square of the part of w outside the span of the patches."""
    outside_slope: float
    """|w|^2 times the derivative of the loss by that square; if negative, the point is a saddle where d allows one."""
    least_curvature: float
    """|w|^2 times the least eigenvalue of the Hessian for moves of all w alike in the span; if negative, a saddle."""


class DenoiserBalance(NamedTuple):
    """Every field has the broadcast shape of the arguments of `denoiser_balance`."""

    balance: np.ndarray
    """<w, mu> / <w, xi> at the stationary point in the span of the patches."""
    signal_overlap: np.ndarray
    """<w, mu> for one neuron; multiply by m^(-1/6) for m."""
    noise_overlap: np.ndarray
    """<w, xi> for one neuron."""
    outside_slope: np.ndarray
    """|w|^2 times the derivative of the loss by the square of a part of w outside the span; if negative, a saddle."""
    minimum_balance: np.ndarray
    """<w, mu> / <w, xi> at the minimum over all w: 1 where the other point is a saddle, else the same."""


def denoising_loss(weights: ArrayLike, patches: ArrayLike, time: float) -> DenoisingLoss:
    """The denoising loss of weights W (m, d) on `patches` (n, P, d), averaged over the diffusion noise exactly.

    For a patch x, with alpha = e^-t, a_r = alpha <w_r, x>, G = W W^T and A_r = a_r^2 + beta^2 G_rr,

        E |f - eps|^2 - d = (1/m) sum_rs G_rs (A_r A_s + 4 beta^2 a_r a_s G_rs + 2 beta^4 G_rs^2)
                            - (4 beta / sqrt(m)) sum_r a_r G_rr.

    Exact (Gaussian moments). Source: the model of Han et al. (2025); the closed form is this project's.

    >>> found = denoising_loss(weights=[[1, 0.5]], patches=[[[2, 0], [0, 1]]], time=1)
    >>> print(found.loss, found.gradient)
    9.516 [[57.543 24.759]]
    """
    weights = check_array("weights", weights, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY, ndim=2)
    patches = _patches(patches)
    alpha, beta = _mixing(time)
    if weights.shape[1] != patches.shape[2]:
        raise InputError(f"weights must have {patches.shape[2]} columns like patches, got shape {weights.shape}")
    n, m = len(patches), len(weights)
    rows = patches.reshape(-1, patches.shape[2])
    gram = weights @ weights.T
    lengths = np.diag(gram)
    a = alpha * rows @ weights.T
    squares = a**2 + beta**2 * lengths
    # derivatives by a (rows, m) and by G_rs (m, m), G_rr appearing also in A_r and in the last term
    by_squares = 2 * squares @ gram / m
    gram_a = a @ (gram**2)
    loss = (
        np.sum(squares * (squares @ gram)) / m
        + 4 * beta**2 / m * np.sum(a * gram_a)
        + 2 * beta**4 / m * len(rows) * np.sum(gram**3)
        - 4 * beta / np.sqrt(m) * np.sum(a @ lengths)
    )
    by_a = 2 * a * by_squares + 8 * beta**2 / m * gram_a - 4 * beta / np.sqrt(m) * lengths
    by_gram = squares.T @ squares / m + 8 * beta**2 / m * (a.T @ a) * gram + 6 * beta**4 / m * len(rows) * gram**2
    by_gram[np.diag_indices(m)] += beta**2 * by_squares.sum(axis=0) - 4 * beta / np.sqrt(m) * a.sum(axis=0)
    gradient = alpha * by_a.T @ rows + 2 * by_gram @ weights
    return DenoisingLoss(float(loss / n), gradient / n)


def symmetric_stationary_point(patches: ArrayLike, time: float, *, width: int = 1) -> StationaryPoint:
    """The stationary point of `denoising_loss` on `patches` (n, P, d) at which all neurons are equal, in their span.

    By permutation symmetry a stationary point of the loss restricted to w_1 = ... = w_m = w is one of the whole loss.
    With g = |w|^2 and a = e^-t <w, x> the restricted loss of a patch is

        m g (a^4 + 6 beta^2 a^2 g + 3 beta^4 g^2) - 4 beta sqrt(m) a g,

    so w = m^(-1/6) times that of one neuron, and g enters for itself: w may have a part outside the span of the
    patches, by symmetry with a gradient of 0 where there is none. This point has none. It is the minimum over w in the
    span, but a saddle over all w where `outside_slope` is negative, as at small t: `symmetric_minimum` is lower then.
    With two neurons or more both are saddles of the whole loss at every t if d exceeds the rank: neurons w + c_r z,
    sum c_r = 0, z outside the span and orthogonal to w, change it by m^(-2/3) |z|^2 sum c_r^2 times

        mean over samples of the sum over patches of 2 beta^2 g (a^2 + beta^2 g) - 4 beta a < 0   (g, a of one neuron),

    for at a stationary point the sums of a^4 + 6 beta^2 a^2 g + 3 beta^4 g^2 and 2 beta a are equal. Found by L-BFGS
    from the best multiple of the mean patch, refined by Newton's method in the span. Raises `ConvergenceError` if it
    fails.

    >>> found = symmetric_stationary_point(patches=[[[2, 0, 0], [0, 1, 0]]], time=1, width=4)
    >>> print(found.overlaps, found.outside_slope)
    [[0.7759 0.2884]] 0.2226
    """
    problem = _restricted(patches, time, width)
    return problem.described(problem.inside_minimum(), 0.0)


def symmetric_minimum(patches: ArrayLike, time: float, *, width: int = 1) -> StationaryPoint:
    """The minimum of `denoising_loss` on `patches` (n, P, d) over weights w_1 = ... = w_m = w, any w in R^d.

    For one neuron the loss of a patch over its overlap a = e^-t <w, x> and g = |w|^2 is least at

        a^3 (1 + sqrt(3)) = beta,      beta^2 g = a^2 / sqrt(3),      where it is -2/(3 + sqrt(3)) = -0.423,

    the same a for every patch. All reach it at once, and then no w is lower, iff some u has <u, x> = 1 for every patch
    and |u|^2 <= e^(-2t)/(sqrt(3) beta^2); what the least such u leaves of g is a part of w outside the span, for which
    d must exceed the patches' rank. Elsewhere it is `symmetric_stationary_point`, or where that is a saddle the end of
    a descent from outside the span: a local minimum, which no theorem says to be the lowest. Raises `ConvergenceError`
    if it fails.

    >>> found = symmetric_minimum(patches=[[[2, 0, 0], [0, 1, 0]]], time=0.1)
    >>> print(found.overlaps, found.outside_square)
    [[0.5947 0.5947]] 0.4802
    """
    problem = _restricted(patches, time, width)
    inside = problem.described(problem.inside_minimum(), 0.0)
    if not problem.has_outside or inside.outside_slope >= 0:
        return inside
    return problem.described(*problem.outside_minimum())


def denoiser_balance(signal_strength: ArrayLike, signal_norm: ArrayLike, time: ArrayLike) -> DenoiserBalance:
    """<w, mu> / <w, xi> at the symmetric stationary points, for patches that are orthogonal to one another.

    With x = n SNR^2 the `signal_strength`, |mu| the `signal_norm`, a = e^-t <w, mu>, b = e^-t <w, xi> and
    g = |w|^2 = (2/|mu|^2) e^(2t) (a^2 + (x/2) b^2), the two numbers are stationary for

        L(a) + L(b),      L(a) = g (a^4 + 6 beta^2 a^2 g + 3 beta^4 g^2) - 4 beta a g.

    This is `symmetric_stationary_point`, and a saddle where e^(2t) - 1 < |mu|^2 / (sqrt(3) (2 + x)): there a part of w
    outside the span lowers the loss, to `symmetric_minimum`, at which a = b. The balance a/b of the stationary
    point tends to x/2 = n SNR^2 / 2 for large t and to `early_denoiser_balance(x)`, between .72 and 1.40, for t ->
    0. Exact as d/n grows, for balanced labels and noise orthogonal to mu_1 and mu_-1. Source: Han et al. (2025) for
    the order at large t; the equations are this project's.

    >>> found = denoiser_balance(signal_strength=8, signal_norm=5, time=[0.1, 1, 4, 10])
    >>> print(found.balance)
    [0.8249 1.681 3.987 4.000]
    """
    strength = check_array("signal_strength", signal_strength, low=1e-12, high=1e12)
    norm = check_array("signal_norm", signal_norm, low=1e-6, high=1e6)
    time = check_array("time", time, low=_LEAST_TIME, high=_LARGEST_TIME)
    shape = common_shape(signal_strength=strength, signal_norm=norm, time=time)
    half, square, t = (np.broadcast_to(a, shape) for a in (strength / 2, norm**2, time))
    spread = np.sinh(t) * np.exp(t) * 4 / square
    ratio, noise = _balanced(half, spread)
    # in units in which beta = 1 and e^-t = 1
    unit = np.cbrt(np.sqrt(-np.expm1(-2 * t))) * np.exp(t)
    a, b, s = ratio * noise, noise, spread * (ratio**2 + half) * noise**2
    slope = s * (a**4 + b**4 + 12 * s * (a**2 + b**2) + 18 * s**2 - 4 * (a + b))
    lowest = np.where(np.sqrt(3) * spread * (1 + half) < 1, 1.0, ratio)
    return DenoiserBalance(ratio[()], (a * unit)[()], (b * unit)[()], slope[()], lowest[()])


def early_denoiser_balance(signal_strength: ArrayLike) -> np.ndarray:
    """The limit of `denoiser_balance` as the diffusion time vanishes: a number of order one.

    With k = n SNR^2 / 2, the balance r and b = <w, xi> in units of beta^(1/3),

        b^3 = (k - r) / (r (k r^2 - 1)),      2 (r^2 + k)(b^3 - 1) + k ((r^4 + 1) b^3 - 4 (r + 1)) = 0,

    so that r(1/k) = 1/r(k), r = 1 at n SNR^2 = 2, and r -> 1.395 (the root of s^4 = 2s + 1) as k -> 0. Exact for
    beta^2 (1 + k) << |mu|^2.

    >>> print(early_denoiser_balance(signal_strength=[0.01, 2, 100]))
    [1.392 1.         0.7235]
    """
    strength = check_array("signal_strength", signal_strength, low=1e-12, high=1e12)
    return _balanced(strength / 2, np.zeros(strength.shape))[0][()]


def _patches(value: ArrayLike) -> np.ndarray:
    patches = check_array("patches", value, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY)
    if patches.ndim != 3:
        raise InputError(f"patches must have shape (n, patches, d), got {patches.shape}")
    return patches


def _mixing(time: float) -> tuple[float, float]:
    """alpha = e^-t and beta = sqrt(1 - alpha^2)."""
    t = float(check_array("time", time, low=_LEAST_TIME, high=_LARGEST_TIME, ndim=0))
    return float(np.exp(-t)), float(np.sqrt(-np.expm1(-2 * t)))


class _Restricted(NamedTuple):
    """The loss of one neuron in units in which the patches have mean square 1 and, for u = w/unit, it is a polynomial.

    In orthonormal coordinates of the span; outside it, one more coordinate is enough.
    """

    patches: np.ndarray
    time: float
    width: int
    rows: np.ndarray
    """All patches in coordinates of the span, (n P, rank)."""
    basis: np.ndarray
    """(rank, d)."""
    spread: float
    """(beta/alpha)^2, alpha = e^-t times the patches' size."""
    unit: float

    @property
    def has_outside(self) -> bool:
        return self.basis.shape[0] < self.basis.shape[1]

    def inside_minimum(self) -> np.ndarray:
        """u in the span, from the best multiple of the mean patch: A c^6 - B c^3, for both terms are homogeneous."""
        mean = self.shrink * self.rows.mean(axis=0)
        a, spread = self.rows @ mean, self.spread * (mean @ mean)
        even = np.sum(a**4) + 6 * spread * np.sum(a**2) + 3 * spread**2 * a.size
        return self._descended(self.rows, np.cbrt(2 * a.sum() / even) * mean)

    def outside_minimum(self) -> tuple[np.ndarray, float]:
        """u in the span and the part outside it, from where every patch has its least loss if that can be."""
        even = np.linalg.lstsq(self.rows, np.full(len(self.rows), _OVERLAP), rcond=None)[0]
        square = _OVERLAP**2 / (np.sqrt(3) * self.spread)
        outside = np.sqrt(max(square - even @ even, 0.01 * square))
        padded = np.hstack([self.rows, np.zeros((len(self.rows), 1))])
        found = self._descended(padded, np.append(even, outside))
        return found[:-1], float(found[-1])

    def described(self, u: np.ndarray, outside: float) -> StationaryPoint:
        n, width = len(self.patches), self.width
        direction = _orthogonal(self.basis) if outside else 0.0
        weights = self.unit * width ** (-1 / 6) * (u @ self.basis + outside * direction)
        everything = denoising_loss(np.tile(weights, (width, 1)), self.patches, self.time)
        mean_patch = np.linalg.norm(self.patches.sum(axis=(0, 1))) / n
        alpha, beta = _mixing(self.time)
        pull = 4 * beta * alpha * (weights @ weights) * mean_patch / np.sqrt(width)
        relative = float(np.linalg.norm(everything.gradient, axis=1).max() / pull)
        if not relative < 1e-6:
            raise ConvergenceError(f"no stationary point found: relative gradient {relative:.1e}")
        padded = np.hstack([self.rows, np.zeros((len(self.rows), 1))]) if outside else self.rows
        place = np.append(u, outside) if outside else u
        found, scale = _polynomial(padded, place, self.spread), self.spread / n * (place @ place)
        return StationaryPoint(
            weights=weights,
            overlaps=self.patches @ weights,
            loss=everything.loss,
            gradient_norm=relative,
            outside_square=float(self.unit**2 * width ** (-1 / 3) * outside**2),
            outside_slope=float(scale * found.by_square),
            least_curvature=float(scale * np.linalg.eigvalsh(found.hessian()[: u.size, : u.size])[0]),
        )

    @property
    def shrink(self) -> float:
        """With u = shrink v the polynomial has coefficients of order one in v."""
        return (1 + self.spread) ** (-2 / 3)

    def _descended(self, rows: np.ndarray, start: np.ndarray) -> np.ndarray:
        from scipy.optimize import minimize

        shrink, n = self.shrink, len(self.patches)

        def value(v: np.ndarray) -> tuple[float, np.ndarray]:
            found = _polynomial(rows, shrink * v, self.spread)
            return found.value / shrink**3 / n, found.gradient / shrink**2 / n

        options = {"maxiter": 20_000, "ftol": 0, "gtol": 1e-9}
        u = shrink * minimize(value, start / shrink, jac=True, method="L-BFGS-B", options=options).x
        for _ in range(20):
            found = _polynomial(rows, u, self.spread)
            step = np.linalg.lstsq(found.hessian(), found.gradient, rcond=None)[0]
            if not np.linalg.norm(step) < 0.1 * np.linalg.norm(u):
                break
            u = u - step
            if np.linalg.norm(step) < 1e-14 * np.linalg.norm(u):
                break
        return u


def _restricted(patches: ArrayLike, time: float, width: int) -> _Restricted:
    patches = _patches(patches)
    alpha, beta = _mixing(time)
    width = check_whole("width", width, 1, _LARGEST_WIDTH)
    flat = patches.reshape(-1, patches.shape[2])
    left, values, basis = np.linalg.svd(flat, full_matrices=False)
    kept = values > max(flat.shape) * np.finfo(float).eps * values[0]
    if not kept.any():
        raise InputError("patches must not all be 0")
    rows = left[:, kept] * values[kept]
    if np.linalg.norm(rows.mean(axis=0)) <= 1e-12 * values[0]:
        raise InputError("patches must have a mean that is not 0: signals of opposite sign cancel")
    length = float(np.sqrt(np.mean(np.sum(rows**2, axis=1))))
    if alpha * length < _LEAST_PATCH:
        raise InputError(f"patches must be larger for this time: e^-time times their size is {alpha * length:.1e}")
    spread = (beta / (alpha * length)) ** 2
    return _Restricted(
        patches, time, width, rows / length, basis[kept], spread, float(np.cbrt(beta) / (alpha * length))
    )


def _orthogonal(basis: np.ndarray) -> np.ndarray:
    """A unit vector orthogonal to orthonormal rows, near the axis that is farthest from their span."""
    found = np.zeros(basis.shape[1])
    found[np.argmin((basis**2).sum(axis=0))] = 1.0
    for _ in range(2):
        found = found - (basis @ found) @ basis
    return found / np.linalg.norm(found)


class _Polynomial(NamedTuple):
    value: float
    gradient: np.ndarray
    by_square: float
    """The derivative by G."""
    hessian: Callable[[], np.ndarray]


def _polynomial(rows: np.ndarray, u: np.ndarray, spread: float) -> _Polynomial:
    """sum over rows x of G (a^4 + 6 spread a^2 G + 3 spread^2 G^2 - 4 a), a = x.u, G = |u|^2."""
    a, square, count = rows @ u, u @ u, len(rows)
    sums = a.sum(), np.sum(a**2), np.sum(a**4)
    value = (
        square * (sums[2] - 4 * sums[0])
        + 6 * spread * square**2 * sums[1]
        + 3 * (spread * square) ** 2 * square * count
    )
    by_square = sums[2] - 4 * sums[0] + 12 * spread * square * sums[1] + 9 * (spread * square) ** 2 * count
    by_row = 4 * square * (a**3 + 3 * spread * square * a - 1)
    gradient = 2 * by_square * u + rows.T @ by_row

    def hessian() -> np.ndarray:
        mixed = rows.T @ (4 * a**3 + 24 * spread * square * a - 4)
        twice = 2 * np.outer(u, mixed)
        by_square_twice = 12 * spread * sums[1] + 18 * spread**2 * square * count
        weight = 12 * square * (a**2 + spread * square)
        return (
            2 * by_square * np.eye(u.size)
            + twice
            + twice.T
            + 4 * by_square_twice * np.outer(u, u)
            + (rows.T * weight) @ rows
        )

    return _Polynomial(float(value), gradient, float(by_square), hessian)


def _balanced(half: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ratio r, noise b) at which q (a^4 + b^4 + 6 s q (a^2 + b^2) + 6 s^2 q^2 - 4 (a + b)) is stationary.

    Here a = r b, q = a^2 + k b^2, k = `half` and s = `spread`. One equation gives b^3 for any r, the other r.
    """

    def terms(r: np.ndarray, k: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, ...]:
        q = r**2 + k
        quartic = r**4 + 1 + 12 * s * q * (r**2 + 1) + 18 * (s * q) ** 2
        return q, quartic, 4 * k * (r + 1) + 2 * q, k * quartic + 2 * q * (1 + 3 * s * q)

    def imbalance(r: np.ndarray, k: np.ndarray, s: np.ndarray) -> np.ndarray:
        # b^3 (k r^3 - r + 3 s q r (k - 1)) + r - k, times a positive number, without its cancellation at small k
        q, quartic, pull, stiffness = terms(r, k, s)
        return r * (quartic - 4 * (r + 1)) + pull * r**3 - stiffness + 3 * s * q * r * (pull - 4 * (r + 1))

    ratio = increasing_root(imbalance, np.minimum(half, 0.7) / 2, 2 * np.maximum(half, 1.4), half, spread)
    _, _, pull, stiffness = terms(ratio, half, spread)
    return ratio, np.cbrt(pull / stiffness)
