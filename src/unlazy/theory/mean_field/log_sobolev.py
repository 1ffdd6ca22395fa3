"""The log-Sobolev constant of a law on the line, computed: the largest ratio of entropy to energy, and its bracket."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array

_OPTIONS = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-11, "gtol": 1e-7}


class LogSobolev(NamedTuple):
    """alpha of KL(mu|p) <= (alpha/2) I(mu|p), and what it lies between."""

    log_sobolev: float
    """The largest ratio that was found."""
    inverse_gap: float
    """One over the spectral gap, the ratio for mu close to p: alpha is never less."""
    lower_bound: float
    """That of Barthe and Roberto."""
    upper_bound: float
    """The same from above, proved: no maximum can have been overlooked beyond it."""


def log_sobolev_constant(points: ArrayLike, grid_masses: ArrayLike) -> LogSobolev:
    """The log-Sobolev constant alpha of a law on an equally spaced grid of the line, in KL <= (alpha/2) I.

        alpha = sup over f of Ent(f^2) / (2 E f'^2),     Ent(g) = E g log g - E g log E g

    The ratio is maximised by ascent with the inverse of the generator, in one pass over the grid, from the direction of
    the spectral gap and from functions that rise across one place and are flat elsewhere; errors are of the order
    spacing^2. The bracket holds whatever the ascent found: with the median m and tails P(x) of the law beyond x, alpha
    is between half of and twice the largest of P(x) log(1 + c/P(x)) int_m^x dt/p(t) over x on both sides, c = 1/2 below
    and e^2 above. Source: Barthe & Roberto (2003).

    >>> x = np.linspace(-8, 8, 801)
    >>> found = log_sobolev_constant(points=x, grid_masses=np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum())
    >>> print(f"{found.log_sobolev:.3f} {found.inverse_gap:.3f} {found.lower_bound:.2f} {found.upper_bound:.2f}")
    1.000 1.000 0.43 3.77
    """
    x = check_array("points", points, ndim=1)
    p = check_array("grid_masses", grid_masses, ndim=1, above=0)
    if x.size != p.size or x.size < 11 or not np.allclose(np.diff(x), x[1] - x[0], rtol=1e-6, atol=0) or x[1] <= x[0]:
        raise InputError(f"points must be 11 or more, increasing, equally spaced and one per mass, got {x.size}")
    p = p / p.sum()
    middle = int(np.searchsorted(np.cumsum(p), 0.5))
    chain = _Chain(p, (x[1] - x[0]) / (p[1:] * p[:-1]) ** 0.25, middle)
    slowest, inverse_gap = _slowest(chain)
    found = [_climbed(chain, start) for start in (slowest, -slowest, *_starts(chain))]
    return LogSobolev(max(inverse_gap, *found), inverse_gap, *_bracket(chain))


class _Chain(NamedTuple):
    """A law on a grid as a chain of jumps between neighbours, cut at its median.

    A function is its value at the median and its rises s over the jumps, each over the square root of the jump's
    resistance: its energy E f'^2 is then |s|^2, and sums go outwards, where nothing cancels.
    """

    masses: np.ndarray
    roots: np.ndarray
    """Of the resistances, spacing^2 over the geometric mean of the masses on both sides of a jump."""
    middle: int

    def function(self, rises: np.ndarray) -> np.ndarray:
        """0 at the median."""
        steps = rises * self.roots
        left, right = steps[: self.middle], steps[self.middle :]
        return np.concatenate([-np.cumsum(left[::-1])[::-1], [0.0], np.cumsum(right)])

    def pulled_back(self, pull: np.ndarray) -> np.ndarray:
        """The derivative in the rises, of that in the values of the function."""
        left, right = np.cumsum(pull[: self.middle]), np.cumsum(pull[: self.middle : -1])[::-1]
        return self.roots * np.concatenate([-left, right])

    def rises(self, f: np.ndarray) -> np.ndarray:
        return np.diff(f) / self.roots


def _slowest(chain: _Chain) -> tuple[np.ndarray, float]:
    """The rises of the function of the spectral gap, and one over the gap: the largest of variance over energy."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    def apply(rises: np.ndarray) -> np.ndarray:
        f = chain.function(np.ravel(rises))
        return chain.pulled_back(chain.masses * (f - chain.masses @ f))

    size = chain.roots.size
    values, vectors = eigsh(LinearOperator((size, size), matvec=apply, dtype=float), k=1, v0=np.ones(size))
    return vectors[:, 0], float(values[0])


def _starts(chain: _Chain) -> list[np.ndarray]:
    """Functions that are flat but for a rise from the median to one place, of either side the one best for them."""
    found = []
    heights = np.abs(chain.function(chain.roots))
    for side in (slice(chain.middle + 1, None), slice(None, chain.middle)):
        climb = np.zeros_like(heights)
        climb[side] = heights[side]
        tops = climb[side][:: max(1, climb[side].size // 50)]
        found.append(
            max((np.minimum(climb, top) for top in tops), key=lambda f: _excess(chain, chain.rises(f), 0.1)[0])
        )
    return [chain.rises(f) for f in found]


def _excess(chain: _Chain, rises: np.ndarray, value: float) -> tuple[float, np.ndarray, float]:
    """The logarithm of Ent(f^2)/(2 E f'^2), and its derivatives in the rises and in the value at the median."""
    f = chain.function(rises) + value
    square = float(chain.masses @ f**2)
    logs = np.log(np.maximum(f**2 / square, 1e-300))
    entropy, energy = float(chain.masses @ (f**2 * logs)), float(rises @ rises)
    pull = 2 * chain.masses * f * logs / entropy
    return float(np.log(entropy / (2 * energy))), chain.pulled_back(pull) - 2 * rises / energy, float(pull.sum())


def _climbed(chain: _Chain, rises: np.ndarray) -> float:
    """The ratio at the end of an ascent."""
    from scipy.optimize import minimize

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes, slope = _excess(chain, x[1:], x[0])
        return -value, -np.append(slope, slopes)

    f = chain.function(rises)
    scale = np.sqrt(chain.masses @ f**2)
    found = minimize(negative, np.append(1.0, rises / scale), jac=True, method="L-BFGS-B", options=_OPTIONS)
    return float(np.exp(-found.fun))


def _bracket(chain: _Chain) -> tuple[float, float]:
    """The bounds of Barthe and Roberto for Ent(f^2) <= C E f'^2, C = 2 alpha, over 2."""
    below, above = [], []
    for masses, resistances in (
        (chain.masses, chain.roots**2),
        (chain.masses[::-1], chain.roots[::-1] ** 2),
    ):
        beyond = np.cumsum(masses[::-1])[::-1]
        middle = int(np.searchsorted(-beyond, -0.5, side="right"))
        tails = beyond[middle:]
        climbs = np.concatenate([[0.0], np.cumsum(resistances[middle:])])[: len(tails)]
        below.append(float(np.max(tails * np.log1p(1 / (2 * tails)) * climbs)))
        above.append(float(np.max(tails * np.log1p(np.e**2 / tails) * climbs)))
    return max(below) / 2, 4 * max(above) / 2
