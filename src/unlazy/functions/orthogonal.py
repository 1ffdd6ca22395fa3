"""Orthonormal polynomials of the laws of an inner product, and the expansion of functions in them.

    Hermite        t standard normal: the limit of the other two as d grows
    Gegenbauer     t = sqrt(d) <x, y>, x and y uniform on the unit sphere in d dimensions
    Krawtchouk     t = sqrt(d) <x, y>, x and y uniform on the hypercube {-1, 1}^d / sqrt(d)

Each law is symmetric with variance 1, so that q_0 = 1, q_1 = t and t q_k = b_{k+1} q_{k+1} + b_k q_{k-1}.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_whole
from unlazy.numerics.quadrature import Quadrature, panels

if TYPE_CHECKING:
    from unlazy.functions.elementwise import Link

_NODES_PER_PANEL = 32
_FIRST_PANELS = 16
_MOST_DEGREES = 1000
_LAST_REFINEMENT = 4
# weights below exp(-reach^2 / 2) are left out; the reach grows with each refinement, so that growing tails show
_FIRST_REACH = 13.0
_TOLERANCE = 1e-11
_ROUNDING_OF_TAIL = 1e-13


class Coefficients(NamedTuple):
    """f = sum_k a_k q_k up to some degree, and what is beyond it."""

    polynomial_coefficients: np.ndarray
    """a_0, a_1, ..., a_degree."""
    second_moment: float
    """E f(t)^2, the sum of all a_k^2."""
    tail: float
    """The sum of a_k^2 over k > degree; rounding errors below 1e-13 of E f(t)^2 are 0."""


class OrthonormalFamily(ABC):
    """A symmetric law of t with variance 1 and its orthonormal polynomials q_0, q_1, ..."""

    @property
    def largest_degree(self) -> float:
        """The degree beyond which there are no polynomials: infinity unless t takes finitely many values."""
        return math.inf

    @abstractmethod
    def recurrence(self, k: int) -> float:
        """b_k = E[t q_k(t) q_{k-1}(t)] > 0 for k >= 1."""

    @abstractmethod
    def grid(self, refinement: int = 0, breakpoints: Iterable[float] = ()) -> Quadrature:
        """A rule for E f(t), f smooth between the breakpoints; each refinement doubles its points."""

    def values(self, t: Any, degree: int, *, xp: Any = np) -> Any:
        """q_0(t), ..., q_degree(t) along a new first axis, by the recurrence; `xp` is the namespace of t."""
        degree = self.checked_degree(degree)
        t = xp.asarray(t) * 1.0
        return xp.stack(self._from_first(t, xp.ones_like(t), degree))

    def checked_degree(self, degree: Any) -> int:
        """`degree` as an integer from 0 to the largest degree and 1000, or what is wrong with it."""
        return check_whole("degree", degree, 0, min(self.largest_degree, _MOST_DEGREES))

    def _from_first(self, t: Any, first: Any, degree: int) -> list[Any]:
        """first * q_k(t) for k = 0, ..., degree."""
        found = [first]
        for k in range(degree):
            below = self.recurrence(k) * found[k - 1] if k else 0.0
            found.append((t * found[k] - below) / self.recurrence(k + 1))
        return found


@dataclass(frozen=True)
class Hermite(OrthonormalFamily):
    """Standard normal t: q_k = He_k / sqrt(k!), b_k^2 = k."""

    def recurrence(self, k: int) -> float:
        return math.sqrt(k)

    def grid(self, refinement: int = 0, breakpoints: Iterable[float] = ()) -> Quadrature:
        reach = _FIRST_REACH * 2 ** (refinement / 2)
        t, lengths = _composite_rule(-reach, reach, breakpoints, refinement)
        return _normalised(t, lengths * np.exp(-(t**2) / 2))


@dataclass(frozen=True)
class InnerProductFamily(OrthonormalFamily):
    """t = sqrt(d) <x, y> of unit vectors: q_k(sqrt(d) <x, y>) = N_k^(-1/2) sum_a Y_a(x) Y_a(y), a = 1, ..., N_k.

    The Y_a are orthonormal functions of degree k, so that q_k(sqrt(d)) = sqrt(N_k).
    """

    d: int

    @abstractmethod
    def multiplicity(self, k: int) -> int:
        """N_k, the exact number of orthonormal functions of degree k."""

    def multiplicities(self, degree: int) -> list[int]:
        """N_0, ..., N_degree."""
        return [self.multiplicity(k) for k in range(degree + 1)]


@dataclass(frozen=True)
class Gegenbauer(InnerProductFamily):
    """Uniform x and y on the unit sphere in d >= 3 dimensions.

    density of t ~ (1 - t^2/d)^((d-3)/2),       b_k^2 = d k (k+d-3) / ((2k+d-2) (2k+d-4)),
    N_0 = 1,      N_k = (2k+d-2)/k C(k+d-3, k-1)
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", check_whole("d", self.d, 3))

    def recurrence(self, k: int) -> float:
        d = self.d
        return math.sqrt(d * k * (k + d - 3) / ((2 * k + d - 2) * (2 * k + d - 4)))

    def multiplicity(self, k: int) -> int:
        k = check_whole("k", k, 0)
        return (2 * k + self.d - 2) * math.comb(k + self.d - 3, k - 1) // k if k else 1

    def grid(self, refinement: int = 0, breakpoints: Iterable[float] = ()) -> Quadrature:
        """In the angle: t = sqrt(d) sin(angle) has the weight cos^(d-2), and functions of |x - y| stay smooth."""
        reach = _FIRST_REACH * 2 ** (refinement / 2)
        last = math.acos(math.exp(-(reach**2) / (2 * (self.d - 2))))
        breaks = [math.asin(t / math.sqrt(self.d)) for t in breakpoints if t * t < self.d]
        angles, lengths = _composite_rule(-last, last, breaks, refinement)
        sines = np.sin(angles)
        return _normalised(
            math.sqrt(self.d) * sines, lengths * np.exp((self.d - 2) / 2 * np.log1p(-np.minimum(sines**2, 1 - 1e-16)))
        )


