"""Random sequential message passing for Gaussian latent variables: static solution, stability, dynamics.

Student: theta ~ N(0, K), likelihood exp(-beta 1[y_i theta_i < 0]) per site, beta its inverse temperature. Teacher:
theta* ~ N(0, K*), y_i = sign(theta*_i) flipped with probability e. K and K* share uniformly random eigenvectors; only
their spectra enter. The student's model may differ from the teacher's; matched means K = K* and beta = log((1 - e)/e).
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
from unlazy.theory.message_passing.teachers import check_flip_probability

_NODES = 512
_BETAS = tuple((0.25 * 1.5 ** np.arange(18)).tolist())


class CovarianceEnsemble(NamedTuple):
    """Joint spectrum of the student's and the teacher's covariance, as weighted pairs of eigenvalues."""

    spectrum: np.ndarray
    """k_j of the student."""
    teacher_spectrum: np.ndarray
    """k*_j along the same eigenvectors."""
    multiplicities: np.ndarray
    """Only their ratios matter. Those of a quadrature may be slightly negative at k_j = k*_j = 0."""


class StaticSolution(NamedTuple):
    """The replica-symmetric solution and the model it belongs to."""

    inverse_temperature: float
    """beta of the student."""
    flip_probability: float
    """e of the teacher's labels."""
    teacher_variance: float
    """rho* = E theta*^2."""
    precision: float
    """Lambda: the posterior covariance is (K^-1 + Lambda)^-1 on the average."""
    posterior_variance: float
    """chi."""
    cavity_variance: float
    """v."""
    cavity_field_variance: float
    """tau = E kappa^2 of the cavity fields."""
    cavity_field_overlap: float
    """mk = E kappa theta*."""
    posterior_square: float
    """q = E eta^2 of the posterior means."""
    posterior_overlap: float
    """m* = E eta theta*."""
    message_square: float
    """E f^2 of the messages f = (v/chi) eta - kappa."""
    spectral_variance: float
    """mean a_j^2 of the multipliers a_j = k_j/(1 + Lambda k_j)/chi - 1."""
    stability: float
    """a = mean(a_j^2) E f'^2; the solution is stable iff a < 1."""


def wishart_ensemble(aspect_ratio: float, *, student_scale: float = 1.0) -> CovarianceEnsemble:
    """K* = X X^T/p, X of shape (N, p) with entries N(0, 1), aspect ratio alpha = N/p; K = student_scale K*.

    The Marchenko-Pastur law by the trapezoidal rule in the angle of k = 1 + alpha + 2 sqrt(alpha) cos(angle), which is
    exact to rounding for analytic functions that vanish at k = 0; the rest of the weight stands at 0. The latent
    variables are the N outputs of a perceptron with weights N(0, I/p).

    >>> ensemble = wishart_ensemble(aspect_ratio=3)
    >>> print(ensemble.multiplicities @ ensemble.spectrum, round(ensemble.multiplicities @ ensemble.spectrum**2, 4))
    1.0 4.0
    """
    ratio = float(check_array("aspect_ratio", aspect_ratio, above=0, high=1e6, ndim=0))
    scale = float(check_array("student_scale", student_scale, above=0, ndim=0))
    angle = (np.arange(_NODES) + 0.5) * math.pi / _NODES
    eigenvalues = 1 + ratio + 2 * math.sqrt(ratio) * np.cos(angle)
    shares = 2 * np.sin(angle) ** 2 / eigenvalues / _NODES
    eigenvalues, shares = np.append(eigenvalues, 0.0), np.append(shares, 1 - shares.sum())
    return CovarianceEnsemble(scale * eigenvalues, eigenvalues, shares)


