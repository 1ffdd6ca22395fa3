"""The replica-symmetric equations of `inference` in units where both covariances have mean eigenvalue 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from unlazy.numerics.fixed_points import continued, newton_by_differences
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.message_passing.sequential.tilted_averages import TiltedAverages, averages

_TOLERANCE = 1e-9
_LARGEST_ERROR = 1e-7
_WARMEST = 0.25
_COOLING = 1.5
_COLDEST = 7e4
_ROUNDS = 40
_DAMPED_STEPS = 6
_NEWTON_STEPS = 10
_DAMPING = 0.7
_SLOWER = 0.9
_PARTS = (1.0, 0.5, 0.2)
_LEAST_CAVITY = 1e-18
_LEAST_FIELD = 1e-30
_LEAST_PRECISION = -0.999
_LEAST_REST = 1e-16
_LARGEST_LOGARITHM = 20.0


class SpectralMeans(NamedTuple):
    """Spectral means at one precision Lambda."""

    response: float
    """chi = mean k/(1 + Lambda k)."""
    cavity: float
    """v = 1/(1/chi - Lambda)."""
    variance: float
    """mean a^2."""
    teacher: float
    """mean a k*."""
    teacher_variance: float
    """mean a^2 k* - (mean a k*)^2."""
    teacher_left: float
    """mean k*/(1 + Lambda k)."""


class CavityPoint(NamedTuple):
    """The unknowns v and tau, mk, of which v* = 1 - mk^2/tau is kept apart: it is tiny where a student learns well."""

    cavity: float
    tau: float
    overlap: float
    rest: float


class Equations(NamedTuple):
    """x = T(x) for the unknowns x, in the order of the arguments of `averages`."""

    student: np.ndarray
    teacher: np.ndarray
    weights: np.ndarray
    beta: float
    flip: float

    def moments(self, precision: float) -> SpectralMeans:
        shrink = 1 / (1 + precision * self.student)
        posterior = self.student * shrink
        response = float(self.weights @ posterior)
        multiplier = posterior / response - 1
        tilted = self.weights * self.teacher
        teacher = float(tilted @ multiplier)
        return SpectralMeans(
            response,
            response / float(self.weights @ shrink),
            float(self.weights @ multiplier**2),
            teacher,
            float(tilted @ (multiplier - teacher) ** 2),
            float(tilted @ shrink),
        )

    def averages(self, point: CavityPoint) -> TiltedAverages:
        return averages(*point, self.beta, self.flip)

    def precision(self, point: CavityPoint, mean: TiltedAverages) -> float:
        """Lambda from chi = v E eta' and 1/v = 1/chi - Lambda; at least what keeps 1 + Lambda k positive."""
        return max(mean.gap_slope / mean.slope / point.cavity, _LEAST_PRECISION / self.student.max())

    def image(self, point: CavityPoint) -> CavityPoint:
        """T(x): all spectral means are at the precision that x implies."""
        mean = self.averages(point)
        moments = self.moments(self.precision(point, mean))
        overlap = mean.message_teacher * moments.teacher
        noise = mean.message_teacher**2 * moments.teacher_variance + moments.variance * mean.message_noise
        return with_noise(moments.cavity, noise, overlap)

    def sharp_image(self, point: CavityPoint) -> CavityPoint:
        """Another map with the fixed points of T: mk and tau - mk^2 on the right of its equations moved to the left.

        With g = eta - kappa, C = E g theta*, E f theta* = (v/chi) C + Lambda v mk, and

            1 - Lambda v mean(a k*) = (v/chi) mean k*/(1 + Lambda k),
            E (f - c theta*)^2 = (v/chi)^2 (E g^2 - C^2) - (Lambda v)^2 (tau - mk^2),

        T's equations are mk = mean(a k*) C / mean(k*/(1 + Lambda k)) and that of the noise below. T multiplies mk by
        1 - O(v) on the way, so that a student that learns well fixes it by differences of the order v only.
        """
        mean = self.averages(point)
        moments = self.moments(self.precision(point, mean))
        message = mean.gap_teacher / moments.teacher_left
        noise = message**2 * moments.teacher_variance
        noise += moments.variance * (mean.gap_square - mean.gap_teacher**2) / mean.slope**2
        noise /= 1 + moments.variance * (mean.gap_slope / mean.slope) ** 2
        return with_noise(moments.cavity, noise, message * moments.teacher)


