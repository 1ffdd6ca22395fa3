"""One gradient of the correlation loss on an index model: which part of it points along the direction.

    g = (1/n) sum_a T(y_a) s(u_a) x_a,      y = link(z), u = w.x, overlap m = w.theta

Its squared cosine with theta, without its part along w, is that of a signal S^2 and a noise (d-2) V/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.elementwise import Elementwise, Link, as_activation, as_link
from unlazy.functions.orthogonal import Hermite, coefficients
from unlazy.numerics.gaussian import normal_nodes
from unlazy.numerics.quadrature import hermite_rule

_DEGREE = 40
_NODES, _QUANTILES = 400, 60
_BLIND = 1e-9
"""What quadrature leaves of a coefficient that is 0, at most."""
_LARGEST_POWER_DEGREE = 200
_REFINEMENT = 2
_LARGEST = 1e300


class FirstGradient(NamedTuple):
    """Of the gradient at a weight of overlap d^(-1/2)."""

    alignment: np.ndarray
    """The mean squared cosine with the direction, in the shape of n."""
    gradient_signal: float
    """S = E[y activation'(u) v], v the part of x along theta orthogonal to w."""
    update_square: float
    """V = E[y^2 activation'(u)^2]."""


def first_gradient(
    link: str | Link | Elementwise, activation: str | Link | Elementwise, n: ArrayLike, d: int
) -> FirstGradient:
    """The gradient of one neuron at the overlap m = d^(-1/2) on n samples, d >= 3.

        S = sum_k k a_k b_k m^(k-1) (1-m^2)^(1/2),      alignment = E[A^2 / (A^2 + V X)]

    with the Hermite coefficients of link and activation, A normal with mean n^(1/2) S and variance
    Var[y activation'(u) v], and X chi-square with d-2 degrees of freedom: sums over samples are taken as normal, which
    needs many of them.

    >>> print(first_gradient("He2", "relu", n=[1e3, 1e5], d=50).alignment.round(3))
    [0.229 0.963]
    """
    from scipy.special import gammaincinv

    target, neuron = as_link(link), as_activation(activation)
    sizes = check_array("n", n, above=0, high=_LARGEST)
    d = check_whole("d", d, 3)
    roots, m = np.sqrt(sizes.reshape(-1)), d**-0.5
    orders = np.arange(1, _DEGREE + 1)
    own, its = (
        coefficients(f.value, Hermite(), _DEGREE, f.breakpoints, name=name).polynomial_coefficients
        for name, f in (("link", target), ("activation", neuron))
    )
    signal = float((orders * (own * its)[1:] * m ** (orders - 1)).sum()) * np.sqrt(1 - m**2)
    # an even number of points, so that none is on the jump of a link or a slope at 0
    points, weights = normal_nodes(_NODES)
    u, v = np.meshgrid(points, points, indexing="ij")
    measure = weights[:, None] * weights
    squares = (target(m * u + np.sqrt(1 - m**2) * v) * neuron.slope(u)) ** 2
    square = float((squares * measure).sum())
    variance = max(float((squares * v**2 * measure).sum()) - signal**2, 0.0)
    if not 0 < square < np.inf:
        raise InputError(f"activation must have a slope where link is not 0, got E[y^2 activation'(u)^2] = {square:g}")
    chance, share = normal_nodes(_QUANTILES)
    length = 2 * gammaincinv((d - 2) / 2, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    # over the noise, so that many samples do not overflow
    seen = ((roots[:, None, None] * signal + np.sqrt(variance) * chance[:, None]) / np.sqrt(square * length)) ** 2
    alignment = np.einsum("nij,i->n", seen / (1 + seen), share) / length.size
    return FirstGradient(alignment.reshape(sizes.shape)[()], signal, square)


def step_price(link: str | Link | Elementwise, label_powers: Sequence[int], overlap: float) -> np.ndarray:
    """V/S^2, the n/d at which a step with T = y^i has squared cosine 1/2, shape (2, powers); inf where it is blind.

    The linear step, s = 1, has S = E[T z] and V = E[T^2]; the quadratic one, s = u, m (1-m^2)^(1/2) E[T (z^2-1)] and
    E[T^2 (1 + m^2 (z^2-1))], m = `overlap`. Exact for polynomial links, of degree times power at most 200.

    >>> print(step_price("He3", label_powers=[1, 2, 3], overlap=0.3).round(1))
    [[  inf   inf 110.6]
     [  inf  72.2   inf]]
    """
    target, m = as_link(link), float(check_array("overlap", overlap, low=-1, high=1, ndim=0))
    powers = check_array("label_powers", label_powers, low=1, whole=True, ndim=1).astype(int).tolist()
    z, weights = _points(target, max(powers))
    y = np.asarray(target(z), float)
    y = y / (np.abs(y).max() or 1.0)
    found = np.full((2, len(powers)), np.inf)
    steps = ((z, np.ones_like(z), 1.0), (z**2 - 1, 1 + m**2 * (z**2 - 1), m * np.sqrt(1 - m**2)))
    for row, (seen, weight, factor) in enumerate(steps):
        for column, power in enumerate(powers):
            # a factor of T does not matter, and the points that count have powers of order one
            transformed = y**power
            scale = np.sqrt((transformed**2 * weights) @ weight)
            if not scale > 0:
                continue
            transformed = transformed / scale
            signal = factor * float((transformed * weights) @ seen)
            if abs(signal) > _BLIND * float(np.abs(transformed * seen) @ weights):
                with np.errstate(over="ignore", divide="ignore"):
                    found[row, column] = np.divide(1.0, signal**2)
    return found


def _points(link: Link, power: int) -> tuple[np.ndarray, np.ndarray]:
    """A rule for averages of link^(2 power) z^2 over z."""
    if link.hermite_coefficients is None:
        if power > _LARGEST_POWER_DEGREE:
            raise InputError(f"label_powers must be at most {_LARGEST_POWER_DEGREE}, got {power}")
        return Hermite().grid(_REFINEMENT, link.breakpoints)
    degree = max((k for k, a in enumerate(link.hermite_coefficients) if a != 0), default=0)
    if degree * power > _LARGEST_POWER_DEGREE:
        raise InputError(
            f"label_powers must keep degree * power <= {_LARGEST_POWER_DEGREE}, got {degree} * {power} = "
            f"{degree * power}"
        )
    return hermite_rule(degree * power + 2)
