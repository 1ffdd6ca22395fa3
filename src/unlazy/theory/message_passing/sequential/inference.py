"""Random sequential message passing for Gaussian latent variables: static solution, stability, dynamics.

Student: theta ~ N(0, K), likelihood exp(-beta 1[y_i theta_i < 0]) per site. Teacher: theta* ~ N(0, K*), y_i =
sign(theta*_i) flipped with probability e. K and K* share uniformly random eigenvectors; only their spectra enter. The
student's model may differ from the teacher's; matched means K = K* and beta = log((1 - e)/e).
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.numerics.roots import ConvergenceError, increasing_root
from unlazy.theory.message_passing.sequential.dynamics import decorrelation_table, two_time_residual
from unlazy.theory.message_passing.sequential.equations import UNINFORMED, Equations, solve, with_noise
from unlazy.theory.message_passing.teachers import check_flip

_NODES = 512
_BETAS = tuple((0.25 * 1.5 ** np.arange(18)).tolist())


class CovarianceEnsemble(NamedTuple):
    """Joint spectrum of the student's and the teacher's covariance, as weighted pairs of eigenvalues."""

    student: np.ndarray
    """k_j."""
    teacher: np.ndarray
    """k*_j along the same eigenvectors."""
    weights: np.ndarray
    """Shares; only their ratios matter. Those of a quadrature may be slightly negative at k_j = k*_j = 0."""


class StaticSolution(NamedTuple):
    """The replica-symmetric solution and the model it belongs to."""

    beta: float
    """Inverse temperature of the student."""
    flip: float
    """e, the teacher's flip probability."""
    teacher_power: float
    """rho* = E theta*^2."""
    precision: float
    """Lambda: the posterior covariance is (K^-1 + Lambda)^-1 on the average."""
    posterior_variance: float
    """chi."""
    cavity_variance: float
    """v."""
    field_variance: float
    """tau = E kappa^2 of the cavity fields."""
    field_overlap: float
    """mk = E kappa theta*."""
    mean_square: float
    """q = E eta^2 of the posterior means."""
    mean_overlap: float
    """m* = E eta theta*."""
    message_square: float
    """E f^2 of the messages f = (v/chi) eta - kappa."""
    spectral_variance: float
    """mean a_j^2 of the multipliers a_j = k_j/(1 + Lambda k_j)/chi - 1."""
    at_factor: float
    """a = mean(a_j^2) E f'^2; the solution is stable iff a < 1."""


def wishart_ensemble(alpha: float, *, student_scale: float = 1.0) -> CovarianceEnsemble:
    """K* = X X^T/p, X of shape (N, p) with entries N(0, 1), alpha = N/p; K = student_scale K*.

    The Marchenko-Pastur law by the trapezoidal rule in the angle of k = 1 + alpha + 2 sqrt(alpha) cos(angle), which is
    exact to rounding for analytic functions that vanish at k = 0; the rest of the weight stands at 0. The latent
    variables are the N outputs of a perceptron with weights N(0, I/p).
    """
    ratio = float(check_array("alpha", alpha, above=0, high=1e6, ndim=0))
    scale = float(check_array("student_scale", student_scale, above=0, ndim=0))
    angle = (np.arange(_NODES) + 0.5) * math.pi / _NODES
    eigenvalues = 1 + ratio + 2 * math.sqrt(ratio) * np.cos(angle)
    shares = 2 * np.sin(angle) ** 2 / eigenvalues / _NODES
    eigenvalues, shares = np.append(eigenvalues, 0.0), np.append(shares, 1 - shares.sum())
    return CovarianceEnsemble(scale * eigenvalues, eigenvalues, shares)


def row_orthogonal_ensemble(alpha: float, *, student_scale: float = 1.0) -> CovarianceEnsemble:
    """K* = alpha times a random projection of rank N/alpha, alpha > 1; K = student_scale K*."""
    ratio = float(check_array("alpha", alpha, above=1, high=1e6, ndim=0))
    scale = float(check_array("student_scale", student_scale, above=0, ndim=0))
    eigenvalues = np.array([ratio, 0.0])
    return CovarianceEnsemble(scale * eigenvalues, eigenvalues, np.array([1 / ratio, 1 - 1 / ratio]))


ENSEMBLES = ("wishart", "row-orthogonal")


def covariance_ensemble(name: str, alpha: float) -> CovarianceEnsemble:
    """The ensemble of a name of `ENSEMBLES` at aspect ratio alpha, above 1 for the row-orthogonal one."""
    make = wishart_ensemble if check_choice("name", name, ENSEMBLES) == "wishart" else row_orthogonal_ensemble
    return make(alpha)


