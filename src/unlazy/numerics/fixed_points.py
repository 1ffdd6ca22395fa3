"""Fixed points of small systems, whose unknowns are logarithms or others of order one.

    fixed_points            many at once without derivatives: the plain iteration with Anderson's acceleration
    newton                  many at once with derivatives: steps of bounded length
    newton_by_differences   one, with differences for derivatives: steps of bounded length that gain
    continued               one that is far from every start: along a path of solutions

What does not converge raises `ConvergenceError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from unlazy.numerics.roots import ConvergenceError

_TOLERANCE = 1e-12
_TOLERATED = 1e-10
_PLAIN_STEPS = 2
_LONGEST = 2.0
_CUTOFF = 1e-9
_PATIENCE = 25
_LEAST_SHARE = 1 / 64
_NEWTON_STEPS = 60
_HALVES = 0.5 ** np.arange(16)
_DIFFERENCE = 1e-7
_TINY = 1e-300


def fixed_points(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    start: np.ndarray,
    describe: Callable[[int], str],
    *,
    admissible: Callable[[np.ndarray], np.ndarray] = lambda x: np.ones(len(x), bool),
    depth: int = 4,
    tolerance: float = _TOLERANCE,
    max_iterations: int = 200,
) -> np.ndarray:
    """x = step(x) for every row of `start`, to `tolerance` in each component (1e-10 where rounding ends the progress).

    `step(x, rows)` gets the rows that have not converged and their indices. The next iterate is step(x) corrected by
    the last `depth` differences (Anderson 1965), or step(x) alone where the correction is long, inadmissible or made
    the last residual larger. After 25 iterations without progress, such as in a two-cycle, a row goes half as far;
    after `max_iterations` Newton's method with backtracking takes over from the best iterate. A row that does not
    converge raises `ConvergenceError` with `describe(row)` and its residual.
    """
    x, count = start.copy(), start.shape[1]
    active = np.arange(len(x))
    points = np.zeros((len(x), count, depth))
    residuals = np.zeros((len(x), count, depth))
    last_x, last_f, best_x = x.copy(), np.zeros_like(x), x.copy()
    last_size, best, since_best = np.full(len(x), np.inf), np.full(len(x), np.inf), np.zeros(len(x), int)
    share = np.ones(len(x))
    for iteration in range(max_iterations):
        now = x[active]
        f = step(now, active) - now
        size = np.abs(f).max(axis=1)
        if not np.isfinite(size).all():
            bad = active[~np.isfinite(size)][0]
            raise ConvergenceError(f"the iteration left the finite numbers at {describe(bad)}")
        since_best[active] = np.where(size < best[active], 0, since_best[active] + 1)
        best_x[active] = np.where((size < best[active])[:, None], now, best_x[active])
        best[active] = np.minimum(best[active], size)
        done = size <= tolerance
        slot = iteration % depth
        if iteration > _PLAIN_STEPS:
            points[active, :, slot] = now - last_x[active]
            residuals[active, :, slot] = f - last_f[active]
        stuck = since_best[active] >= _PATIENCE
        share[active[stuck]] = np.maximum(share[active[stuck]] / 2, _LEAST_SHARE)
        since_best[active[stuck]] = 0
        restarted = active[stuck | (size > 2 * last_size[active])]
        points[restarted], residuals[restarted] = 0.0, 0.0
        last_x[active], last_f[active], last_size[active] = now, f, size
        weights = np.linalg.pinv(residuals[active], rcond=_CUTOFF) @ f[:, :, None]
        part = share[active][:, None]
        correction = ((points[active] + part[:, :, None] * residuals[active]) @ weights)[:, :, 0]
        corrected = now + part * f - correction
        usable = (np.abs(correction).max(axis=1) <= _LONGEST) & admissible(corrected)
        x[active] = np.where(usable[:, None], corrected, now + part * f)
        x[active[done]] = now[done] + f[done]
        active = active[~done]
        if not active.size:
            return x
    for row in active.tolist():
        x[row] = _one_fixed_point(step, row, best_x[row], describe(row), admissible)
    return x


def newton(
    equations: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    start: np.ndarray,
    *,
    longest: float = 2.0,
    tolerance: float = 1e-12,
    tolerated: float = 1e-7,
    max_iterations: int = 60,
) -> np.ndarray:
    """The root near `start` (..., k) of equations(x), which gives residuals (..., k) and their Jacobians (..., k, k).

    Steps are no longer than `longest` in any component. The one that is at most `tolerance` is the last; one that is at
    most `tolerated` is where the next is not shorter, for there rounding ends the progress. `ConvergenceError` if there
    is none.
    """
    x = nearest = start
    shortest, open_ = np.full(start.shape[:-1], np.inf), np.ones(start.shape[:-1], bool)
    for _ in range(max_iterations):
        try:
            with np.errstate(all="ignore"):
                residual, jacobian = equations(x)
            step = np.linalg.solve(jacobian, residual[..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
        length = np.abs(step).max(axis=-1)
        if not (length < np.inf).all():
            break
        if (length > longest).any():
            step = step * np.minimum(1.0, longest / np.maximum(length, _TINY))[..., None]
        x = x - step
        shorter = length < shortest
        better = open_ & shorter
        nearest = x if better.all() else np.where(better[..., None], x, nearest)
        open_ = open_ & (length > tolerance) & (shorter | (shortest > tolerated))
        shortest = np.minimum(shortest, length)
        if not open_.any():
            return nearest
    if shortest.max() <= tolerated:
        return nearest
    raise ConvergenceError(f"Newton's method did not arrive: its shortest step is {shortest.max():.3g}")


def newton_by_differences(
    excess: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    parts: Iterable[float] = _HALVES,
    cutoff: float | None = _CUTOFF,
    settled: float = 0.0,
    max_iterations: int = _NEWTON_STEPS,
) -> tuple[np.ndarray, np.ndarray, float]:
    """A root of excess(x), both (k,), from `start`, the excess there, and the length of the last step before any cut.

    Steps are at most 2 long in any component and the first of their `parts` with a smaller largest excess is made. It
    ends where none is smaller, or a step is at most `settled`: the caller decides whether that is a root. An excess
    that is not finite forbids its x. Singular values of the Jacobian below `cutoff` of the largest do not count.
    """
    x, f, length = start, excess(start), np.inf
    size = _largest(f)
    for _ in range(max_iterations):
        jacobian = np.stack([_difference(excess, x, f, move) for move in _DIFFERENCE * np.eye(x.size)], axis=1)
        if not np.isfinite(size) or not np.isfinite(jacobian).all():
            break
        direction = np.linalg.lstsq(jacobian, -f, rcond=cutoff)[0]
        length = _largest(direction)
        if length <= settled:
            break
        direction *= min(1.0, _LONGEST / max(length, _TINY))
        for part in parts:
            ahead = x + part * direction
            f_ahead = excess(ahead)
            if _largest(f_ahead) < size:
                break
        else:
            break
        x, f, size = ahead, f_ahead, _largest(f_ahead)
    return x, f, length


def along_the_ridge(
    solve: Callable[..., np.ndarray],
    n: np.ndarray,
    ridge: np.ndarray,
    start: np.ndarray,
    first: float | np.ndarray,
    *others: np.ndarray,
) -> np.ndarray:
    """solve(n, ridge, start, *others), and where that fails the end of a path of solutions from the `first` ridge.

    `first` is one number or one for each row.
    """
    try:
        return solve(n, ridge, start, *others)
    except ConvergenceError as error:
        failure = error
    first = np.broadcast_to(first, n.shape)
    if n.size > 1:
        rows = [[array[[i]] for array in (n, ridge, start, first, *others)] for i in range(n.size)]
        return np.concatenate([along_the_ridge(solve, *row) for row in rows])
    if not 0 < ridge[0] < first[0]:
        raise failure
    try:
        begin = solve(n, first, start, *others)
        return continued(lambda r, x: solve(n, np.array([r]), x, *others), float(first[0]), begin, float(ridge[0]))
    except ConvergenceError:
        raise failure from None


def continued(
    solve: Callable[[float, np.ndarray], np.ndarray],
    first: float,
    begin: np.ndarray,
    last: float,
    *,
    factor: float = 10.0,
    least_factor: float = 1.1,
) -> np.ndarray:
    """solve(parameter, start) at the parameter `last`, at the end of a path of solutions from `begin` at `first`.

    Each point is extrapolated from the two before it in the logarithm of the parameter, and the step, a `factor` at
    first, is shortened where a point fails, down to the least factor.
    """
    place, end = float(np.log(first)), float(np.log(last))
    points = [(place, begin)]
    while place != end:
        target = max(place - np.log(factor), end) if place > end else min(place + np.log(factor), end)
        guess = points[-1][1]
        if len(points) > 1:
            (before, x), (latest, y) = points[-2:]
            guess = y + (target - latest) / (latest - before) * (y - x)
        try:
            points.append((target, solve(float(np.exp(target)) if target != end else last, guess)))
            place = target
        except ConvergenceError:
            factor = factor**0.5
            if factor < least_factor:
                raise
    return points[-1][1]


def _one_fixed_point(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    row: int,
    start: np.ndarray,
    case: str,
    admissible: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    def excess(x: np.ndarray) -> np.ndarray:
        return step(x[None], np.array([row]))[0] - x if admissible(x[None])[0] else np.full(x.shape, np.inf)

    x, f, _ = newton_by_differences(excess, start)
    size = _largest(f)
    if size <= _TOLERATED:
        return x + f
    raise ConvergenceError(f"no fixed point at {case}: residual {size:.3g}, allowed {_TOLERATED:g}")


def _difference(
    excess: Callable[[np.ndarray], np.ndarray], x: np.ndarray, f: np.ndarray, move: np.ndarray
) -> np.ndarray:
    """The derivative along a short move, from the other side where what is ahead is forbidden."""
    ahead = excess(x + move)
    return (ahead - f if np.isfinite(ahead).all() else f - excess(x - move)) / _DIFFERENCE


def _largest(x: np.ndarray) -> float:
    """The largest size of a component; infinite if some is not a number."""
    size = float(np.abs(x).max())
    return size if np.isfinite(size) else np.inf