UNINFORMED = CavityPoint(0.9, 1e-3, 1e-3, 1.0 - 1e-3)


def with_noise(cavity: float, noise: float, overlap: float) -> CavityPoint:
    """The point with tau = noise + mk^2, whose v* is not a difference."""
    tau = noise + overlap**2
    return CavityPoint(cavity, tau, overlap, noise / tau if tau > 0 else 1.0)


def solve(equations: Equations, start: CavityPoint, where: str) -> CavityPoint:
    """The solution of the equations near `start`, or else the one that continues the warm student's."""
    beta = equations.beta

    def solution(coldness: float, free: np.ndarray) -> np.ndarray:
        return _solve(equations._replace(beta=coldness), free, where)

    free = _free(start)
    try:
        return _point(solution(beta, free))
    except ConvergenceError as error:
        try:
            # a student this cold is one without temperature up to the last step
            coldest = min(beta, _COLDEST)
            if coldest > _WARMEST:
                warm = solution(_WARMEST, _free(UNINFORMED))
                free = continued(solution, _WARMEST, warm, coldest, factor=_COOLING, least_factor=_COOLING)
            return _point(solution(beta, free))
        except ConvergenceError:
            raise error from None


def _solve(equations: Equations, start: np.ndarray, where: str) -> np.ndarray:
    """Rounds of damped iteration and of Newton's method, for T and then for the sharp image, in `_free` coordinates.

    Far from the solution the iteration is slow, and variances change by orders of magnitude; in their logarithms
    Newton's method jumps. For T it comes near from farther away; for the sharp image its last step, which estimates
    the error of the solution, is exact also where a student learns well.
    """
    free, damping, size, error = start, _DAMPING, math.inf, math.inf
    for _ in range(_ROUNDS):
        for _ in range(_DAMPED_STEPS):
            gap = _gap(equations.image, free)
            free = free + damping * gap if np.isfinite(gap).all() else start
        # a step beyond the tolerance costs little and gives all digits that rounding leaves
        for image in (equations.image, equations.sharp_image):
            free, gap, error = newton_by_differences(
                partial(_gap, image),
                free,
                parts=_PARTS,
                cutoff=None,
                settled=_LARGEST_ERROR * 1e-5,
                max_iterations=_NEWTON_STEPS,
            )
        size = float(np.abs(gap).max())
        if size <= _TOLERANCE:
            if not (math.exp(free[0]) > 2 * _LEAST_CAVITY and free[:2].max() < _LARGEST_LOGARITHM):
                raise ConvergenceError(
                    f"there is no replica-symmetric solution at {where}: the variances run to 0 or infinity, as where "
                    "no student explains all labels"
                )
            if error <= _LARGEST_ERROR:
                return free
        damping *= _SLOWER
    raise ConvergenceError(
        f"the replica-symmetric equations at {where} miss by {size:.1e} after {_ROUNDS} rounds, which leaves an error "
        f"of {error:.1e}; tolerated are {_TOLERANCE:g} and {_LARGEST_ERROR:g}"
    )


def _gap(image: Callable[[CavityPoint], CavityPoint], free: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.minimum(_free(image(_point(free))), _LARGEST_LOGARITHM) - free


def _free(point: CavityPoint) -> np.ndarray:
    """(log v, log tau, artanh(mk/sqrt(tau))): unbounded coordinates, in which every point is allowed."""
    tau, rest = max(point.tau, _LEAST_FIELD), max(point.rest, _LEAST_REST)
    correlation = math.asinh(point.overlap / math.sqrt(tau * rest))
    return np.array([math.log(max(point.cavity, _LEAST_CAVITY)), math.log(tau), correlation])


def _point(free: np.ndarray) -> CavityPoint:
    cavity, tau = np.exp(np.minimum(free[:2], _LARGEST_LOGARITHM)).tolist()
    tau = max(tau, _LEAST_FIELD)
    correlation = float(np.clip(free[2], -_LARGEST_LOGARITHM, _LARGEST_LOGARITHM))
    return CavityPoint(cavity, tau, math.sqrt(tau) * math.tanh(correlation), math.cosh(correlation) ** -2)