def row_orthogonal_ensemble(aspect_ratio: float, *, student_scale: float = 1.0) -> CovarianceEnsemble:
    """K* = alpha times a random projection of rank N/alpha, aspect ratio alpha > 1; K = student_scale K*.

    >>> ensemble = row_orthogonal_ensemble(aspect_ratio=4)
    >>> print(ensemble.spectrum, ensemble.multiplicities)
    [4. 0.] [0.25 0.75]
    """
    ratio = float(check_array("aspect_ratio", aspect_ratio, above=1, high=1e6, ndim=0))
    scale = float(check_array("student_scale", student_scale, above=0, ndim=0))
    eigenvalues = np.array([ratio, 0.0])
    return CovarianceEnsemble(scale * eigenvalues, eigenvalues, np.array([1 / ratio, 1 - 1 / ratio]))


ENSEMBLES = ("wishart", "row-orthogonal")


def covariance_ensemble(ensemble: str, aspect_ratio: float) -> CovarianceEnsemble:
    """The ensemble of a name of `ENSEMBLES` at an aspect ratio, which is above 1 for the row-orthogonal one.

    >>> print(covariance_ensemble("row-orthogonal", aspect_ratio=4).multiplicities)
    [0.25 0.75]
    """
    make = wishart_ensemble if check_choice("ensemble", ensemble, ENSEMBLES) == "wishart" else row_orthogonal_ensemble
    return make(aspect_ratio)


def ensemble_of_spectra(
    spectrum: ArrayLike, teacher_spectrum: ArrayLike | None = None, multiplicities: ArrayLike | None = None
) -> CovarianceEnsemble:
    """Any spectra on common eigenvectors; by default the teacher's is the student's and all occur equally often.

    >>> ensemble = ensemble_of_spectra(spectrum=[2, 1], teacher_spectrum=[3, 1], multiplicities=[1, 3])
    >>> print(ensemble.multiplicities @ ensemble.teacher_spectrum)
    1.5
    """
    eigenvalues = check_array("spectrum", spectrum, ndim=1)
    copies = np.ones(eigenvalues.shape) if multiplicities is None else multiplicities
    copies = check_array("multiplicities", copies, low=0, ndim=1)
    return _check_ensemble(eigenvalues, eigenvalues if teacher_spectrum is None else teacher_spectrum, copies)


def static_solution(
    ensemble: CovarianceEnsemble,
    inverse_temperature: float,
    flip_probability: float,
    *,
    nearby_solution: StaticSolution | None = None,
) -> StaticSolution:
    """The replica-symmetric order parameters and the de Almeida-Thouless factor of the model.

    With Sigma_j = k_j/(1 + Lambda k_j), chi = mean Sigma_j, 1/v = 1/chi - Lambda, a_j = Sigma_j/chi - 1, averages over
    kappa ~ N(0, tau) and y given kappa, and f = (v/chi) eta(kappa) - kappa:

        chi = v E eta',    c = (E[theta* f])/rho*,    mk = c mean(a k*),
        tau = c^2 mean(a^2 k*) + mean(a^2) (E f^2 - c^2 rho*),    stability = mean(a^2) E f'^2.

    Exact as N grows for rotation-invariant K, K* with common eigenvectors, where the stability factor is below 1. In
    the units of K: doubling K doubles v, tau and q and leaves that factor. `nearby_solution` is where to begin.
    Newton's method after a few damped iterations from an uninformed start, and along warmer students where that fails;
    `ConvergenceError` if the equations are not met to 1e-9 or the last step of Newton's method exceeds 1e-7 (usually
    they are to 1e-13), as at beta = inf with labels that no student explains. Source: Cakmak, Lu & Opper (2022), in the
    form of the vector-AMP equations.

    >>> found = static_solution(wishart_ensemble(aspect_ratio=3), inverse_temperature=4, flip_probability=0.1)
    >>> print(f"overlap {found.posterior_overlap:.4f}, stability {found.stability:.4f}")
    overlap 0.7524, stability 0.4053
    """
    beta = float(check_array("inverse_temperature", inverse_temperature, above=0, ndim=0, finite=False))
    error = check_flip_probability(flip_probability)
    if not isinstance(ensemble, CovarianceEnsemble):
        raise InputError(
            "ensemble must be a CovarianceEnsemble, as wishart_ensemble, row_orthogonal_ensemble and "
            f"ensemble_of_spectra return, got {ensemble!r:.60}"
        )
    student, teacher, weights = _check_ensemble(*ensemble, "ensemble.")
    size, power = float(weights @ student), float(weights @ teacher)
    equations = Equations(student / size, teacher / power, weights, beta, error)
    point = UNINFORMED
    if nearby_solution is not None:
        _check_solution("nearby_solution", nearby_solution)
        overlap = nearby_solution.cavity_field_overlap / math.sqrt(size * power)
        noise = max(nearby_solution.cavity_field_variance / size - overlap**2, 0.0)
        point = with_noise(nearby_solution.cavity_variance / size, noise, overlap)
    point = solve(equations, point, f"inverse_temperature = {beta:g}, flip_probability = {error:g}")
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
    return StaticSolution(beta, error, *map(float, numbers))


