"""Learning curves with an effective penalty for each row, which agree with leave-one-out errors at n = N.

Rows enter a training set with probability f = n/N. With G = (s K + diag kappa)^-1,

    kappa_i = penalty + (1-f) / G_ii,        1/s = 1 + tr(K G)/p        (s = 1 without random features),
    [diag(G_ii^2) - (1-f) G*G] x - (s^2/p) b y = a,      -(1-f) b.x + (1 - s^2 tr(GKGK)/p) y = sum of Y^T G K G Y,

a_i = |(G Y)_i|^2, b_i = (G K G)_ii, G*G entrywise: row i has the expected squared error f x_i when it is not chosen.
f > 1 stands for rows that are not there yet. One Newton step costs one inverse.

For f < 1 the map kappa -> penalty + (1-f)/G_ii is increasing and concave, so Newton's method decreases monotonically to
the one solution from every point above it, and one step leads above it from wherever the Jacobian is an M-matrix. For
f > 1 the equations say that the concave function log det(K + diag kappa) + (f-1) sum log(penalty - kappa_i) is
stationary: there is exactly one solution, and line search finds it. kappa_i may be negative then.

c_i = 1/G_ii - kappa_i does not depend on kappa_i and changes slowly with f, so that kappa_i = (penalty + (1-f) c_i) / f
with c_i continued from solutions at other f is a good start. The last Newton step needs no inverse: what it changes is
known to first order.

With an intercept G is the limit of `linear`, at which the equations stay as they are; of the N directions of rows one
is the intercept's, so that tr K G and tr G K G K count N - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.diagnostics.learning_curve.linear import PoolKernel, solve
from unlazy.numerics.roots import ConvergenceError

_TOLERANCE = 1e-9
# where rounding errors leave nothing better
_LEAST_PRECISION = 1e-5
# a last step delta with delta_i G_ii of this size is taken to first order, if the squared remainder is below the other
_LAST_STEP = 1e-4
_REMAINDER = 1e-8
# the error of a continued start, as long as no step has told a better one
_USUAL_STEP = 1e-2
_MOST_STEPS = 60


class Anchor(NamedTuple):
    """A solution at one f, from which others start."""

    part: float
    kappa: np.ndarray
    cavity: np.ndarray
    """c_i = 1/G_ii - kappa_i."""
    slope: np.ndarray
    """d c_i / d log f."""


class PointwiseError(NamedTuple):
    kappa: np.ndarray
    scale: float
    """s, 1 without random features."""
    errors: np.ndarray
    """One for each row."""
    training_error: float
    deviation: float
    """Standard deviation over pools of the mean of `errors`; NaN for more rows than the pool has."""
    anchor: Anchor | None
    """None with random features."""


class _Solution(NamedTuple):
    kappa: np.ndarray
    inverse: np.ndarray
    step: np.ndarray
    """What is still to be added to kappa."""


def pointwise_error(
    kernel: np.ndarray,
    targets: np.ndarray,
    n: float,
    penalty: float,
    width: float = np.inf,
    start: tuple[float, float] = (1.0, 1.0),
    anchors: Sequence[Anchor] = (),
    *,
    intercept: bool = False,
) -> PointwiseError:
    """Errors of the rows at one n, penalty and width, for a kernel of mean diagonal about 1.

    With features the iteration starts from `start`, one kappa_i for all rows and s; without them from `anchors`, the
    solutions at other n for this penalty, if there are any.
    """
    pool, part, scale = PoolKernel(kernel, intercept), n / len(kernel), 1.0
    if np.isfinite(width):
        kappa, scale, inverse = _with_features(pool, part, penalty, width, start)
        step = np.zeros(pool.rows)
    else:
        kappa, inverse, step = _solution(pool, part, penalty, anchors)
    g, squares = np.diagonal(inverse).copy(), np.square(inverse)
    residuals = inverse @ targets
    a = np.sum(residuals**2, axis=1)
    x = solve(squares, g**2, part - 1, a)
    if np.isfinite(width):
        b, _, twice = _feature_sums(squares, g, kappa, scale, pool.rows - intercept)
        energy = (np.sum(targets * residuals) - kappa @ a) / scale
        response = solve(squares, g**2, part - 1, b)
        y = (energy + (1 - part) * (b @ x)) / (
            1 - scale**2 * twice / width - (1 - part) * scale**2 / width * (b @ response)
        )
        x = x + scale**2 / width * y * response
    triple = _triple(inverse, g, x)
    # the response of s to a row that is left out is neglected
    deviation = _deviation(inverse, squares, residuals, x, triple, part) if part <= 1 else np.nan
    anchor = None if np.isfinite(width) else _anchor(part, kappa + step, squares, g)
    if step.any():
        g_change = -(squares @ step)
        a_change = -2 * np.sum(residuals * (inverse @ (step[:, None] * residuals)), axis=1)
        matrix_change = 2 * (g * g_change * x + (1 - part) * (triple @ step))
        x = x + solve(squares, g**2, part - 1, a_change - matrix_change, 1e-6)
        g, kappa = g + g_change, kappa + step
    if not x.mean() >= 0:
        raise ConvergenceError(f"a negative mean error for {part:g} times the rows at penalty {penalty:g}")
    training = penalty**2 * float(x @ g**2) / n
    return PointwiseError(kappa, scale, part * x, training, deviation, anchor)


def first_anchor(kernel: np.ndarray, penalty: float, *, intercept: bool = False) -> Anchor:
    """The solution at n = N, where kappa_i is the penalty."""
    kappa, pool = np.full(len(kernel), penalty), PoolKernel(kernel, intercept)
    inverse = pool.inverse(pool.cholesky(kappa)[0])
    return _anchor(1.0, kappa, np.square(inverse), np.diagonal(inverse))


def _anchor(part: float, kappa: np.ndarray, squares: np.ndarray, g: np.ndarray) -> Anchor:
    change = solve(squares, g**2, part - 1, -part * g, 1e-4)
    return Anchor(part, kappa, 1 / g - kappa, (squares @ change) / g**2 - change)


def _continued(part: float, penalty: float, anchors: Sequence[Anchor]) -> np.ndarray:
    """kappa at f = part from c_i at the nearest f: near two anchors by their cubic in 1/f, else log c_i in log f."""
    near, *others = sorted(anchors, key=lambda anchor: abs(np.log(part / anchor.part)))[:2]
    inverse = [1 / anchor.part for anchor in (near, *others)]
    if others and abs(1 / part - inverse[0]) <= abs(inverse[1] - inverse[0]) / 2:
        points = [(1 / a.part, a.cavity, -a.slope * a.part) for a in (near, *others)]
        cavity = _cubic(1 / part, points)
    else:
        away = abs(np.log(part / near.part))
        with np.errstate(divide="ignore", invalid="ignore"):
            points = [(np.log(a.part), np.log(a.cavity), a.slope / a.cavity) for a in (near, *others)]
            growth = np.clip(_cubic(np.log(part), points) - points[0][1], -2 * away, 2 * away)
            cavity = near.cavity * np.exp(growth)
        # c_i may be negative where kappa_i is
        cavity = np.where(np.isfinite(cavity), cavity, near.cavity + near.slope * np.log(part / near.part))
    return (penalty + (1 - part) * cavity) / part


def _cubic(place: float, points: Sequence[tuple[float, np.ndarray, np.ndarray]]) -> np.ndarray:
    """The polynomial through places, values and slopes of one or two points."""
    (first, value, slope), *others = points
    away = place - first
    found = value + slope * away
    for other, other_value, other_slope in others:
        gap = other - first
        bend = (other_value - value - slope * gap) / gap**2
        third = ((other_slope - slope) / gap - 2 * bend) / gap
        found = found + (bend + third * (away - gap)) * away**2
    return found


def _solution(pool: PoolKernel, part: float, penalty: float, anchors: Sequence[Anchor]) -> _Solution:
    if part == 1:
        kappa = np.full(pool.rows, penalty)
        return _Solution(kappa, pool.inverse(pool.cholesky(kappa)[0]), np.zeros(pool.rows))
    start = _continued(part, penalty, anchors) if anchors else None
    if part > 1:
        return _more_rows(pool, part, penalty, start)
    if start is not None:
        try:
            return _fewer_rows(pool, part, penalty, np.maximum(start, penalty))
        except ConvergenceError:
            pass
    taught = (part * pool.rows - pool.intercept) / (pool.rows - pool.intercept)
    return _fewer_rows(pool, part, penalty, (penalty + (1 - part) * np.diagonal(pool.matrix)) / taught)


def _is_last(size: float, before: float) -> bool:
    """Whether quadratic convergence leaves nothing to do after a Newton step of this size that follows `before`."""
    return size <= _LAST_STEP and size * (size / before) ** 2 <= _REMAINDER


def _fewer_rows(pool: PoolKernel, part: float, penalty: float, kappa: np.ndarray) -> _Solution:
    before = _USUAL_STEP
    for _ in range(_MOST_STEPS):
        inverse = pool.inverse(pool.cholesky(kappa)[0])
        g = np.diagonal(inverse)
        residual = kappa - penalty - (1 - part) / g
        step = -solve(np.square(inverse), g**2, part - 1, g**2 * residual, 1e-6)
        size = float(np.max(np.abs(step) * g))
        if _is_last(size, before) or before <= size <= _LEAST_PRECISION:
            return _Solution(kappa, inverse, step)
        before, kappa = size, kappa + step
    raise ConvergenceError(f"no effective penalties for {part:g} of the rows at penalty {penalty:g}")


def _more_rows(pool: PoolKernel, part: float, penalty: float, start: np.ndarray | None) -> _Solution:
    kappa, factor, value = _feasible(pool, part, penalty, start)
    before = _USUAL_STEP
    for _ in range(_MOST_STEPS):
        inverse = pool.inverse(factor)
        g, gap = np.diagonal(inverse), penalty - kappa
        residual = (part - 1) / g - gap
        squares, gradient = np.square(inverse), g - (part - 1) / gap
        # the equations are nearly linear, so their Newton step is the better one; that of the function always ascends
        step = solve(squares, g**2, part - 1, -(g**2) * residual, 1e-6)
        size = float(np.max(np.abs(step) * g))
        if _is_last(size, before):
            return _Solution(kappa, inverse, step)
        accepted = _ascend(pool, part, penalty, kappa, step, gradient, value, 2)
        if accepted is None:
            step = solve(squares, (part - 1) / gap**2, 1.0, gradient, 1e-6)
            accepted = _ascend(pool, part, penalty, kappa, step, gradient, value, 40)
        if accepted is None:
            break
        before, (kappa, factor, value) = size, accepted
    raise ConvergenceError(f"no effective penalties for {part:g} times the rows at penalty {penalty:g}")


def _feasible(
    pool: PoolKernel, part: float, penalty: float, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """The start, or what lies between it and one effective penalty for all rows, where the concave function exists."""
    usual = np.full(pool.rows, penalty / part)
    between = [] if start is None else [share * start + (1 - share) * usual for share in (1.0, 0.9, 0.7)]
    for kappa in between:
        try:
            return kappa, *_concave(pool, part, penalty, kappa)
        except ConvergenceError:
            continue
    return usual, *_concave(pool, part, penalty, usual)


def _ascend(
    pool: PoolKernel,
    part: float,
    penalty: float,
    kappa: np.ndarray,
    step: np.ndarray,
    gradient: np.ndarray,
    value: float,
    trials: int,
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The next kappa along a step, halved until the concave function grows."""
    gain = 1e-4 * float(gradient @ step)
    for halvings in range(trials if gain > 0 else 0):
        following = kappa + 0.5**halvings * step
        try:
            found, next_value = _concave(pool, part, penalty, following)
        except ConvergenceError:
            continue
        if next_value >= value + 0.5**halvings * gain - 1e-12 * abs(value):
            return following, found, next_value
    return None


