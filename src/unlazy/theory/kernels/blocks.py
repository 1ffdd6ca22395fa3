"""Eigenvalues of dot-product kernels and random features on the sphere and the hypercube, in blocks of one degree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.elementwise import Link, as_activation, as_link
from unlazy.functions.orthogonal import Coefficients, InnerProductFamily, OrthonormalFamily, coefficients

_LARGEST_MULTIPLICITY = 1e300
_MOST_DEGREES = 1000
# of a coefficient from quadrature, in parts of the root mean square of the function; measured: up to 2.5e-15
_ROUNDING = 4e-15
_HIDING_ROUNDING = 1e-3


class Blocks(NamedTuple):
    """The eigenvalues of a kernel by degree k = 0, 1, ..., K; the last entry stands for all degrees above K."""

    spectrum: np.ndarray
    """l_k = M_k / N_k."""
    multiplicities: np.ndarray
    """N_k; that of degree K + 1 for the last entry."""
    degree_masses: np.ndarray
    """M_k, which add up to h(1) or E sigma^2."""

    def energies(self, by_degree: Sequence[float]) -> np.ndarray:
        """Energies of a target for `kernel_regression_equivalent`, 0 for the degrees that are not given."""
        given = check_array("energies", by_degree, low=0, ndim=1)
        if given.size > self.spectrum.size:
            raise InputError(f"energies must be at most {self.spectrum.size} numbers, got {given.size}")
        return np.append(given, np.zeros(self.spectrum.size - given.size))


def kernel_blocks(
    kernel: str | Link | Callable[[Any], Any] | Sequence[float], family: InnerProductFamily, *, last_degree: int = 9
) -> Blocks:
    """Eigenvalues of a dot-product kernel h(<x, x'>) of unit vectors, on the sphere or the hypercube.

        h(t / sqrt(d)) = sum_k alpha_k q_k(t),     M_k = alpha_k sqrt(N_k),     l_k = M_k / N_k,     sum_k M_k = h(1)

    `kernel` is the function h on [-1, 1] (a `Link` if it has kinks), or the sequence of its Taylor coefficients at 0,
    with which masses keep their digits. From a function M_k has a rounding error of up to 4e-15 sqrt(N_k E h^2): below
    it a mass is 0, and masses hidden by an error above h(1)/1000 (high degrees in high dimension) go to the last
    block. A negative mass is refused: h is then no kernel in this dimension. Source: Schoenberg (1942).

    >>> from unlazy.functions.orthogonal import Gegenbauer
    >>> print(kernel_blocks(kernel=np.exp, family=Gegenbauer(30), last_degree=2).degree_masses)
    [1.017 1.016 0.4905 0.1953]
    """
    copies = _multiplicities(family, last_degree)
    if callable(kernel) or isinstance(kernel, str):
        masses, rounding, total = _masses_of_function(as_link(kernel, "kernel"), family, copies)
    else:
        masses, rounding, total = _masses_of_series(kernel, family, copies)
    tail = total - masses.sum()
    for k, mass, error in [
        *zip(range(len(copies)), masses, rounding, strict=True),
        (len(copies), tail, rounding.sum()),
    ]:
        if mass < -max(1e-10 * total, error):
            where = f"degree {k}" if k < len(copies) else f"all degrees from {k}"
            raise InputError(
                f"kernel must be positive definite, got the mass {mass:g} at {where} of {type(family).__name__} "
                f"polynomials with d = {family.d}"
            )
    kept = masses > rounding
    return _with_tail(family, copies, np.where(kept, masses, 0.0), total, float(rounding[kept].sum()))


def activation_blocks(
    activation: str | Link | Callable[[Any], Any], family: InnerProductFamily, *, last_degree: int = 9
) -> Blocks:
    """Eigenvalues of random features sigma(sqrt(d) <x, w>) of unit vectors x and w, on the sphere or the hypercube.

        sigma(t) = sum_k a_k q_k(t),     M_k = a_k^2,     l_k = M_k / N_k,     sum_k M_k = E sigma^2

    Masses below 1e-24 of E sigma^2 are rounding errors and count as 0: relu has none at degrees 3, 5, ..., which its
    features never learn. Source: Mei, Misiakiewicz & Montanari (2022).

    >>> from unlazy.functions.orthogonal import Gegenbauer
    >>> print(activation_blocks(activation="relu", family=Gegenbauer(30), last_degree=3).degree_masses)
    [0.1618 0.25 0.07814 0. 0.01003]
    """
    copies = _multiplicities(family, last_degree)
    found = expanded("activation", as_activation(activation), family, len(copies) - 1)
    if not found.second_moment > 0:
        raise InputError("activation must not be 0 everywhere")
    masses = found.polynomial_coefficients**2
    masses[masses < 1e-24 * found.second_moment] = 0.0
    return _with_tail(family, copies, masses, found.second_moment)


def expanded(name: str, function: Link, family: OrthonormalFamily, degree: int) -> Coefficients:
    """The coefficients of a function up to a degree; `name` is what errors call it."""
    return coefficients(function.value, family, degree, function.breakpoints, name=name)


def check_family(family: Any) -> InnerProductFamily:
    if not isinstance(family, InnerProductFamily):
        raise InputError(f"family must be Gegenbauer(d) or Krawtchouk(d), got {family!r:.80}")
    return family


def _multiplicities(family: InnerProductFamily, last_degree: int) -> list[int]:
    degree = min(check_whole("last_degree", last_degree, 0, _MOST_DEGREES), check_family(family).largest_degree)
    copies = family.multiplicities(int(degree))
    if copies[-1] > _LARGEST_MULTIPLICITY:
        raise InputError(f"last_degree must be lower for d = {family.d}: N_{degree} is above {_LARGEST_MULTIPLICITY:g}")
    return copies


def _with_tail(
    family: InnerProductFamily, copies: list[int], masses: np.ndarray, total: float, rounding: float = 0.0
) -> Blocks:
    following = family.multiplicity(len(copies))
    # the hypercube has no degree above d
    if following:
        tail = total - masses.sum()
        masses = np.append(masses, tail if tail > max(1e-12 * total, rounding) else 0.0)
        copies = [*copies, following]
    multiplicities = np.array(copies, dtype=float)
    return Blocks(masses / multiplicities, multiplicities, masses)


def _masses_of_function(
    kernel: Link, family: InnerProductFamily, copies: list[int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """M_k, their rounding errors and h(1)."""
    scale = math.sqrt(family.d)
    of_scaled = Link("own", lambda t: kernel(np.clip(t / scale, -1.0, 1.0)), None, _scaled(kernel.breakpoints, scale))
    found = expanded("kernel", of_scaled, family, len(copies) - 1)
    total = float(check_array("kernel(1)", np.ravel(kernel(np.ones(1))), above=0)[0])
    roots = np.sqrt(np.array(copies, dtype=float))
    rounding = _ROUNDING * roots * math.sqrt(found.second_moment)
    return np.where(rounding > _HIDING_ROUNDING * total, 0.0, found.polynomial_coefficients * roots), rounding, total


def _scaled(breakpoints: tuple[float, ...], scale: float) -> tuple[float, ...]:
    return tuple(scale * place for place in breakpoints)


def _masses_of_series(
    taylor: Sequence[float], family: InnerProductFamily, copies: list[int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """M_k, their rounding errors and h(1).

    t q_k = b_{k+1} q_{k+1} + b_k q_{k-1} makes the masses of <x, x'>^j, j = 0, 1, ..., a random walk on the degrees.
    """
    series = check_array("kernel", taylor, ndim=1)
    total = float(check_array("kernel(1)", series.sum(), above=0))
    last = int(min(series.size - 1, family.largest_degree))
    walk = family.multiplicities(last)
    up, down = (
        np.array(
            [family.recurrence(k) * math.sqrt(walk[k - 1 + i] / walk[k - i] / family.d) for k in range(1, last + 1)]
        )
        for i in (1, 0)
    )
    monomial, masses, sizes = np.eye(1, last + 1)[0], np.zeros(last + 1), np.zeros(last + 1)
    for coefficient in series:
        masses += coefficient * monomial
        sizes += abs(coefficient) * monomial
        monomial = np.append(0.0, up * monomial[:-1]) + np.append(down * monomial[1:], 0.0)
    degrees = len(copies)
    padded = np.zeros((2, max(degrees, last + 1)))
    padded[:, : last + 1] = masses, 1e-14 * sizes
    return padded[0, :degrees], padded[1, :degrees], total