def almeida_thouless_line(ensemble: CovarianceEnsemble, flip_probability: float) -> float:
    """The lowest inverse temperature of the student at which the stability factor is 1.

    The line of de Almeida and Thouless; inf if the factor stays below 1 up to 246. It is followed upwards from 0.25 in
    steps of a factor 1.5, so that two crossings within one step are missed. Above the line no schedule of the algorithm
    converges. Source: Cakmak, Lu & Opper (2022).

    >>> line = almeida_thouless_line(row_orthogonal_ensemble(aspect_ratio=3), flip_probability=0.1)
    >>> print(f"{line:.2f}, matched {matched_inverse_temperature(0.1):.2f}")
    10.21, matched 2.20
    """
    lower: StaticSolution | None = None
    for beta in _BETAS:
        upper = static_solution(ensemble, beta, flip_probability, nearby_solution=lower)
        if upper.stability >= 1:
            break
        lower = upper
    else:
        return math.inf
    if lower is None:
        raise ConvergenceError(
            f"the stability factor is {upper.stability:g} already at the lowest inverse temperature, {_BETAS[0]:g}"
        )

    def excess(betas: np.ndarray) -> np.ndarray:
        return np.array(
            [static_solution(ensemble, b, flip_probability, nearby_solution=upper).stability - 1 for b in betas]
        )

    return float(increasing_root(excess, lower.inverse_temperature, upper.inverse_temperature))


def matched_inverse_temperature(flip_probability: float) -> float:
    """The inverse temperature log((1 - e)/e) at which the student knows the teacher's noise, 0 < e < 1/2.

    >>> print(f"{matched_inverse_temperature(flip_probability=0.1):.3f}")
    2.197
    """
    error = float(check_array("flip_probability", check_flip_probability(flip_probability), above=0))
    return math.log((1 - error) / error)


def almeida_thouless_solutions(
    ensemble: str, aspect_ratio: float, relative_inverse_temperature: ArrayLike, flip_probability: float
) -> tuple[StaticSolution, ...]:
    """Static solutions at multiples of the inverse temperature of `almeida_thouless_line`, of an ensemble by its name.

    `InputError` if there is no line. Results are kept.

    >>> multiples = [0.7, 1, 1.3]
    >>> found = almeida_thouless_solutions("wishart", 3, relative_inverse_temperature=multiples, flip_probability=0.1)
    >>> print([round(solution.stability, 3) for solution in found])
    [0.759, 1.0, 1.187]
    """
    check_choice("ensemble", ensemble, ENSEMBLES)
    ratio = float(check_array("aspect_ratio", aspect_ratio, above=0, high=1e6, ndim=0))
    multiples = check_array("relative_inverse_temperature", relative_inverse_temperature, above=0, ndim=1)
    return _solutions_at_line(ensemble, ratio, tuple(multiples.tolist()), check_flip_probability(flip_probability))


@cache
def _solutions_at_line(
    name: str, ratio: float, multiples: tuple[float, ...], flip: float
) -> tuple[StaticSolution, ...]:
    ensemble = covariance_ensemble(name, ratio)
    line = almeida_thouless_line(ensemble, flip)
    if not math.isfinite(line):
        raise InputError(
            f"aspect_ratio = {ratio:g}, flip_probability = {flip:g} have no line up to an inverse temperature of "
            f"{_BETAS[-1]:.0f}: the stability factor stays below 1"
        )
    return tuple(static_solution(ensemble, multiple * line, flip) for multiple in multiples)


