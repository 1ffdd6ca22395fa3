"""Fixed points of small systems, many at once: the plain iteration with Anderson's acceleration."""

from __future__ import annotations

from collections.abc import Callable

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
_HALVINGS = 16
_DIFFERENCE = 1e-7
_FIRST_FACTOR = 10.0
_LEAST_FACTOR = 1.1


def fixed_points(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    start: np.ndarray,
    describe: Callable[[int], str],
    *,
    admissible: Callable[[np.ndarray], np.ndarray] = lambda x: np.ones(len(x), bool),
    depth: int = 4,
    max_iterations: int = 200,
) -> np.ndarray:
    """x = step(x) for every row of `start`, to 1e-12 in each component (1e-10 where rounding ends the progress).

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
        done = size <= _TOLERANCE
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
        x[row] = _newton(step, row, best_x[row], describe(row), admissible)
    return x


def along_the_ridge(
    solve: Callable[..., np.ndarray],
    n: np.ndarray,
    ridge: np.ndarray,
    start: np.ndarray,
    first: float,
    *others: np.ndarray,
) -> np.ndarray:
    """solve(n, ridge, start, *others), and where that fails the end of a path of solutions from the `first` ridge."""
    try:
        return solve(n, ridge, start, *others)
    except ConvergenceError as error:
        failure = error
    if n.size > 1:
        rows = [[array[[i]] for array in (n, ridge, start, *others)] for i in range(n.size)]
        return np.concatenate([along_the_ridge(solve, r[0], r[1], r[2], first, *r[3:]) for r in rows])
    if not 0 < ridge[0] < first:
        raise failure
    try:
        begin = solve(n, np.array([first]), start, *others)
        return ridge_path(lambda r, x: solve(n, r, x, *others), first, begin, ridge)
    except ConvergenceError:
        raise failure from None


def ridge_path(
    solve: Callable[[np.ndarray, np.ndarray], np.ndarray], first: float, begin: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    """solve(ridge, start) at the end of a path of solutions from `begin` at the ridge `first`.

    Each point is extrapolated from the two before it in log ridge, and the step, a factor of 10 at first, is shortened
    where a point fails, down to a factor of 1.1.
    """
    place, end, factor = float(np.log(first)), float(np.log(ridge[0])), _FIRST_FACTOR
    points = [(place, begin)]
    while True:
        target = max(place - np.log(factor), end) if place > end else min(place + np.log(factor), end)
        guess = points[-1][1]
        if len(points) > 1:
            (before, x), (last, y) = points[-2:]
            guess = y + (target - last) / (last - before) * (y - x)
        try:
            points.append((target, solve(np.exp([target]) if target != end else ridge, guess)))
            place = target
        except ConvergenceError:
            factor = factor**0.5
            if factor < _LEAST_FACTOR:
                raise
        if place == end:
            return points[-1][1]


def _newton(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    row: int,
    start: np.ndarray,
    case: str,
    admissible: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The root of step(x) - x from `start`, with differences for derivatives and the step halved until it gains."""
    x, count = start, start.size

    def excess(y: np.ndarray) -> np.ndarray:
        return step(y, np.full(len(y), row)) - y

    f = excess(x[None])[0]
    size = np.abs(f).max()
    for _ in range(_NEWTON_STEPS):
        nearby = x + _DIFFERENCE * np.eye(count)
        jacobian = (excess(nearby) - f).T / _DIFFERENCE
        direction = -np.linalg.pinv(jacobian, rcond=_CUTOFF) @ f
        trials = x + 0.5 ** np.arange(_HALVINGS)[:, None] * direction
        trials = trials[admissible(trials) & (np.abs(trials - x).max(axis=1) <= _LONGEST)]
        residuals = excess(trials) if len(trials) else np.full((1, count), np.inf)
        sizes = np.abs(residuals).max(axis=1)
        best = int(np.argmin(np.where(np.isfinite(sizes), sizes, np.inf)))
        if not sizes[best] < size:
            break
        x, f, size = trials[best], residuals[best], sizes[best]
    if size <= _TOLERATED:
        return x + f
    raise ConvergenceError(f"no fixed point at {case}: residual {size:.3g}, allowed {_TOLERATED:g}")
