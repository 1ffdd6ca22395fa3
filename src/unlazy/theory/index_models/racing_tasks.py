"""Random starts in an additive index model: when a neuron arrives at one of the tasks, and at which.

    y = M^(-1/2) sum_l a_l link(<x, theta_l>) + noise,      updates as in `theory.index_models.additive`

While all overlaps are small they do not see each other: each is a diffusion of its own from a random start, and the
task whose overlap grows first takes the neuron. So the chance that no task has arrived is a product of M survival
functions, each from a Fokker-Planck equation in one dimension. Sources: Oko, Song, Suzuki & Wu (2024), for the
algorithm; the race is this project's.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.functions.elementwise import as_link
from unlazy.numerics.quadrature import hermite_rule
from unlazy.theory.index_models.additive import LinkLike, hermite_polynomial
from unlazy.theory.index_models.diffusing_overlap import Motion, arrived_share, race_times

_LARGEST = 1e8


class TaskRace(NamedTuple):
    """When a share of the neurons has arrived at some task, and where they are."""

    n: float
    """Samples until then; infinite if that does not come."""
    chances: np.ndarray
    """The chance that a neuron which has arrived by then is at task l, (M,); nan if n is infinite."""


def task_race(
    link: LinkLike,
    d: float,
    strengths: ArrayLike,
    target_overlap: float,
    step_size: float,
    noise_variance: float = 0.0,
    *,
    share: float = 0.5,
    activation: LinkLike | None = None,
) -> TaskRace:
    """Samples until a share of the neurons has the target overlap with one of M tasks, from uniform random starts.

        share = 1 - prod_l S_l(n/d),      S_l(t) = P(overlap l stays below the target up to t)
        dm = (step_size a_l M^(-1/2) P(m) (1 - m^2) - (step_size^2/2) m V(m)) dt + step_size sqrt(W (1 - m^2)/d) dB
        P(m) = sum_j j a_j b_j m^(j-1),      V(m) = E[y^2 activation'(u)^2],      W = E[activation'^2] E[y^2 z_l^2]

    with a_l the M `strengths`. Polynomials; links of mean 0 that with this activation have information exponent >= 3;
    M <= d. Exact for d -> infinity at fixed M and step_size d^((k-2)/2), where all that is slow happens at overlaps of
    order d^(-1/2), for M = 1 too: there diffusion takes half of the neurons across 0. At finite d tasks that grow
    together slow each other down, which is left out (some 20% of n at d = 100 and M = 64).

    >>> race = task_race("He3", d=100, strengths=[1, 1, 0.5], target_overlap=0.5, step_size=0.03)
    >>> print(round(race.n, -2), race.chances.round(2))
    21900.0 [0.45 0.45 0.11]
    """
    dimension, target, size, noise = (
        float(check_array(name, value, ndim=0, **bounds))
        for name, value, bounds in (
            ("d", d, {"low": 4, "high": _LARGEST}),
            ("target_overlap", target_overlap, {"above": 0, "below": 1}),
            ("step_size", step_size, {"low": 0, "high": _LARGEST}),
            ("noise_variance", noise_variance, {"low": 0, "high": _LARGEST}),
        )
    )
    part = float(check_array("share", share, ndim=0, above=0, below=1))
    factors = check_array("strengths", strengths, ndim=1, low=0, high=_LARGEST)
    if not 1 <= factors.size <= dimension:
        raise InputError(f"strengths must be between 1 and d = {dimension:g} numbers, got {factors.size}")
    unequal, where, counts = np.unique(factors, return_inverse=True, return_counts=True)
    motions = _motions(link, activation, unequal, counts, dimension, size, noise)
    never = TaskRace(math.inf, np.full(factors.size, math.nan))
    if size == 0 or not unequal[-1]:
        return never
    times = race_times(motions[-1], dimension)
    hazards = np.array([-np.log1p(-arrived_share(motion, dimension, target, times)) for motion in motions])
    total = counts @ hazards
    level = -math.log1p(-part)
    if total[-1] < level:
        return never
    end = float(np.exp(np.interp(level, total, np.log(times))))
    grid = np.append(times[times < end], end)
    until = np.array([np.append(row[times < end], np.interp(end, times, row)) for row in hazards])
    alive = np.exp(-(counts @ until))
    # of a hazard that rises from one time to the next, what is left on average
    arrivals = np.diff(until, axis=1, prepend=0.0) * (alive + np.append(1.0, alive[:-1])) / 2
    chances = arrivals.sum(axis=1)
    return TaskRace(dimension * float(grid[-1]), (chances / (counts @ chances))[where])


def _motions(
    link: LinkLike,
    activation: LinkLike | None,
    unequal: np.ndarray,
    counts: np.ndarray,
    d: float,
    size: float,
    noise: float,
) -> list[Motion]:
    """One for each strength; those of the others count by their squares."""
    pupil = link if activation is None else activation
    a, b = hermite_polynomial("link", link), hermite_polynomial("activation", pupil)
    most = min(a.size, b.size)
    signal = np.arange(most) * a[:most] * b[:most]
    if a[0] or signal[1:3].any() or not signal.any():
        raise InputError("link must have mean 0 and, with this activation, information exponent >= 3")
    points, weights = hermite_rule(2 * max(a.size, b.size) + 2)
    slopes, values = np.asarray(as_link(pupil).slope(points)) ** 2, np.asarray(as_link(link)(points)) ** 2
    slope, square, along = weights @ slopes, weights @ values, weights @ (values * points**2)
    tasks = counts.sum()
    everything = counts @ unequal**2 / tasks
    found = []
    for strength in unequal:
        own = strength**2 / tasks
        spread = slope * ((everything - own) * square + own * along + noise)
        friction = slope * (everything * square + noise)
        push = np.polynomial.polynomial.polymul(signal[1:], [1.0, 0.0, -1.0]) * strength / math.sqrt(tasks)
        drift = np.polynomial.polynomial.polysub(size * push, [0.0, size**2 / 2 * friction])
        found.append(Motion(drift, size**2 * spread / (2 * d)))
    return found
