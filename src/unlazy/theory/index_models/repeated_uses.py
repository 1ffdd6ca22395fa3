"""Online SGD that takes several steps on each example, by a neuron relu(u)^2: r uses show powers of the label up to r.

The slope of relu(u)^2 is 2 relu(u), of which a step on the example only changes the size. The j-th of r steps therefore
has the gradient 2 y relu(u) (1 + 2 s y)^(j-1), as long as 1 + 2 s y > 0, and all of them together act as one step on
the transformed label

    T(y) = y (1 + f + ... + f^(r-1)) / r,      f = max(1 + 2 s y, 0).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, check_whole
from unlazy.functions.elementwise import Link, as_link
from unlazy.numerics.quadrature import panels
from unlazy.theory.index_models.online_sgd import Drift

_REACH, _PIECES, _POINTS = 5.5, 44, 12
_PANELS, _NODES = 24, 8


def repeated_drift(link: str | Link, overlap: ArrayLike, uses: int, reuse_step_size: float) -> Drift:
    """Pull S(m) and square V(m) of the update psi = 2 T(y) relu(u).

        S(m) = E[psi (z - m u)] = (1 - m^2) sum_k k E[T h_k] E[relu^2 h_k] m^(k-1),      V(m) = E psi^2

    The link is smooth between its breakpoints, |m| < 1, and `reuse_step_size` is s. Given z, u is normal with mean m z
    and variance 1 - m^2: closed forms, and a quadrature over |z| <= 5.5. Further inputs, one in twenty million, are
    left out: labels of polynomials are so large there that they would decide V, and simulations do not see them. Exact
    for the others as d grows at fixed n/d. `uses` r is from 1 to 3.

    >>> found = repeated_drift("He3", overlap=[0.0, 0.2], uses=2, reuse_step_size=0.1)
    >>> print(found.pull.round(3), found.update_square.round(2))
    [0.032 0.164] [3.73 8.35]
    """
    from scipy.special import ndtr

    m = check_array("overlap", overlap, above=-1, below=1)[..., None]
    step_size = float(check_array("reuse_step_size", reuse_step_size, ndim=0, low=0, high=1e3))
    z, weights, transformed = _labels(as_link(link), check_whole("uses", uses, 1, 3), step_size)
    deviation = np.sqrt((1 - m) * (1 + m))
    tail = ndtr(m * z / deviation)
    density = np.exp(-((m * z / deviation) ** 2) / 2) / math.sqrt(2 * math.pi)
    # E relu(u) and E relu(u)^2 given z
    first = m * z * tail + deviation * density
    square = (m**2 * z**2 + deviation**2) * tail + m * z * deviation * density
    pull = 2 * (z * first - m * square) @ (weights * transformed)
    return Drift(pull, 4 * square @ (weights * transformed**2))


def repeated_time(
    link: Link, step_size: float, uses: int, reuse_step_size: float, start_overlap: float, target_overlap: float
) -> float:
    """The samples per dimension t = n/d at which dm/dt = gamma S(m) - gamma^2 m V(m) / 2 gets from start to target.

    0 < start < target < 1. Infinite where the velocity is not positive on the way.
    """
    edges = np.geomspace(start_overlap, target_overlap, _PANELS + 1)
    overlaps, lengths = panels(edges, _NODES)
    pull, square = repeated_drift(link, overlaps, uses, reuse_step_size)
    speed = step_size * pull - step_size**2 * overlaps * square / 2
    return float(np.sum(lengths / speed)) if (speed > 0).all() else math.inf


@lru_cache(maxsize=16)
def _labels(link: Link, uses: int, reuse_step_size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edges = np.union1d(np.linspace(-_REACH, _REACH, _PIECES + 1), link.breakpoints)
    z, weights = panels(edges, _POINTS)
    weights = weights * np.exp(-(z**2) / 2)
    label = np.asarray(link(z), float)
    factor = np.maximum(1 + 2 * reuse_step_size * label, 0.0)
    return z, weights / weights.sum(), label * np.mean([factor**j for j in range(uses)], axis=0)
