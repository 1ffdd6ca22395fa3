"""One gradient of the correlation loss on an index model: which part of it points along the direction.

    g = (1/n) sum_a T(y_a) s(u_a) x_a,      y = link(z), u = w.x, overlap m = w.theta

Its squared cosine with theta, without its part along w, is that of a signal S^2 and a noise (d-2) V/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, check_whole
from unlazy.functions.elementwise import Link
from unlazy.functions.elementwise import as_link as named
from unlazy.functions.orthogonal import Hermite, coefficients
from unlazy.numerics.gaussian import normal_nodes

_DEGREE = 40
_NODES, _QUANTILES = 400, 60
_BLIND = 1e-9
"""What quadrature leaves of a coefficient that is 0, at most."""


class FirstGradient(NamedTuple):
    """Of the gradient at a weight of overlap d^(-1/2)."""

    alignment: np.ndarray
    """The mean squared cosine with the direction, in the shape of n."""
    signal: float
    """S = E[y student'(u) v], v the part of x along theta orthogonal to w."""
    size: float
    """V = E[y^2 student'(u)^2]."""


def first_gradient(link: str | Link, student: str | Link, n: ArrayLike, d: int) -> FirstGradient:
    """The gradient of one neuron at the overlap m = d^(-1/2) on n samples, d >= 3.

        S = sum_k k a_k b_k m^(k-1) (1-m^2)^(1/2),      alignment = E[A^2 / (A^2 + V X)]

    with the Hermite coefficients of link and student, A normal with mean n^(1/2) S and variance Var[y student'(u) v],
    and X chi-square with d-2 degrees of freedom: sums over samples are taken as normal, which needs many of them.
    """
    from scipy.special import gammaincinv

    link, student = named(link), named(student)
    sizes = check_array("n", n, above=0)
    d = check_whole("d", d, 3)
    n, m = sizes.reshape(-1), d**-0.5
    orders = np.arange(1, _DEGREE + 1)
    own, its = (coefficients(f.value, Hermite(), _DEGREE, f.breakpoints).values for f in (link, student))
    signal = float((orders * (own * its)[1:] * m ** (orders - 1)).sum()) * np.sqrt(1 - m**2)
    # an even number of points, so that none is on the jump of a student or link at 0
    points, weights = normal_nodes(_NODES)
    u, v = np.meshgrid(points, points, indexing="ij")
    measure = weights[:, None] * weights
    squares = (link(m * u + np.sqrt(1 - m**2) * v) * student.slope(u)) ** 2
    size, width = float((squares * measure).sum()), float((squares * v**2 * measure).sum()) - signal**2
    chance, share = normal_nodes(_QUANTILES)
    length = 2 * gammaincinv((d - 2) / 2, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    seen = (np.sqrt(n)[:, None, None] * signal + np.sqrt(width) * chance[:, None]) ** 2
    cosines = seen / (seen + size * length)
    alignment = np.einsum("nij,i->n", cosines, share) / length.size
    return FirstGradient(alignment.reshape(sizes.shape)[()], signal, size)


def step_price(link: str | Link, powers: Sequence[int], overlap: float, *, reach: float = 24.0) -> np.ndarray:
    """V/S^2, the n/d at which a step with T = y^i has squared cosine 1/2, shape (2, powers); inf where it is blind.

    The linear step, s = 1, has S = E[T z] and V = E[T^2]; the quadratic one, s = u, m (1-m^2)^(1/2) E[T (z^2-1)] and
    E[T^2 (1 + m^2 (z^2-1))], m = `overlap`. By the trapezoidal rule on |z| <= reach, for polynomial links.
    """
    powers = [check_whole("powers", power, 1) for power in powers]
    overlap = float(check_array("overlap", overlap, low=-1, high=1, ndim=0))
    reach = float(check_array("reach", reach, above=0, ndim=0))
    z = np.linspace(-reach, reach, 20_001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    y, m = named(link)(z), overlap
    found = np.full((2, len(powers)), np.inf)
    steps = ((z, np.ones_like(z), 1.0), (z**2 - 1, 1 + m**2 * (z**2 - 1), m * np.sqrt(1 - m**2)))
    for row, (seen, weight, factor) in enumerate(steps):
        for column, power in enumerate(powers):
            transformed = y**power
            signal = factor * float((transformed * density) @ seen)
            if abs(signal) > _BLIND * float(np.abs(transformed * seen) @ density):
                found[row, column] = float((transformed**2 * density) @ weight) / signal**2
    return found
