"""First and second moments of two correlated normal numbers over a quarter of the plane, in closed form."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_FARTHEST = 1e3
_TINY = 1e-300


class OrthantMoments(NamedTuple):
    """E[f 1(x > h) 1(y > k)] of standard normal x, y with a given correlation, for f = 1, x, y, x^2 and x y."""

    chance: np.ndarray
    x: np.ndarray
    y: np.ndarray
    xx: np.ndarray
    xy: np.ndarray


def orthant_moments(h: np.ndarray, k: np.ndarray, correlation: np.ndarray, rest: np.ndarray) -> OrthantMoments:
    """The moments over x > h, y > k; `rest` is (1 - correlation^2)^(1/2) > 0, given apart because it may be tiny.

    With P, p the tail and density of a standard normal number, A = p(h) P((k - r h)/q), B = p(k) P((h - r k)/q) and
    C = p(h) p((k - r h)/q) q, where q is `rest`:

        E[x] = A + r B,   E[y] = r A + B,   E[x^2] = L + h A + r^2 k B + r C,   E[x y] = r L + r h A + r k B + C

    and L, the probability, by Owen's T. Exact to about 1e-16, not relative to L. Rosenbaum 1961.
    """
    from scipy.special import ndtr

    # a corner on an axis is moved to one side of it, the same in all terms
    h, k = (np.where(t == 0, _TINY, np.clip(t, -_FARTHEST, _FARTHEST)) for t in (h, k))
    across, along = (k - correlation * h) / rest, (h - correlation * k) / rest
    density_h, density_k = (np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) for t in (h, k))
    with np.errstate(over="ignore"):
        both = density_h * np.exp(-(across**2) / 2) / math.sqrt(2 * math.pi) * rest
    a, b = density_h * ndtr(-across), density_k * ndtr(-along)
    chance = _chance(h, k, across, along)
    return OrthantMoments(
        chance,
        a + correlation * b,
        correlation * a + b,
        chance + h * a + correlation**2 * k * b + correlation * both,
        correlation * (chance + h * a + k * b) + both,
    )


def _chance(h: np.ndarray, k: np.ndarray, across: np.ndarray, along: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr, owens_t

    with np.errstate(over="ignore"):
        found = (ndtr(-h) + ndtr(-k)) / 2 - owens_t(h, across / h) - owens_t(k, along / k) - (h * k < 0) / 2
    return np.clip(found, 0.0, 1.0)