def ensemble_of_spectra(
    student: ArrayLike, teacher: ArrayLike | None = None, weights: ArrayLike | None = None
) -> CovarianceEnsemble:
    """Any spectra on common eigenvectors; by default the teacher's is the student's and the weights are equal."""
    student = check_array("student", student, ndim=1)
    teacher = student if teacher is None else teacher
    weights = np.ones(student.shape) if weights is None else check_array("weights", weights, low=0, ndim=1)
    return _check_ensemble(student, teacher, weights)


def static_solution(
    ensemble: CovarianceEnsemble, beta: float, flip: float, *, start: StaticSolution | None = None
) -> StaticSolution:
    """The replica-symmetric order parameters and the de Almeida-Thouless factor of the model.

    With Sigma_j = k_j/(1 + Lambda k_j), chi = mean Sigma_j, 1/v = 1/chi - Lambda, a_j = Sigma_j/chi - 1, averages over
    kappa ~ N(0, tau) and y given kappa, and f = (v/chi) eta(kappa) - kappa:

        chi = v E eta',    c = (E[theta* f])/rho*,    mk = c mean(a k*),
        tau = c^2 mean(a^2 k*) + mean(a^2) (E f^2 - c^2 rho*),    AT factor = mean(a^2) E f'^2.

    Exact as N grows for rotation-invariant K, K* with common eigenvectors, where the AT factor is below 1. In the units
    of K: doubling K doubles v, tau and q and leaves the AT factor. `start` is a nearby solution. Newton's method after
    a few damped iterations from an uninformed start, and along warmer students where that fails; `ConvergenceError` if
    the equations are not met to 1e-9 or the last step of Newton's method exceeds 1e-7 (usually they are to 1e-13), as
    at beta = inf with labels that no student explains.
    Source: Cakmak, Lu & Opper (2022), in the form of the vector-AMP equations.
    """
    inverse_temperature, error = _inverse_temperature(beta), check_flip("flip", flip)
    if not isinstance(ensemble, CovarianceEnsemble):
        raise InputError(
            "ensemble must be a CovarianceEnsemble, as wishart_ensemble, row_orthogonal_ensemble and "
            f"ensemble_of_spectra return, got {ensemble!r:.60}"
        )
    student, teacher, weights = _check_ensemble(*ensemble)
    size, power = float(weights @ student), float(weights @ teacher)
    equations = Equations(student / size, teacher / power, weights, inverse_temperature, error)
    point = UNINFORMED
    if start is not None:
        _check_solution("start", start)
        overlap = start.field_overlap / math.sqrt(size * power)
        noise = max(start.field_variance / size - overlap**2, 0.0)
        point = with_noise(start.cavity_variance / size, noise, overlap)
    point = solve(equations, point, f"beta = {inverse_temperature:g}, flip = {error:g}")
    mean = equations.averages(point)
    precision = equations.precision(point, mean)
    moments = equations.moments(precision)
    numbers = (
        power,
        precision / size,
        moments.response * size,
        point.cavity * size,
        point.tau * size,
        point.overlap * math.sqrt(size * power),
        mean.square * size,
        mean.teacher * math.sqrt(size * power),
        mean.message_square * size,
        moments.variance,
        moments.variance * mean.message_slope_square,
    )
    return StaticSolution(inverse_temperature, error, *map(float, numbers))


def at_line(ensemble: CovarianceEnsemble, flip: float) -> float:
    """The lowest inverse temperature of the student at which the AT factor is 1.

    Returns inf if it stays below 1 up to beta = 246. The factor is followed upwards from beta = 0.25 in steps of a
    factor 1.5, so that two crossings within one step are missed. Above the line no schedule of the algorithm converges.
    Source: Cakmak, Lu & Opper (2022).
    """
    lower: StaticSolution | None = None
    for beta in _BETAS:
        upper = static_solution(ensemble, beta, flip, start=lower)
        if upper.at_factor >= 1:
            break
        lower = upper
    else:
        return math.inf
    if lower is None:
        raise ConvergenceError(f"the AT factor is {upper.at_factor:g} already at the lowest beta tried, {_BETAS[0]:g}")

    def excess(betas: np.ndarray) -> np.ndarray:
        return np.array([static_solution(ensemble, b, flip, start=upper).at_factor - 1 for b in betas])

    return float(increasing_root(excess, lower.beta, upper.beta))


def matched_beta(flip: float) -> float:
    """The inverse temperature log((1 - e)/e) at which the student knows the teacher's noise, 0 < e < 1/2."""
    error = float(check_array("flip", check_flip("flip", flip), above=0))
    return math.log((1 - error) / error)


