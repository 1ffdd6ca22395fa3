"""One gradient step on an index model, drawn exactly at a cost that does not depend on the dimension.

Of a step only its part in the plane of weight and direction is drawn, and the length of the rest, given its factors.
`unlazy.theory.index_models.first_steps` has what it is on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.functions.elementwise import Link
from unlazy.numerics.gaussian import normal_nodes

_NODES = 400
"""An even number, so that none is on the jump of a link or a slope at 0."""


class Gradients(NamedTuple):
    """One row for each pair of link and activation."""

    alignment: list[list[float]]
    """The squared cosine with the direction, averaged over disjoint sets of n samples, for every n."""
    gradient_signal: list[float]
    """The mean of y activation'(u) v over all samples, by how much it differs from that at the overlap 0.

    There the expectation is known: E[link(v) v] E[activation'(u)], and the noise nearly the same.
    """
    update_square: list[float]
    """The mean of y^2 activation'(u)^2."""


def first_gradients(
    rng: np.random.Generator, pairs: Sequence[tuple[Link, Link]], n: Sequence[int], d: int
) -> Gradients:
    """Gradients of the correlation loss at overlap d^(-1/2), from every number of samples of the increasing `n`."""
    most = int(n[-1])
    u, v = rng.standard_normal((2, most))
    places = [np.arange(0, most + 1, size) for size in n]
    rest = [rng.chisquare(d - 2, place.size - 1) for place in places]
    m = d**-0.5
    z = m * u + np.sqrt(1 - m**2) * v
    found = Gradients([], [], [])
    nodes, weights = normal_nodes(_NODES)
    for link, activation in pairs:
        slopes = activation.slope(u)
        factors = link(z) * slopes
        known = (weights @ (link(nodes) * nodes)) * (weights @ activation.slope(nodes))
        along, squares = (np.append(0.0, np.cumsum(terms)) for terms in (factors * v, factors**2))
        cosines = []
        for place, length in zip(places, rest, strict=True):
            signal = np.diff(along[place]) ** 2
            total = signal + np.diff(squares[place]) * length
            # a relu that no sample activates has no gradient
            cosines.append(np.divide(signal, total, out=np.zeros_like(total), where=total > 0).mean())
        found.alignment.append(cosines)
        found.gradient_signal.append(float(known + (factors - link(v) * slopes) @ v / most))
        found.update_square.append(squares[-1] / most)
    return found


def power_alignments(
    rng: np.random.Generator, link: Link, label_powers: Sequence[int], n: int, d: int, overlap: float
) -> list[list[float]]:
    """Squared cosines with the direction of the steps sum_a y_a^i x_a and sum_a y_a^i u_a x_a for every power i."""
    u, v = rng.standard_normal((2, n))
    z = overlap * u + np.sqrt(1 - overlap**2) * v
    y = link(z)
    found = []
    # a step that is blind to w may as well be measured along z itself
    for weight, along, dimensions in ((1.0, z, d - 1), (u, v, d - 2)):
        cosines = []
        for power in label_powers:
            factors = y**power * weight
            signal = (factors @ along) ** 2
            cosines.append(signal / (signal + factors @ factors * rng.chisquare(dimensions)))
        found.append(cosines)
    return found