@dataclass(frozen=True)
class Krawtchouk(InnerProductFamily):
    """Uniform x and y on the hypercube: t is the sum of d signs over sqrt(d), b_k^2 = k (d-k+1)/d, N_k = C(d, k).

    The recurrence loses digits for degrees beyond d/2; q_{d-k} = q_k times the product of the signs.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", check_whole("d", self.d, 1))

    @property
    def largest_degree(self) -> float:
        return self.d

    def recurrence(self, k: int) -> float:
        return math.sqrt(k * (self.d - k + 1) / self.d)

    def multiplicity(self, k: int) -> int:
        return math.comb(self.d, check_whole("k", k, 0))

    def grid(self, refinement: int = 0, breakpoints: Iterable[float] = ()) -> Quadrature:
        """The law itself, up to points whose weight is below the smallest number."""
        first = (self.d + 1) // 2
        signs = np.arange(first, min(self.d, first + 20 * math.isqrt(self.d) + 20) + 1.0)
        weights = np.cumprod(np.append(1.0, (self.d - signs[:-1]) / (signs[:-1] + 1)))
        t = (2 * signs - self.d) / math.sqrt(self.d)
        # t = 0 comes twice below
        weights[t == 0] /= 2
        return _normalised(np.append(-t[::-1], t), np.append(weights[::-1], weights))


def coefficients(
    function: Link | Callable[[np.ndarray], Any],
    family: OrthonormalFamily,
    degree: int,
    breakpoints: Iterable[float] = (),
    *,
    name: str = "function",
) -> Coefficients:
    """The coefficients a_k = E[f(t) q_k(t)], k <= degree, of a function in the orthonormal polynomials of a law.

        E f(t)^2 = sum_k a_k^2                    (Parseval, which gives the tail)

    `function` takes an array and must be square integrable and smooth between the `breakpoints` (0 for relu, abs and
    sign); a `Link` brings its own. Composite Gauss-Legendre rules, doubled until E f^2 and all a_k agree to 1e-11; a
    function for which they do not agree is refused. On the hypercube the sum over the law is exact and needs no
    breakpoints. `name` is what errors call the function.
    """
    degree = family.checked_degree(degree)
    breaks = sorted({*check_breakpoints(breakpoints), *check_breakpoints(getattr(function, "breakpoints", ()))})
    previous = _coefficients_on(family.grid(0, breaks), function, family, degree, name)
    for refinement in range(1, _LAST_REFINEMENT + 1):
        found = _coefficients_on(family.grid(refinement, breaks), function, family, degree, name)
        scale = math.sqrt(found.second_moment)
        change = np.abs(found.polynomial_coefficients - previous.polynomial_coefficients).max()
        moment_change = abs(found.second_moment - previous.second_moment)
        if change <= _TOLERANCE * scale and moment_change <= _TOLERANCE * found.second_moment:
            return found
        previous = found
    raise InputError(
        f"{name} must be square integrable and smooth between breakpoints = {tuple(breaks)}: with twice the "
        f"quadrature points E f^2 still changes by {moment_change:.2g} of {found.second_moment:.4g} and a coefficient "
        f"by {change:.2g}; name its kinks and jumps as breakpoints"
    )


def check_breakpoints(breakpoints: Any) -> list[float]:
    """Breakpoints as a list of finite numbers, or what is wrong with them."""
    try:
        listed = [0.0, *breakpoints]
    except TypeError:
        raise InputError(f"breakpoints must be a list of numbers, got {breakpoints!r:.80}") from None
    return check_array("breakpoints", listed, ndim=1)[1:].tolist()


def _coefficients_on(
    grid: Quadrature, function: Link | Callable[[np.ndarray], Any], family: OrthonormalFamily, degree: int, name: str
) -> Coefficients:
    points, weights = grid
    roots = np.sqrt(weights)
    with np.errstate(all="ignore"):
        values = check_array(name, _evaluated(function, points, name), finite=False)
        if values.ndim and values.shape != points.shape:
            raise InputError(f"{name} must return one number for each of {points.size} points, got {values.shape}")
        weighted = values * roots
        second_moment = float(weighted @ weighted)
    if not math.isfinite(second_moment):
        at = points[np.argmin(np.isfinite(weighted))]
        raise InputError(f"{name} must be finite and square integrable, got E f^2 = {second_moment:g} (see t = {at:g})")
    # q_k sqrt(weight) instead of q_k, which overflows far out
    projections = np.stack(family._from_first(points, roots, degree)) @ weighted
    tail = second_moment - float(projections @ projections)
    return Coefficients(projections, second_moment, tail if tail > _ROUNDING_OF_TAIL * second_moment else 0.0)


def _evaluated(function: Link | Callable[[np.ndarray], Any], points: np.ndarray, name: str) -> Any:
    if not callable(function):
        raise InputError(f"{name} must be a function of arrays, got {function!r:.80}")
    try:
        return function(points)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} must be a function of arrays, but it raised {type(error).__name__}") from error


def _composite_rule(
    low: float, high: float, breakpoints: Iterable[float], refinement: int
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre points and lengths on [low, high], denser towards the ends of each smooth piece.

    The polynomial 35 s^4 - 84 s^5 + 70 s^6 - 20 s^7 of slope 140 s^3 (1-s)^3 takes [0, 1] to a piece, so that powers
    of the distance from a breakpoint are integrated well too.
    """
    s, sizes = panels(np.linspace(0, 1, _FIRST_PANELS * 2**refinement + 1), _NODES_PER_PANEL)
    lengths = sizes * 140 * (s * (1 - s)) ** 3
    share = s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)
    ends = [low, *sorted({b for b in breakpoints if low < b < high}), high]
    pieces = [(a + (b - a) * share, (b - a) * lengths) for a, b in pairwise(ends)]
    points, widths = zip(*pieces, strict=True)
    return np.concatenate(points), np.concatenate(widths)


def _normalised(points: np.ndarray, weights: np.ndarray) -> Quadrature:
    kept = weights > 0
    return Quadrature(points[kept], weights[kept] / weights[kept].sum())