def _concave(pool: PoolKernel, part: float, penalty: float, kappa: np.ndarray) -> tuple[np.ndarray, float]:
    """The Cholesky factor of K + diag kappa and the function that is stationary for f > 1."""
    if not (kappa < penalty).all():
        raise ConvergenceError("an effective penalty above the penalty")
    factor, log_determinant = pool.cholesky(kappa)
    return factor, log_determinant + (part - 1) * float(np.sum(np.log(penalty - kappa)))


def _with_features(
    pool: PoolKernel, part: float, penalty: float, width: float, start: tuple[float, float]
) -> tuple[np.ndarray, float, np.ndarray]:
    kappa, scale = np.full(pool.rows, start[0]), start[1]
    for _ in range(_MOST_STEPS):
        inverse = pool.inverse(pool.cholesky(kappa, scale)[0])
        g, squares = np.diagonal(inverse), np.square(inverse)
        b, trace, twice = _feature_sums(squares, g, kappa, scale, pool.rows - pool.intercept)
        residual = kappa - penalty - (1 - part) / g
        scale_residual = 1 / scale - 1 - trace / width
        if (np.abs(residual) <= _TOLERANCE * np.abs(kappa)).all() and abs(scale_residual) <= _TOLERANCE / scale:
            return kappa, scale, inverse
        plain = solve(squares, g**2, part - 1, g**2 * residual)
        response = solve(squares, g**2, part - 1, b)
        below = twice / width - 1 / scale**2 + (1 - part) * (b @ response) / width
        scale_step = (b @ plain / width - scale_residual) / below
        step = (1 - part) * scale_step * response - plain
        length = 1.0
        while scale + length * scale_step <= 0 or (part <= 1 and (kappa + length * step <= 0).any()):
            length /= 2
        kappa, scale = kappa + length * step, scale + length * scale_step
    raise ConvergenceError(
        f"no effective penalties for {part:g} of the rows and width {width:g} at penalty {penalty:g}"
    )