def solutions_at_line(name: str, alpha: float, flip: float, cooling: ArrayLike) -> tuple[StaticSolution, ...]:
    """Static solutions at multiples of the inverse temperature of the AT line; `InputError` if there is none.

    Results are kept.
    """
    check_choice("name", name, ENSEMBLES)
    ratio = float(check_array("alpha", alpha, above=0, high=1e6, ndim=0))
    multiples = check_array("cooling", cooling, above=0, ndim=1)
    return _solutions_at_line(name, ratio, check_flip("flip", flip), tuple(multiples.tolist()))


@cache
def _solutions_at_line(name: str, alpha: float, flip: float, cooling: tuple[float, ...]) -> tuple[StaticSolution, ...]:
    ensemble = covariance_ensemble(name, alpha)
    line = at_line(ensemble, flip)
    if not math.isfinite(line):
        raise InputError(
            f"alpha = {alpha:g}, flip = {flip:g} have no AT line up to beta = {_BETAS[-1]:.0f}: "
            "the factor stays below 1"
        )
    return tuple(static_solution(ensemble, ratio * line, flip) for ratio in cooling)


def mean_field_residual(solution: StaticSolution, rate: ArrayLike, steps: int) -> np.ndarray:
    """r(t) = E(psi(t + 1) - kappa(t))^2, t = 0..steps - 1, of proposed and present fields, in the units of K.

    Each site takes its proposal with probability `rate` per step (1: parallel; -> 0: random sequential). With D(t, s) =
    tau - C(t, s) half the squared distance of the proposed fields, and G(D) = E f^2 - E f f' of fields at distance D:

        D(t, 0) = tau - mk^2/rho*,    D(t, t) = 0,    D(t, s) = mean(a^2) Df(t-1, s-1),
        H(t, 0) = G(D(t, 0)),    H(t, s) = (1 - rate) H(t, s-1) + rate G(D(t, s)),
        Df(t, t) = 0,    Df(t, s) = (1 - rate) Df(t-1, s) + rate H(t, s),
        S(t, 0) = D(t, 0),    S(t, s) = (1 - rate) S(t, s-1) + rate D(t, s),    r(t) = 2 S(t+1, t).

    Exact as N grows from the start kappa(0) = (mk/rho*) theta* + sqrt(tau - mk^2/rho*) noise, which makes all one-time
    averages stationary. Asymptotically r decays by 1 - rate (1 - a) per step. The result has the shape of `rate` and a
    last axis of times. Source: Cakmak, Lu & Opper (2022).
    """
    _check_solution("solution", solution)
    updates = check_array("rate", rate, above=0, high=1)
    count = check_whole("steps", steps, 1, 2000)
    residual = np.zeros((*updates.shape, count))
    farthest = solution.field_variance - solution.field_overlap**2 / solution.teacher_power
    if farthest > 0:
        decorrelation = decorrelation_table(solution, farthest)
        for index, update in np.ndenumerate(updates):
            residual[index] = two_time_residual(farthest, solution.spectral_variance, decorrelation, update, count)
    return residual


def _inverse_temperature(beta: float) -> float:
    return float(check_array("beta", beta, above=0, ndim=0, finite=False))


def _check_solution(name: str, value: StaticSolution) -> None:
    if not isinstance(value, StaticSolution):
        raise InputError(f"{name} must be a StaticSolution, as static_solution returns, got {value!r:.60}")


def _check_ensemble(student: ArrayLike, teacher: ArrayLike, weights: ArrayLike) -> CovarianceEnsemble:
    """The ensemble with weights that sum to 1, or what is wrong with it."""
    spectra = {
        name: check_array(name, spectrum, low=0, high=1e100, ndim=1)
        for name, spectrum in (("student", student), ("teacher", teacher))
    }
    shares = check_array("weights", weights, ndim=1)
    size = spectra["student"].shape
    for name, array in (("teacher", spectra["teacher"]), ("weights", shares)):
        if array.shape != size:
            raise InputError(f"{name} must have shape {size} like student, got {array.shape}")
    wrong = (shares < 0) & ((spectra["student"] > 0) | (spectra["teacher"] > 0))
    if wrong.any():
        raise InputError(f"weights must be >= 0 where an eigenvalue is not 0, got {shares[wrong][0]:g}")
    if not shares.sum() > 0:
        raise InputError(f"weights must have a positive sum, got {shares.sum():g}")
    shares = shares / shares.sum()
    for name, array in spectra.items():
        if not shares @ array > 0:
            raise InputError(f"{name} must have a positive trace, got {shares @ array:g}")
    return CovarianceEnsemble(spectra["student"], spectra["teacher"], shares)
