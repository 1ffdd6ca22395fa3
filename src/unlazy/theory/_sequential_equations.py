"""The replica-symmetric equations of `sequential_inference` in units where both covariances have mean eigenvalue 1."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import ConvergenceError
from unlazy.theory._tilted_averages import Averages, averages

_TOLERANCE = 1e-9
_ROUNDS = 40
_DAMPED_STEPS = 6
_NEWTON_STEPS = 10
_DAMPING = 0.7
_SLOWER = 0.9
_DIFFERENCE = 1e-7
_LONGEST = 2.0
_PARTS = (1.0, 0.5, 0.2)
_LEAST_VARIANCE = 1e-12
_LEAST_PRECISION = -0.999
_LARGEST_CORRELATION = 1 - 1e-12
_LARGEST_LOGARITHM = 20.0


class Moments(NamedTuple):
    """Spectral means at one precision Lambda."""

    response: float
    """chi = mean k/(1 + Lambda k)."""
    variance: float
    """mean a^2."""
    teacher: float
    """mean a k*."""
    teacher_square: float
    """mean a^2 k*."""


class Equations(NamedTuple):
    """x = T(x) for x = (v, tau, mk)."""

    student: np.ndarray
    teacher: np.ndarray
    weights: np.ndarray
    beta: float
    flip: float

    def moments(self, precision: float) -> Moments:
        posterior = self.student / (1 + precision * self.student)
        response = float(self.weights @ posterior)
        multiplier = posterior / response - 1
        weighted = self.weights * multiplier
        means = (weighted @ multiplier, weighted @ self.teacher, weighted @ (multiplier * self.teacher))
        return Moments(response, *map(float, means))

    def averages(self, point: np.ndarray) -> Averages:
        cavity, tau, overlap = point
        return averages(cavity, max(tau, _LEAST_VARIANCE), overlap, 1.0, self.beta, self.flip)

    def precision(self, point: np.ndarray, mean: Averages) -> float:
        """Lambda from chi = v E eta' and 1/v = 1/chi - Lambda; at least what keeps 1 + Lambda k positive."""
        return max((1 / mean.slope - 1) / point[0], _LEAST_PRECISION / self.student.max())

    def image(self, point: np.ndarray) -> np.ndarray:
        """T(x): all spectral means are at the precision that x implies."""
        _, tau, overlap = point
        mean = self.averages(point)
        precision, gain = self.precision(point, mean), 1 / mean.slope
        moments = self.moments(precision)
        teacher = gain * mean.teacher - overlap
        square = gain**2 * mean.square - 2 * gain * mean.field + tau
        return np.array(
            [
                1 / (1 / moments.response - precision),
                teacher**2 * moments.teacher_square + moments.variance * (square - teacher**2),
                teacher * moments.teacher,
            ]
        )


def solve(equations: Equations, start: np.ndarray) -> np.ndarray:
    """The fixed point near `start`: rounds of damped iteration and of Newton's method in `_free` coordinates.

    Far from the solution the iteration is slow, and variances change by orders of magnitude; in their logarithms
    Newton's method jumps.
    """
    free, damping, size = _free(start), _DAMPING, math.inf
    for _ in range(_ROUNDS):
        for _ in range(_DAMPED_STEPS):
            gap = _gap(equations, free)
            free = free + damping * gap if np.isfinite(gap).all() else _free(start)
        free, size = _newton(equations, free)
        if size <= _TOLERANCE:
            point = _point(free)
            if point[0] > 2 * _LEAST_VARIANCE and free[:2].max() < _LARGEST_LOGARITHM:
                return point
            raise ConvergenceError(
                f"there is no replica-symmetric solution at beta = {equations.beta:g}, flip = {equations.flip:g}: the "
                "variances run to 0 or infinity, as where no student explains all labels"
            )
        damping *= _SLOWER
    raise ConvergenceError(
        f"the replica-symmetric equations at beta = {equations.beta:g}, flip = {equations.flip:g} miss by {size:.1e} "
        f"after {_ROUNDS} rounds; tolerated is {_TOLERANCE:g}"
    )


def _newton(equations: Equations, free: np.ndarray) -> tuple[np.ndarray, float]:
    """Newton steps of bounded length, shortened until the miss falls; where they end, and the miss there."""
    gap = _gap(equations, free)
    size = _size(gap)
    for _ in range(_NEWTON_STEPS):
        # a step beyond the tolerance costs little and gives all digits that rounding leaves
        if not _TOLERANCE * 1e-4 < size < math.inf:
            break
        jacobian = np.stack(
            [(_gap(equations, free + move) - gap) / _DIFFERENCE for move in _DIFFERENCE * np.eye(3)], axis=1
        )
        if not np.isfinite(jacobian).all():
            break
        direction = np.linalg.lstsq(jacobian, -gap, rcond=None)[0]
        direction *= min(1.0, _LONGEST / np.abs(direction).max())
        for part in _PARTS:
            ahead = free + part * direction
            gap_ahead = _gap(equations, ahead)
            if _size(gap_ahead) < size:
                break
        else:
            break
        free, gap, size = ahead, gap_ahead, _size(gap_ahead)
    return free, size


def _gap(equations: Equations, free: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.minimum(_free(equations.image(_point(free))), _LARGEST_LOGARITHM) - free


def _size(gap: np.ndarray) -> float:
    size = float(np.abs(gap).max())
    return size if math.isfinite(size) else math.inf


def _free(point: np.ndarray) -> np.ndarray:
    """(log v, log tau, artanh(mk/sqrt(tau))): unbounded coordinates, in which every point is allowed."""
    cavity, tau, overlap = point
    tau = max(tau, _LEAST_VARIANCE)
    correlation = np.clip(overlap / math.sqrt(tau), -_LARGEST_CORRELATION, _LARGEST_CORRELATION)
    return np.array([math.log(max(cavity, _LEAST_VARIANCE)), math.log(tau), math.atanh(correlation)])


def _point(free: np.ndarray) -> np.ndarray:
    tau = math.exp(min(free[1], _LARGEST_LOGARITHM))
    return np.array([math.exp(min(free[0], _LARGEST_LOGARITHM)), tau, math.sqrt(tau) * math.tanh(free[2])])
