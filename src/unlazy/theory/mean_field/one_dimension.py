"""A one-dimensional mean-field problem on a grid with its optimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_whole
from unlazy.numerics.roots import ConvergenceError, scalar_minimum, scalar_root
from unlazy.theory.mean_field.grid import called

Function = Callable[[np.ndarray], np.ndarray]
_DEVIATIONS = 8.5
_WIDE = 10
_COARSE = 0.02
# Cells whose potential is this many temperatures above the lowest do not matter for any rate that rounding leaves.
_HIGH = 40.0
_START, _MOST, _FINEST = 401, 100_000, 500_000
# Numbers whose squares and quotients do not overflow.
_LARGEST = 1e60


class ScalarProblem(NamedTuple):
    """A one-dimensional problem on a grid, with its optimum."""

    points: np.ndarray
    """The grid, equally spaced."""
    external_potential: np.ndarray
    """confinement x^2 + V(x) on it."""
    feature_values: np.ndarray
    """phi on it."""
    interaction: float
    target_mean: float
    temperature: float
    feature_mean: float
    """m = int phi dmu*."""
    grid_masses: np.ndarray
    """mu* on the grid; the density is grid_masses / spacing."""
    free_energy: float
    """L*, the least free energy."""
    energy: float
    """F*."""
    confinement: float
    oscillation: float
    """sup - inf of V + interaction (m - target_mean) phi, what is not the confinement in the first variation."""
    oscillation_sum: float
    """The sum of the oscillations of its two parts, which is larger."""
    interpolation_error: float
    """The largest error of linear interpolation of the first variation on the grid, over the temperature."""
    potential: Function
    """V."""
    feature: Function
    """phi."""


def scalar_problem(
    potential: Function,
    feature: Function,
    *,
    interaction: float,
    target_mean: float,
    confinement: float,
    temperature: float,
    grid_points: int | None = None,
    half_width: float | None = None,
) -> ScalarProblem:
    """The optimum of F = int (confinement x^2 + V) dmu + (interaction/2)(int phi dmu - target_mean)^2 plus entropy.

    mu* ~ exp(-(confinement x^2 + V + interaction (m - target_mean) phi)/temperature) with m = int phi dmu*, the root of
    a decreasing function. `potential` is V, bounded; `feature` is phi. Without `half_width` the box starts at 8.5
    standard deviations of the confinement and grows until the density at its ends is below 1e-15 of its maximum; a
    given one is refused above 1e-9. Without `grid_points` the grid has 401 and more until it resolves the potential:
    linear interpolation between its points is wrong by at most 0.02 temperatures, which leaves about 1.5% in the rates
    of the grid. A given number that does not is refused. The oscillations are taken over a ten times wider box, on a
    grid that is dense around 0, with a search around the extremes.

    >>> found = scalar_problem(
    ...     lambda x: np.exp(-2 * x**2), np.tanh, interaction=2, target_mean=0.3, confinement=0.2, temperature=0.3
    ... )
    >>> print(f"{found.free_energy:.4f} {found.feature_mean:.4f}")
    0.1004 0.2402
    """
    interaction = float(check_array("interaction", interaction, low=0, high=_LARGEST, ndim=0))
    target_mean = float(check_array("target_mean", target_mean, low=-_LARGEST, high=_LARGEST, ndim=0))
    confinement = float(check_array("confinement", confinement, above=1 / _LARGEST, high=_LARGEST, ndim=0))
    temperature = float(check_array("temperature", temperature, above=1 / _LARGEST, high=_LARGEST, ndim=0))
    count = _START if grid_points is None else check_whole("grid_points", grid_points, 11, _MOST)
    fixed = (
        None
        if half_width is None
        else float(check_array("half_width", half_width, above=1 / _LARGEST, high=_LARGEST, ndim=0))
    )
    half = _DEVIATIONS * np.sqrt(temperature / (2 * confinement)) if fixed is None else fixed
    bare = ScalarProblem(
        points=np.zeros(0),
        external_potential=np.zeros(0),
        feature_values=np.zeros(0),
        interaction=interaction,
        target_mean=target_mean,
        temperature=temperature,
        feature_mean=np.nan,
        grid_masses=np.zeros(0),
        free_energy=np.nan,
        energy=np.nan,
        confinement=confinement,
        oscillation=np.nan,
        oscillation_sum=np.nan,
        interpolation_error=np.nan,
        potential=potential,
        feature=feature,
    )
    for _ in range(20):
        problem = on_points(bare, np.linspace(-half, half, count))
        share = max(problem.grid_masses[0], problem.grid_masses[-1]) / problem.grid_masses.max()
        if share < (1e-15 if fixed is None else 1e-9):
            break
        if fixed is not None:
            raise ConvergenceError(
                f"half_width = {fixed:g} cuts the optimum off: its density at the ends is {share:.2g} of its maximum"
            )
        half *= 1.3
    else:
        raise ConvergenceError(f"the box grew to half width {half:g} and still cuts the optimum off")
    while problem.interpolation_error > _COARSE or problem.grid_masses @ problem.grid_masses > 1 / 3:
        if grid_points is not None:
            if problem.grid_masses @ problem.grid_masses > 1 / 3:
                raise ConvergenceError(
                    f"grid_points = {grid_points} do not resolve the optimum, which covers less than three cells"
                )
            raise ConvergenceError(
                f"grid_points = {grid_points} do not resolve the potential: between points "
                f"{2 * half / (grid_points - 1):.2g} apart it differs from a straight line by "
                f"{problem.interpolation_error:.2g} temperatures, at most {_COARSE:g} are allowed; take more points"
            )
        problem = refined(problem)
    pull = interaction * (problem.feature_mean - target_mean)
    x = _probes(half, count, _WIDE)

    def swing(function: Function) -> float:
        return _supremum(function, x) + _supremum(lambda at: -function(at), x)

    def pushed(at: np.ndarray) -> np.ndarray:
        return pull * values_on("feature", feature, at)

    def bounded(at: np.ndarray) -> np.ndarray:
        return values_on("potential", potential, at)

    return problem._replace(
        oscillation=swing(lambda at: bounded(at) + pushed(at)), oscillation_sum=swing(bounded) + swing(pushed)
    )


def refined(problem: ScalarProblem) -> ScalarProblem:
    """The same problem with half the spacing; its oscillations are kept."""
    count = 2 * problem.points.size - 1
    if count > _FINEST:
        raise ConvergenceError(
            f"{problem.points.size} points leave an error of {problem.interpolation_error:.2g} temperatures in the "
            f"potential, and more than {_FINEST} are not tried"
        )
    return on_points(problem, np.linspace(problem.points[0], problem.points[-1], count))


def on_points(problem: ScalarProblem, x: np.ndarray) -> ScalarProblem:
    """The problem with the optimum on other points."""
    interaction, target, temperature = problem.interaction, problem.target_mean, problem.temperature

    def outside(at: np.ndarray) -> np.ndarray:
        return problem.confinement * at**2 + values_on("potential", problem.potential, at)

    external, phi = outside(x), values_on("feature", problem.feature, x)
    mean, masses, log_total = _optimal_mean(external, phi, interaction, target, temperature)
    pull = interaction * (mean - target)
    energy = float(masses @ external) + interaction / 2 * (mean - target) ** 2
    # Ent = -E[first variation]/temperature - log Z
    entropy = -(float(masses @ external) + pull * mean) / temperature - log_total - np.log(x[1] - x[0])
    probes = _probes(x[-1], x.size, 1)
    variation = outside(probes) + pull * values_on("feature", problem.feature, probes)
    straight = np.interp(probes, x, external + pull * phi)
    # either may be the one that sees a bump
    matters = np.minimum(variation, straight) - min(variation.min(), straight.min()) < _HIGH * temperature
    return problem._replace(
        points=x,
        external_potential=external,
        feature_values=phi,
        feature_mean=mean,
        grid_masses=masses,
        free_energy=energy + temperature * entropy,
        energy=energy,
        interpolation_error=float(np.abs(variation - straight)[matters].max()) / temperature,
    )


def values_on(name: str, function: Function, x: np.ndarray) -> np.ndarray:
    """The values of a user's function, one per point."""
    values = check_array(name, called(name, function, x))
    if values.shape != x.shape:
        raise InputError(f"{name} must give one number per point, got shape {values.shape} for {x.shape}")
    return values


