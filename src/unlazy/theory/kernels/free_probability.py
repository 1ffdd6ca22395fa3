"""Free probability: laws by their Stieltjes transforms, and the laws of sums of free matrices.

    G(z) = E 1/(z - x),   R(g) = G^-1(g) - 1/g,   density(x) = -Im G(x + i0) / pi

The eigenvalues of A + B for large matrices in generic position (free: the eigenvectors of one are uniform with respect
to those of the other) depend on the eigenvalues of A and B alone: R adds up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.numerics.roots import ConvergenceError

_CHANGE = 1e-13
_UNDAMPED_ITERATIONS = 50
_MOST_ITERATIONS = 20_000


class Law(ABC):
    """A probability law on the real line, known by its Stieltjes transform."""

    @abstractmethod
    def stieltjes(self, z: ArrayLike) -> Any:
        """G(z) for z off the support, in particular for Im z > 0, where Im G < 0."""


@dataclass(frozen=True)
class Semicircle(Law):
    """The law of a symmetric matrix with independent entries of variance v/n (Wigner), on [-2 sqrt(v), 2 sqrt(v)].

    G = (z - sqrt(z - 2 sqrt(v)) sqrt(z + 2 sqrt(v))) / (2 v),      R = v g,      v = `second_moment`
    """

    second_moment: float = 1.0

    def __post_init__(self) -> None:
        check_array("second_moment", self.second_moment, above=0, ndim=0)

    def stieltjes(self, z: ArrayLike) -> Any:
        z = _points(z)
        # 2 / (z + root) instead of (z - root) / (2 v), which cancels for large z
        return 2 / (z + _root(z, -2 * np.sqrt(self.second_moment), 2 * np.sqrt(self.second_moment)))


@dataclass(frozen=True)
class MarchenkoPastur(Law):
    """The law of scale (1/N) Y Y^T, Y n x N with independent standard entries, n/N = phi (`aspect_ratio`).

        G = (z + phi - 1 - sqrt(z - e_-) sqrt(z - e_+)) / (2 phi z),     e = (1 +- sqrt(phi))^2,      for scale 1,
        R = 1 / (1 - phi g)

    with mean 1, variance phi, free cumulants phi^(s-1) and the atom 1 - 1/phi at 0 for phi > 1. A negative scale
    mirrors it. The free Poisson law of rate r and jump j has aspect_ratio 1/r and scale r j.
    """

    aspect_ratio: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_array("aspect_ratio", self.aspect_ratio, above=0, ndim=0)
        if not float(check_array("scale", self.scale, ndim=0)):
            raise InputError("scale must not be 0")

    def stieltjes(self, z: ArrayLike) -> Any:
        z = _points(z) / self.scale
        shifted = z + self.aspect_ratio - 1
        root = _root(z, (1 - np.sqrt(self.aspect_ratio)) ** 2, (1 + np.sqrt(self.aspect_ratio)) ** 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            # (shifted + root) (shifted - root) = 4 phi z: the factor that does not cancel
            values = np.where(
                np.abs(shifted + root) >= np.abs(shifted - root),
                2 / (shifted + root),
                (shifted - root) / (2 * self.aspect_ratio * z),
            )
        return values[()] / self.scale


class Discrete(Law):
    """Atoms at `locations` with probabilities, equal ones unless given: G = sum_j p_j / (z - x_j)."""

    def __init__(self, locations: ArrayLike, probabilities: ArrayLike | None = None) -> None:
        self.locations = check_array("locations", locations, ndim=1)
        size = self.locations.size
        given = np.full(size, 1 / size) if probabilities is None else probabilities
        self.probabilities = check_array("probabilities", given, low=0, ndim=1)
        if self.probabilities.size != size:
            raise InputError(f"probabilities must be {size} numbers like locations, got {self.probabilities.size}")
        if abs(self.probabilities.sum() - 1) > 1e-9:
            raise InputError(f"probabilities must add up to 1, got {self.probabilities.sum():g}")

    def stieltjes(self, z: ArrayLike) -> Any:
        return np.sum(self.probabilities / (_points(z)[..., None] - self.locations), axis=-1)


@dataclass(frozen=True)
class FreeSum(Law):
    """The law of A + B for free A and B (additive free convolution), for z off the real line.

        w = z + H_2(z + H_1(w)),   H_i(w) = 1/G_i(w) - w,   G(z) = G_1(w)

    The map takes the upper half plane into itself, so that iterating it converges for every Im z > 0, fast if Im z is
    not small. Source: Belinschi & Bercovici (2007).
    """

    first_law: Law
    second_law: Law

    def stieltjes(self, z: ArrayLike) -> Any:
        z = _points(z)
        if (z.imag == 0).any():
            raise InputError(f"z must not be real, got {z[z.imag == 0].flat[0].real:g}")
        upper = np.where(z.imag > 0, z, z.conj())

        def step(w: np.ndarray, z: np.ndarray) -> np.ndarray:
            return z + _shift(self.second_law, z + _shift(self.first_law, w))

        found = self.first_law.stieltjes(_fixed_point(step, upper))
        return np.where(z.imag > 0, found, np.conj(found))[()]


def moments_from_free_cumulants(free_cumulants: ArrayLike) -> np.ndarray:
    """m_1, ..., m_n from the free cumulants kappa_1, ..., kappa_n, the coefficients of R(g) = sum_s kappa_s g^(s-1).

    m_n = sum_s kappa_s sum_{i_1 + ... + i_s = n - s} m_{i_1} ... m_{i_s},    m_0 = 1     (Speicher 1994)

    >>> print(moments_from_free_cumulants(free_cumulants=[1, 1, 1, 1]))
    [ 1. 2. 5. 14.]
    """
    kappa = check_array("free_cumulants", free_cumulants, ndim=1)
    moments = np.ones(1)
    for n in range(1, kappa.size + 1):
        moments = np.append(moments, _products(moments, n) @ kappa[:n])
    return moments[1:]


def _products(moments: np.ndarray, n: int) -> np.ndarray:
    """The sum of m_{i_1} ... m_{i_s} over i_1 + ... + i_s = n - s, for s = 1, ..., n."""
    power, found = np.ones(1), []
    for s in range(1, n + 1):
        power = np.convolve(power, moments[:n])[:n]
        found.append(power[n - s])
    return np.array(found)


def _shift(law: Law, w: np.ndarray) -> np.ndarray:
    return 1 / law.stieltjes(w) - w


def _fixed_point(step: Callable[[np.ndarray, np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
    """w = step(w, start), iterated from w = start."""
    parameter = start.reshape(-1)
    w = parameter.copy()
    active = np.arange(w.size)
    for iteration in range(_MOST_ITERATIONS):
        old = w[active]
        new = step(old, parameter[active])
        moving = ~(np.abs(new - old) <= _CHANGE * np.abs(new))
        # beyond some iterations the map may turn around its fixed point
        w[active] = (old + new) / 2 if iteration >= _UNDAMPED_ITERATIONS else new
        active = active[moving]
        if not active.size:
            return w.reshape(start.shape)
    raise ConvergenceError(
        f"no convergence in {_MOST_ITERATIONS} iterations at {active.size} of {w.size} points z: Im z is too small"
    )


def _points(z: ArrayLike) -> np.ndarray:
    try:
        points = np.asarray(z, dtype=complex)
    except (TypeError, ValueError):
        raise InputError(f"z must be numeric, got {z!r}") from None
    if not np.isfinite(points).all():
        raise InputError("z must be finite")
    return points


def _root(z: np.ndarray, low: float, high: float) -> np.ndarray:
    """sqrt((z - low) (z - high)), analytic off [low, high] and like z at infinity."""
    return np.sqrt(z - low) * np.sqrt(z - high)