def _feature_sums(
    squares: np.ndarray, g: np.ndarray, kappa: np.ndarray, scale: float, size: int
) -> tuple[np.ndarray, float, float]:
    """(G K G)_ii, tr K G and tr G K G K, from G (s K + diag kappa) G = G and its trace `size` before the last G."""
    product = squares @ kappa
    return (
        (g - product) / scale,
        float(size - kappa @ g) / scale,
        float(size - 2 * kappa @ g + kappa @ product) / scale**2,
    )


class _Triple(NamedTuple):
    """T = G * (G diag(x) G) entrywise, so that T p = diag(G diag(p) G diag(x) G).

    In single precision: it is for a standard deviation and for the change by a small last step.
    """

    matrix: np.ndarray
    unit: float

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        size = max(float(np.abs(vector).max()), 1e-300)
        return (self.matrix @ (vector / size).astype(np.float32)).astype(np.float64) * (self.unit * size)


def _triple(inverse: np.ndarray, g: np.ndarray, x: np.ndarray) -> _Triple:
    unit, size = float(g.max()), max(float(np.abs(x).max()), 1e-300)
    single = (inverse / unit).astype(np.float32)
    product = (single * (x / size).astype(np.float32)) @ single
    product *= single
    return _Triple(product, unit**3 * size)


