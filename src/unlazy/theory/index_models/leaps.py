"""Targets of several directions: how far gradient descent must leap from one to the next, and what that costs.

A polynomial of z_1, ..., z_r is a sum of terms h_{a_1}(z_1) ... h_{a_r}(z_r). What is known of some directions lets a
term show the others in it, at the price of their degrees: the leap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import hermite_rule
from unlazy.theory.index_models.diffusing_overlap import Motion, arrived_share, race_times

_LARGEST_GRID = 200_000
_VANISHING = 1e-9
_LARGEST = 1e8


class Leap(NamedTuple):
    """What the directions of a target cost, one after the other."""

    exponent: int
    """The largest leap that is needed to know all directions that the target depends on; 0 for a constant."""
    leaps: tuple[int, ...]
    """For every direction the largest leap up to it; 0 if the target does not depend on it."""
    samples_exponent: int
    """Online SGD needs d^this samples, up to logarithms."""


def leap_exponent(term_degrees: ArrayLike, coefficients: ArrayLike | None = None, *, label_powers: int = 1) -> Leap:
    """The leap of f = sum_i c_i prod_j h_{term_degrees[i, j]}(z_j), and the power of d in the samples of online SGD.

        leap = min over orders of the terms of max_i (degree of term i in directions that no earlier term has)
        n ~ d^max(leap - 1, 1)

    With `label_powers` = I the terms of f, f^2, ..., f^I count: what algorithms see that look at a sample twice, and so
    at functions of its label. The coefficients, 1 unless given, matter for powers alone. In these coordinates: another
    basis of the same directions may have smaller leaps, which are not looked for. Sources: Abbe, Boix-Adsera &
    Misiakiewicz (2023), Definition 1 and Theorem 1; Dandi et al. (2024) for labels that are seen twice.

    >>> leap_exponent(term_degrees=[[1, 0], [1, 3]])
    Leap(exponent=3, leaps=(1, 3), samples_exponent=2)
    >>> leap_exponent(term_degrees=[[1, 0], [1, 3]], label_powers=3).leaps
    (1, 1)
    """
    degrees = check_array("term_degrees", term_degrees, ndim=2, low=0, high=12, whole=True).astype(int)
    if not degrees.size:
        raise InputError("term_degrees must have a row for each term and a column for each direction, got none")
    factors = check_array("coefficients", np.ones(len(degrees)) if coefficients is None else coefficients, ndim=1)
    if factors.size != len(degrees):
        raise InputError(f"coefficients must be {len(degrees)} numbers, one for each term, got {factors.size}")
    powers = check_whole("label_powers", label_powers, 1, 6)
    shown = degrees[factors != 0] if powers == 1 else _terms_of_powers(degrees, factors, powers)
    count = degrees.shape[1]
    known, leaps, largest = np.zeros(count, bool), [0] * count, 0
    while True:
        new = [(int(term[~known].sum()), tuple(term)) for term in shown if term[~known].any()]
        if not new:
            break
        leap, term = min(new)
        largest = max(largest, leap)
        for place in np.flatnonzero(np.array(term) * ~known):
            leaps[place] = largest
        known |= np.array(term) > 0
    return Leap(largest, tuple(leaps), max(largest - 1, 1))


def _terms_of_powers(degrees: np.ndarray, factors: np.ndarray, powers: int) -> np.ndarray:
    """The terms that f, f^2, ... have, by exact quadrature."""
    most = degrees.max(axis=0)
    nodes = powers * most + 1
    if math.prod(nodes.tolist()) > _LARGEST_GRID:
        raise InputError(
            f"term_degrees must have lower degrees for label_powers = {powers}, got degrees up to {most.max()} in "
            f"{most.size} directions"
        )
    rules = [hermite_rule(int(count)) for count in nodes]
    values = [Hermite().values(points, int(powers * top)) for (points, _), top in zip(rules, most, strict=True)]
    label = np.zeros(nodes)
    for term, factor in zip(degrees, factors, strict=True):
        part = np.array(factor)
        for place, degree in enumerate(term):
            part = np.multiply.outer(part, values[place][degree])
        label = label + part
    found = []
    for power in range(1, powers + 1):
        moments = label**power
        for value, (_, weights) in zip(values, rules, strict=True):
            # the first axis is done and goes to the end
            moments = np.tensordot(moments, weights * value, axes=(0, 1))
        found.append(np.argwhere(np.abs(moments) > _VANISHING * np.abs(moments).max()))
    return np.unique(np.concatenate(found), axis=0)


def staircase_samples(leap: int, d: float, target_overlap: float, step_size: float, *, share: float = 0.5) -> float:
    """Samples until a share of the neurons, which know z_1, finds z_2 in y = z_1 + z_1 h_leap(z_2) by online SGD.

        u = (z_1 + <w, x>) 2^(-1/2),      w <- normalise(w + (step_size/d) y activation'(u) (x - <w, x> w))

    with activation h_(leap+1), x without its part along the first direction, w uniform on the sphere at the start. The
    overlap m of w with the second direction drifts by step_size S(m)/d in a step,

        S(m) = 2^(-leap/2) leap sqrt(leap + 1) m^(leap-1) (1 - m^2),

    against normalisation and diffusion with their values at m = 0: a Fokker-Planck equation, exact for d -> infinity at
    fixed step_size d^(max(leap - 2, 0)/2). Infinite if the share is not reached. Assumes 1 <= leap <= 6.

    >>> n = staircase_samples(leap=1, d=1000, target_overlap=0.5, step_size=0.05)
    >>> print(round(n, -3))
    12000.0
    """
    order = check_whole("leap", leap, 1, 6)
    dimension = float(check_array("d", d, ndim=0, low=4, high=_LARGEST))
    target = float(check_array("target_overlap", target_overlap, ndim=0, above=0, below=1))
    size = float(check_array("step_size", step_size, ndim=0, low=0, high=_LARGEST))
    part = float(check_array("share", share, ndim=0, above=0, below=1))
    if size == 0:
        return math.inf
    points, weights = hermite_rule(2 * order + 6)
    first, along, second = np.meshgrid(points, points, points, indexing="ij")
    law = np.einsum("i,j,k->ijk", weights, weights, weights)
    label = first * (1 + Hermite().values(second, order)[order])
    slope = math.sqrt(order + 1) * Hermite().values((first + along) / math.sqrt(2), order)[order]
    square = law * (label * slope) ** 2
    signal = np.zeros(order)
    signal[-1] = 2 ** (-order / 2) * order * math.sqrt(order + 1)
    push = size * np.polynomial.polynomial.polymul(signal, [1.0, 0.0, -1.0])
    drift = np.polynomial.polynomial.polysub(push, [0.0, size**2 / 2 * square.sum()])
    motion = Motion(drift, size**2 * float((square * second**2).sum()) / (2 * dimension))
    times = race_times(motion, dimension)
    arrived = arrived_share(motion, dimension - 1, target, times)
    return dimension * float(np.exp(np.interp(part, arrived, np.log(times)))) if arrived[-1] > part else math.inf
