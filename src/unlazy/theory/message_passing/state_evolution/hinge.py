"""The hinge loss with a bias on clusters of unequal size, which may ignore the smaller class: w = 0 and |b| = 1.

Near w = 0 and b = s, the sign of the larger class, the sum of the losses is its value at that point plus

    F(w, b - s) = sum over the larger class of max(0, -s (x.w + b - s)) + sum over the smaller of s (x.w + b - s),

which is homogeneous. If F >= 0 everywhere, w = 0 is optimal at every penalty; if not, F + (penalty/2) |w|^2 has a
minimum w != 0 of size 1/penalty. The state evolution of this problem at a given size of w has a penalty as its
solution, and the sign of that penalty decides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unlazy.numerics.fixed_points import along_the_ridge, continued, fixed_points
from unlazy.numerics.roots import ConvergenceError, expanded, increasing_root
from unlazy.theory.message_passing.state_evolution.clusters import GaussianClusters
from unlazy.theory.message_passing.state_evolution.mixture_equations import (
    Response,
    bias_of,
    fields_of,
    hats_of,
    response_of,
    state_of,
    unknowns_of,
)

_SUSPICIOUS = 1e-5
_FAR = 1e6
_FACTOR = 16.0
_SMALL = 1e-4
Solve = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def ignored_cases(
    clusters: GaussianClusters, n: np.ndarray, penalty: np.ndarray, start: np.ndarray, solve: Solve
) -> tuple[np.ndarray, np.ndarray]:
    """Which cases have w = 0, and the solutions of the others."""
    balanced = clusters.labels @ clusters.probabilities == 0
    limits = _Limits(clusters)
    ignored, found = np.zeros(n.size, bool), start.copy()
    try:
        found = solve(n, penalty, start)
    except ConvergenceError:
        for i in range(n.size):
            ignored[i], found[i] = _one_case(limits, n[[i]], penalty[[i]], start[[i]], solve, balanced)
    if balanced:
        return ignored, found
    # of fits that average all samples
    usual = np.sqrt(n * (clusters.traces.max() ** 2 / clusters.means.shape[1])) / penalty
    small = np.sqrt(state_of(found)[2].max(axis=1)) < _SUSPICIOUS * np.minimum(usual, 1.0)
    for row in np.flatnonzero(small & ~ignored):
        ignored[row] = limits.at(n[[row]])[0] <= 0
    return ignored, found


def _one_case(
    limits: _Limits, n: np.ndarray, penalty: np.ndarray, start: np.ndarray, solve: Solve, balanced: bool
) -> tuple[bool, np.ndarray]:
    if balanced:
        return False, along_the_ridge(solve, n, penalty, start, limits.clusters.large_penalty(n))[0]
    try:
        return False, solve(n, penalty, start)[0]
    except ConvergenceError as error:
        limit, first = limits.at(n)
        if limit <= 0:
            return True, start[0]
        # from a penalty at which the weights are small, where the limit is a solution
        large = limit / _SMALL
        shrunk, count = first.copy(), len(limits.clusters.labels)
        shrunk[:, :count] += np.log(_SMALL)
        shrunk[:, 2 * count :] += 2 * np.log(_SMALL)
        try:
            begin = solve(n, np.array([large]), shrunk)
            return False, continued(lambda r, x: solve(n, np.array([r]), x), large, begin, float(penalty[0]))[0]
        except ConvergenceError:
            raise error from None


class _Limits:
    """The problem of small weights, which depends on n only, solved once for each."""

    def __init__(self, clusters: GaussianClusters) -> None:
        self.clusters = clusters
        self._found: dict[float, tuple[float, np.ndarray]] = {}

    def at(self, n: np.ndarray) -> tuple[float, np.ndarray]:
        key = float(n[0])
        if key not in self._found:
            self._found[key] = _small_weights(self.clusters, n)
        return self._found[key]


def _small_weights(clusters: GaussianClusters, n: np.ndarray) -> tuple[float, np.ndarray]:
    """The penalty at which small weights have Q = 1 in the first cluster of the larger class, and the solution
    there."""
    count = len(clusters.labels)
    sign = np.sign(clusters.labels @ clusters.probabilities)
    larger = clusters.labels == sign
    reference = int(np.argmax(larger * clusters.probabilities))
    respond = response_of(clusters)
    penalty, offset = np.zeros(1), np.full(1, sign)

    def step(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        new = np.empty_like(x)
        for i in range(len(x)):
            new[i] = one_step(x[[i]])
        return new

    def one_step(x: np.ndarray) -> np.ndarray:
        variance, mean, norm = state_of(x)
        # the smaller class is at the margin -1, where the slope is 1 whatever the weights are
        seen = np.where(larger, mean, sign * _FAR)
        offset[:] = bias_of("hinge", clusters, n, variance, seen, norm, offset)
        hats = hats_of(fields_of("hinge", clusters, variance, seen, norm, offset), clusters, n)

        def response(penalty: np.ndarray) -> Response:
            return respond(clusters, penalty, *hats, mean, True)

        penalty[:] = _penalty_of_norm(response, _least_precision(clusters, hats[0][0]), reference)
        found = response(penalty)
        return unknowns_of(found.variance, found.mean, found.norm)

    x = fixed_points(step, np.zeros((1, 3 * count)), lambda row: f"n = {n[0]:g} and small weights", depth=6)
    one_step(x)
    return float(penalty[0]), x


def _least_precision(clusters: GaussianClusters, precision: np.ndarray) -> float:
    if clusters.covariances.ndim == 2:
        return float((precision @ clusters.covariances).min())
    return float(max(np.linalg.eigvalsh(np.tensordot(precision, clusters.covariances, 1))[0], 0.0))


def _penalty_of_norm(response: Callable[[np.ndarray], Response], least: float, reference: int) -> float:
    """The penalty > -least at which Q = 1; Q falls as the penalty rises."""

    def excess(shifted: np.ndarray) -> np.ndarray:
        return np.array([-np.log(response(np.array([value - least])).norm[0, reference]) for value in shifted])

    start = np.array([max(least, 1e-3)])
    low = expanded(lambda x: excess(x) <= 0, start, 1 / _FACTOR)
    high = expanded(lambda x: excess(x) >= 0, start, _FACTOR)
    return float(increasing_root(excess, low, high)[0]) - least
