"""How fast the mean-field Langevin flow converges: the exact rate of one-dimensional problems, its bounds, the flow.

F(mu) = int (confinement x^2 + V(x)) dmu + (interaction/2) (int phi dmu - target)^2; in the notation of the papers
temperature is lambda_2, confinement lambda_1. A log-Sobolev constant alpha here means KL <= (alpha/2) I: large is slow,
and the guaranteed decay of L - L* is exp(-2 temperature t / alpha). Authors whose alpha is the inverse mean 1/alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.errors import InputError, check_array, check_whole
from unlazy.numerics.roots import ConvergenceError

Function = Callable[[np.ndarray], np.ndarray]
_DEVIATIONS = 8.5
_WIDE = 10


class ScalarProblem(NamedTuple):
    """A one-dimensional problem on a grid, with its optimum."""

    points: np.ndarray
    """The grid, equally spaced."""
    external: np.ndarray
    """confinement x^2 + V(x) on it."""
    feature: np.ndarray
    """phi on it."""
    interaction: float
    target: float
    temperature: float
    mean: float
    """m = int phi dmu*."""
    masses: np.ndarray
    """mu* on the grid; the density is masses / spacing."""
    objective: float
    """L*."""
    energy: float
    """F*."""
    confinement: float
    oscillation: float
    """sup - inf of V + interaction (m - target) phi, what is not the confinement in the first variation."""
    oscillation_sum: float
    """The sum of the oscillations of its two parts, which is larger."""


class DecayRates(NamedTuple):
    """Rates per unit of time; L - L* decays as exp(-2 rate t)."""

    rate: float
    """r_min, the exact one: the least non-zero eigenvalue of the linearised flow."""
    gap: float
    """temperature times the spectral gap of mu*: the rate if the drift were frozen at mu*."""
    bound: float
    """temperature/alpha with alpha from Holley and Stroock and the true oscillation."""
    loose_bound: float
    """The same with the sum of oscillations."""


class Flow(NamedTuple):
    """The flow of mu_t at times."""

    times: np.ndarray
    gaps: np.ndarray
    """L(mu_t) - L*, exact to rounding relative to itself."""
    energy_gaps: np.ndarray
    """F(mu_t) - F*: first order in the perturbation, of either sign."""
    means: np.ndarray
    """int phi dmu_t."""


def scalar_problem(
    potential: Function,
    feature: Function,
    *,
    interaction: float,
    target: float,
    confinement: float,
    temperature: float,
    points: int = 801,
    half_width: float | None = None,
) -> ScalarProblem:
    """The optimum of F = int (confinement x^2 + V) dmu + (interaction/2)(int phi dmu - target)^2 plus entropy.

    mu* ~ exp(-(confinement x^2 + V + interaction (m - target) phi)/temperature) with m = int phi dmu*, the root of a
    decreasing function. `potential` is V, bounded; `feature` is phi. Without `half_width` the box starts at 8.5
    standard deviations of the confinement and grows until the density at its ends is below 1e-15 of its maximum; a
    given one is refused above 1e-9. The oscillations are taken over a ten times wider box. Rates have an error of the
    order of the squared spacing.
    """
    interaction = float(check_array("interaction", interaction, low=0, ndim=0))
    target = float(check_array("target", target, ndim=0))
    confinement = float(check_array("confinement", confinement, above=0, ndim=0))
    temperature = float(check_array("temperature", temperature, above=0, ndim=0))
    points = check_whole("points", points, 11, 100_000)
    fixed = None if half_width is None else float(check_array("half_width", half_width, above=0, ndim=0))
    half = _DEVIATIONS * np.sqrt(temperature / (2 * confinement)) if fixed is None else fixed

    def on(name: str, function: Function, x: np.ndarray) -> np.ndarray:
        values = check_array(name, function(x))
        if values.shape != x.shape:
            raise InputError(f"{name} must give one number per point, got shape {values.shape} for {x.shape}")
        return values

    for _ in range(20):
        x = np.linspace(-half, half, points)
        external, phi = confinement * x**2 + on("potential", potential, x), on("feature", feature, x)
        mean, masses, log_total = _optimal_mean(external, phi, interaction, target, temperature)
        if max(masses[0], masses[-1]) < (1e-15 if fixed is None else 1e-9) * masses.max():
            break
        if fixed is not None:
            raise ConvergenceError(
                f"half_width = {fixed:g} cuts the optimum off: its density at the ends is "
                f"{max(masses[0], masses[-1]) / masses.max():.2g} of its maximum"
            )
        half *= 1.3
    else:
        raise ConvergenceError(f"the box grew to half width {half:g} and still cuts the optimum off")
    if masses @ masses > 1 / 3:
        raise ConvergenceError(f"points = {points} do not resolve the optimum, which covers less than three cells")
    pull = interaction * (mean - target)
    energy = float(masses @ external) + interaction / 2 * (mean - target) ** 2
    # Ent = -E[first variation]/temperature - log Z
    entropy = -(float(masses @ external) + pull * mean) / temperature - log_total - np.log(x[1] - x[0])
    wide = np.linspace(-_WIDE * half, _WIDE * half, _WIDE * points)
    apart = on("potential", potential, wide), pull * on("feature", feature, wide)
    return ScalarProblem(
        points=x,
        external=external,
        feature=phi,
        interaction=interaction,
        target=target,
        temperature=temperature,
        mean=mean,
        masses=masses,
        objective=energy + temperature * entropy,
        energy=energy,
        confinement=confinement,
        oscillation=float(np.ptp(apart[0] + apart[1])),
        oscillation_sum=float(np.ptp(apart[0]) + np.ptp(apart[1])),
    )


def decay_rates(problem: ScalarProblem) -> DecayRates:
    """The exact asymptotic rate r_min of the flow, the frozen one and the guaranteed ones.

        r_min = least non-zero eigenvalue of f -> -(1/mu*) div(mu* grad(temperature f + K f)),

    K the second variation of F, interaction (phi - m)(phi - m)' here. On the grid the generator of mu* is reversible,
    -S after symmetrisation, and r_min solves 1 + (interaction/temperature) u^T S (S - r)^-1 u = 0 between the first two
    non-zero eigenvalues of S, u = sqrt(mu*)(phi - m). Always r_min >= gap >= bound = 2 confinement
    exp(-oscillation/temperature) (Holley & Stroock 1987). Sources: Nitanda, Wu & Suzuki (2022), Chizat (2022) for the
    guarantee; r_min is the linearisation.
    """
    from scipy.linalg import eigh_tridiagonal, solve_banded
    from scipy.optimize import brentq

    main, off = _symmetric_generator(problem)
    values, vectors = eigh_tridiagonal(main, off, select="i", select_range=(0, 2))
    gap, second = float(values[1]), float(values[2])
    if gap < 1e3 * np.finfo(float).eps * main.max():
        raise ConvergenceError(
            f"the spectral gap {gap:.2g} is lost in rounding at temperature {problem.temperature:g}: the barrier "
            f"{barrier(problem):.3g} is too many times higher"
        )
    strength = problem.interaction / problem.temperature
    u = np.sqrt(problem.masses) * (problem.feature - problem.mean)
    share = float(vectors[:, 1] @ u) ** 2
    rate = gap
    if strength * share > 1e-14 * (1 + strength * float(u @ u)):
        pushed = main * u
        pushed[:-1] += off * u[1:]
        pushed[1:] += off * u[:-1]
        bands = np.zeros((3, len(main)))
        bands[0, 1:], bands[2, :-1] = off, off

        def secular(position: float) -> float:
            r = gap + position * (second - gap)
            bands[1] = main - r
            return (1 + strength * float(u @ solve_banded((1, 1), bands, pushed))) * position * (1 - position)

        low, high = 1e-9, 1 - 1e-9
        if secular(low) >= 0:
            rate = gap
        elif secular(high) <= 0:
            rate = second
        else:
            rate = gap + float(brentq(secular, low, high, xtol=1e-13)) * (second - gap)
    free = 2 * problem.confinement
    return DecayRates(
        rate=rate,
        gap=gap,
        bound=free * float(np.exp(-problem.oscillation / problem.temperature)),
        loose_bound=free * float(np.exp(-problem.oscillation_sum / problem.temperature)),
    )


def barrier(problem: ScalarProblem) -> float:
    """The smallest climb out of the shallower of two wells of the first variation at mu*; 0 with one well.

    With more wells, the climb that dominates: the largest over wells of the least ascent to a deeper one.
    """
    potential = problem.external + problem.interaction * (problem.mean - problem.target) * problem.feature
    wells = np.flatnonzero((potential[1:-1] < potential[:-2]) & (potential[1:-1] <= potential[2:])) + 1
    climbs = [0.0]
    for well in wells:
        tops = [
            potential[min(well, other) : max(well, other) + 1].max()
            for other in wells
            if other != well and potential[other] <= potential[well]
        ]
        if tops:
            climbs.append(float(min(tops) - potential[well]))
    return max(climbs)


def mean_field_flow(problem: ScalarProblem, start: ArrayLike, times: ArrayLike, *, step: float) -> Flow:
    """The law of the mean-field Langevin flow from masses `start` on the problem's grid, at increasing times.

    d mu/dt = div(mu grad F'(mu)) + temperature Laplacian mu, by implicit Euler steps of at most `step`: positive, of
    mass 1, and stationary exactly at mu*. The drift is that of the step's end, found as the root of a decreasing
    function of its mean: with the drift of the start large steps overshoot like the naive iteration mu <- p_mu. The
    relative error of a rate r is about r step/2. The gap is computed as temperature KL(mu_t || mu*) +
    (interaction/2)(m_t - m)^2, which is exact for this F and does not cancel.
    """
    masses = check_array("start", start, low=0, ndim=1)
    if masses.size != problem.points.size:
        raise InputError(f"start must have one mass per point ({problem.points.size}), got {masses.size}")
    if abs(masses.sum() - 1) > 1e-9:
        raise InputError(f"start must sum to 1, got {masses.sum():.12g}")
    moments = check_array("times", times, low=0, ndim=1)
    if (np.diff(moments) <= 0).any():
        raise InputError("times must increase")
    step = float(check_array("step", step, above=0, ndim=0))
    if (problem.masses == 0).any():
        raise InputError(
            f"temperature must be high enough for masses above 1e-300 in the whole box, got {problem.temperature:g}"
        )

    now, gaps, energy_gaps, means = 0.0, [], [], []
    slope = -1.0
    for moment in moments:
        count = int(np.ceil((moment - now) / step - 1e-9))
        size = (moment - now) / max(count, 1)
        for _ in range(count):
            masses, slope = _implicit_step(problem, masses, size, slope)
        now = float(moment)
        gaps.append(_gap(problem, masses))
        mean = float(masses @ problem.feature)
        means.append(mean)
        away = (mean - problem.target) ** 2 - (problem.mean - problem.target) ** 2
        energy_gaps.append(float((masses - problem.masses) @ problem.external) + problem.interaction / 2 * away)
    return Flow(moments, np.array(gaps), np.array(energy_gaps), np.array(means))


def normal_masses(problem: ScalarProblem, mean: Any, variance: Any) -> np.ndarray:
    """The masses of N(mean, variance) on the problem's grid, normalised there."""
    mean = float(check_array("mean", mean, ndim=0))
    variance = float(check_array("variance", variance, above=0, ndim=0))
    exponent = -((problem.points - mean) ** 2) / (2 * variance)
    masses = np.exp(exponent - exponent.max())
    return masses / masses.sum()


def _optimal_mean(
    external: np.ndarray, phi: np.ndarray, interaction: float, target: float, temperature: float
) -> tuple[float, np.ndarray, float]:
    """m, the masses of mu* and log of the sum of exponentials."""
    from scipy.optimize import brentq

    def law(m: float) -> tuple[np.ndarray, float]:
        exponent = -(external + interaction * (m - target) * phi) / temperature
        top = exponent.max()
        masses = np.exp(exponent - top)
        total = float(masses.sum())
        return masses / total, float(top) + float(np.log(total))

    low, high = float(phi.min()), float(phi.max())
    mean = low
    if high > low:
        mean = float(brentq(lambda m: float(law(m)[0] @ phi) - m, low, high, xtol=1e-15 * max(abs(low), abs(high), 1)))
    masses, log_total = law(mean)
    # The mean of the law itself, so that what is orthogonal to constants is so to rounding.
    return float(masses @ phi), masses, log_total


def _jump_rates(differences: np.ndarray, temperature: float, speed: float) -> tuple[np.ndarray, np.ndarray]:
    """Rates of jumps to the right and to the left between neighbours, reversible for exp(-potential/temperature)."""
    factor = np.exp(-differences / (2 * temperature))
    return speed * factor, speed / factor


def _implicit_step(problem: ScalarProblem, masses: np.ndarray, size: float, slope: float) -> tuple[np.ndarray, float]:
    """The masses after an implicit step and the slope of its residual, a good first guess for the next step's."""
    from scipy.linalg.lapack import dgtsv

    differences, phi = np.diff(problem.external), np.diff(problem.feature)
    speed = size * problem.temperature / (problem.points[1] - problem.points[0]) ** 2
    tolerance = 1e-13 * float(np.abs(problem.feature).max())

    def moved(mean: float) -> tuple[np.ndarray, float]:
        pull = problem.interaction * (mean - problem.target)
        right, left = _jump_rates(differences + pull * phi, problem.temperature, speed)
        leaving = np.ones(masses.size)
        leaving[:-1] += right
        leaving[1:] += left
        *_, after, info = dgtsv(-right, leaving, -left, masses)
        if info != 0:
            raise ConvergenceError(f"an implicit step of size {size:g} failed (LAPACK info {info})")
        return after, float(after @ problem.feature) - mean

    mean = float(masses @ problem.feature)
    after, residual = moved(mean)
    # The residual falls with a slope of at most -1, so that its root is not farther away than its value.
    low, high = mean - abs(residual), mean + abs(residual)
    for _ in range(100):
        if abs(residual) <= tolerance:
            return after, slope
        trial = mean - residual / slope
        if not low < trial < high:
            trial = (low + high) / 2
        last, before, mean = residual, mean, trial
        after, residual = moved(mean)
        low, high = (mean, high) if residual > 0 else (low, mean)
        if mean != before and residual != last:
            slope = min((residual - last) / (mean - before), -1.0)
        if high - low <= tolerance:
            return after, slope
    raise ConvergenceError(f"an implicit step of size {size:g} left a residual of {residual:.3g} in the mean")


def _symmetric_generator(problem: ScalarProblem) -> tuple[np.ndarray, np.ndarray]:
    """Diagonal and off-diagonal of S >= 0, the symmetrised generator of mu* with the opposite sign."""
    pull = problem.interaction * (problem.mean - problem.target)
    differences = np.diff(problem.external) + pull * np.diff(problem.feature)
    speed = problem.temperature / (problem.points[1] - problem.points[0]) ** 2
    right, left = _jump_rates(differences, problem.temperature, speed)
    main = np.zeros(problem.points.size)
    main[:-1] += right
    main[1:] += left
    return main, np.full(problem.points.size - 1, -speed)


def _gap(problem: ScalarProblem, masses: np.ndarray) -> float:
    """temperature KL(mu || mu*) + (interaction/2)(m - m*)^2, with KL as a sum of non-negative terms."""
    ratio = masses / problem.masses
    change = ratio - 1
    near = np.abs(change) < 1e-4
    terms = np.empty_like(ratio)
    c = change[near]
    terms[near] = c**2 * (0.5 - c / 6 + c**2 / 12)
    far = ratio[~near]
    terms[~near] = far * np.log(np.where(far > 0, far, 1.0)) - far + 1
    divergence = float(problem.masses @ terms)
    apart = float((masses - problem.masses) @ problem.feature)
    return problem.temperature * divergence + problem.interaction / 2 * apart**2