def _probes(half: float, count: int, wide: int) -> np.ndarray:
    """Points at a quarter of the spacing in the box, at the spacing in one `wide` times as large, and dense around 0.

    A box at a high temperature may be much wider than what the potential has in the middle.
    """
    octaves = half * 2.0 ** np.arange(-24, np.log2(wide) + 1 / 64, 1 / 32)
    inner, outer = (
        np.linspace(-half, half, 4 * (count - 1) + 1),
        np.linspace(-wide * half, wide * half, wide * count | 1),
    )
    return np.unique(np.concatenate([-octaves, [0.0], octaves, inner, outer]).clip(-wide * half, wide * half))


def _supremum(function: Function, x: np.ndarray) -> float:
    """The largest value on increasing points x and, by search, between the neighbours of the largest ones."""
    values = function(x)
    largest = float(values.max())
    peaks = np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:])) + 1
    for peak in peaks[np.argsort(values[peaks])[-3:]]:
        if values[peak - 1] == values[peak] == values[peak + 1]:
            continue
        low, high = x[peak - 1], x[peak + 1]
        _, least = scalar_minimum(lambda at: -float(function(np.array([at]))[0]), low, high, 1e-6 * (high - low))
        largest = max(largest, -least)
    return largest


def _optimal_mean(
    external: np.ndarray, phi: np.ndarray, interaction: float, target: float, temperature: float
) -> tuple[float, np.ndarray, float]:
    """m, the masses of mu* and log of the sum of exponentials."""

    def law(m: float) -> tuple[np.ndarray, float]:
        exponent = -(external + interaction * (m - target) * phi) / temperature
        top = exponent.max()
        masses = np.exp(exponent - top)
        total = float(masses.sum())
        return masses / total, float(top) + float(np.log(total))

    low, high = float(phi.min()), float(phi.max())
    mean = low
    if high > low:
        size = max(abs(low), abs(high), 1)
        # a law at one end of phi has a mean beyond it by rounding
        ends = low - 1e-12 * size, high + 1e-12 * size
        mean = scalar_root(lambda m: float(law(m)[0] @ phi) - m, *ends, 1e-15 * size)
    masses, log_total = law(mean)
    # The mean of the law itself, so that what is orthogonal to constants is so to rounding.
    return float(masses @ phi), masses, log_total