def mean_field_residual(solution: StaticSolution, update_probability: ArrayLike, iterations: int) -> np.ndarray:
    """r(t) = E(psi(t + 1) - kappa(t))^2, t = 0..iterations - 1, of proposed and present fields, in the units of K.

    Each site takes its proposal with the `update_probability` p (1: parallel; -> 0: random sequential). With D(t, s) =
    tau - C(t, s) half the squared distance of the proposed fields, and G(D) = E f^2 - E f f' of fields at distance D:

        D(t, 0) = tau - mk^2/rho*,    D(t, t) = 0,    D(t, s) = mean(a^2) Df(t-1, s-1),
        H(t, 0) = G(D(t, 0)),    H(t, s) = (1 - p) H(t, s-1) + p G(D(t, s)),
        Df(t, t) = 0,    Df(t, s) = (1 - p) Df(t-1, s) + p H(t, s),
        S(t, 0) = D(t, 0),    S(t, s) = (1 - p) S(t, s-1) + p D(t, s),    r(t) = 2 S(t+1, t).

    Exact as N grows from the start kappa(0) = (mk/rho*) theta* + sqrt(tau - mk^2/rho*) noise, which makes all one-time
    averages stationary. Asymptotically r decays by 1 - p (1 - a) per step. The result has the shape of p and a
    last axis of times. Source: Cakmak, Lu & Opper (2022).

    >>> solution = static_solution(wishart_ensemble(3), inverse_temperature=4, flip_probability=0.1)
    >>> print(mean_field_residual(solution, update_probability=[1, 0.25], iterations=4).round(3))
    [[0.568 0.106 0.035 0.013]
     [0.568 0.433 0.334 0.259]]
    """
    _check_solution("solution", solution)
    updates = check_array("update_probability", update_probability, above=0, high=1)
    count = check_whole("iterations", iterations, 1, 2000)
    residual = np.zeros((*updates.shape, count))
    farthest = solution.cavity_field_variance - solution.cavity_field_overlap**2 / solution.teacher_variance
    if farthest > 0:
        decorrelation = decorrelation_table(solution, farthest)
        for index, update in np.ndenumerate(updates):
            residual[index] = two_time_residual(farthest, solution.spectral_variance, decorrelation, update, count)
    return residual


def _check_solution(name: str, value: StaticSolution) -> None:
    if not isinstance(value, StaticSolution):
        raise InputError(f"{name} must be a StaticSolution, as static_solution returns, got {value!r:.60}")


def _check_ensemble(student: ArrayLike, teacher: ArrayLike, weights: ArrayLike, of: str = "") -> CovarianceEnsemble:
    """The ensemble with weights that sum to 1, or what is wrong with it."""
    spectra = {
        name: check_array(f"{of}{name}", spectrum, low=0, high=1e100, ndim=1)
        for name, spectrum in (("spectrum", student), ("teacher_spectrum", teacher))
    }
    shares = check_array(f"{of}multiplicities", weights, ndim=1)
    first, second = spectra.values()
    for name, array in (("teacher_spectrum", second), ("multiplicities", shares)):
        if array.shape != first.shape:
            raise InputError(f"{of}{name} must have shape {first.shape} like {of}spectrum, got {array.shape}")
    wrong = (shares < 0) & ((first > 0) | (second > 0))
    if wrong.any():
        raise InputError(f"{of}multiplicities must be >= 0 where an eigenvalue is not 0, got {shares[wrong][0]:g}")
    if not shares.sum() > 0:
        raise InputError(f"{of}multiplicities must have a positive sum, got {shares.sum():g}")
    shares = shares / shares.sum()
    for name, array in spectra.items():
        if not shares @ array > 0:
            raise InputError(f"{of}{name} must have a positive trace, got {shares @ array:g}")
    return CovarianceEnsemble(first, second, shares)