def _deviation(
    inverse: np.ndarray, squares: np.ndarray, residuals: np.ndarray, x: np.ndarray, triple: _Triple, part: float
) -> float:
    """The jackknife standard deviation of mean(f x): what leaving out row j changes, all rows at once.

    Without row j, G becomes G - G e_j e_j^T G / G_jj exactly. What this does to the equations of kappa and x is
    carried to the mean by their adjoint solutions, to first order.
    """
    size, g = len(x), np.diagonal(inverse)
    adjoint = solve(squares, g**2, part - 1, np.full(size, part / size), 1e-8)
    weighted = np.sum(residuals * (inverse @ (adjoint[:, None] * residuals)), axis=1)
    by_kappa = 2 * (squares @ (adjoint * g * x) - weighted - (1 - part) * (triple @ adjoint))
    shift = solve(squares, g**2, part - 1, by_kappa, 1e-8)
    direct = by_kappa / g + x * (squares @ adjoint) - (np.square(squares) @ (adjoint * x)) / g**2
    ratio = squares / g
    ratio /= g[:, None]
    np.fill_diagonal(ratio, 0.0)
    # of two rows with an intercept one is left, and nothing to leave out of it: the deviation is not a number
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio /= 1 - ratio
        through_kappa = (1 - part) * (ratio @ shift)
        changes = direct + through_kappa - part / size * x
        return float(np.sqrt((size - 1) / size * np.sum((changes - changes.mean()) ** 2)))
