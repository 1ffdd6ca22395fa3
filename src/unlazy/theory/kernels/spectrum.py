"""The spectrum of inner-product kernel matrices of n points in d dimensions, n of the order of any power of d.

    A_ij = f(sqrt(d) <x_i, x_j>) / sqrt(n) for i != j,      A_ii = 0,

with x_i uniform on the unit sphere, or with independent entries of variance 1/d. A kept diagonal shifts the spectrum by
f(sqrt(d)) / sqrt(n).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.elementwise import Link, as_link
from unlazy.functions.orthogonal import Hermite, InnerProductFamily
from unlazy.numerics.roots import increasing_root
from unlazy.theory.kernels.blocks import check_family, expanded
from unlazy.theory.kernels.free_probability import Law, moments_from_free_cumulants

_MOST_DEGREES = 1000
_LEAST_COEFFICIENT = 1e-9
_LEAST_TAIL = 1e-14
_SAME_POLE = 1e-13
_BRACKET_MARGIN = 1e-9
_ROUNDING_OF_CDF = 1e-14


class Atoms(NamedTuple):
    """Points of positive mass."""

    locations: np.ndarray
    probabilities: np.ndarray


class KernelSpectrum(Law):
    """The free sum of centred Marchenko-Pastur laws (a_k / sqrt(phi_k)) (MP_phi_k - 1) and a semicircle of variance v.

        R(g) = v g + sum_k a_k^2 g / (1 - s_k g),     s_k = a_k sqrt(phi_k),
        z = w + v/w + sum_k a_k^2 / (w - s_k),        w = 1/G(z)

    `residues` are the a_k^2 and v, `poles` the s_k and 0. At a real x, w is an eigenvalue of a small matrix, and the
    law is absolutely continuous but for one possible atom. `kernel_spectrum` and `kernel_spectrum_limit` make it.
    """

    def __init__(self, residues: ArrayLike, poles: ArrayLike) -> None:
        given_residues = check_array("residues", residues, above=0, ndim=1)
        given_poles = check_array("poles", poles, ndim=1)
        if given_residues.shape != given_poles.shape:
            raise InputError(f"poles must have shape {given_residues.shape} like residues, got {given_poles.shape}")
        order = np.argsort(given_poles)
        sorted_poles = given_poles[order]
        apart = np.diff(sorted_poles, prepend=-np.inf) > _SAME_POLE * np.sqrt(given_residues.sum())
        first = np.flatnonzero(apart)
        self.residues = np.add.reduceat(given_residues[order], first)
        self.poles = sorted_poles[first]

    def stieltjes(self, z: ArrayLike) -> Any:
        """G(z) for Im z > 0."""
        points = np.asarray(z, dtype=complex)
        if not (points.imag > 0).all():
            raise InputError("z must have a positive imaginary part")
        return 1 / self._inverse(points)

    def density(self, x: ArrayLike) -> Any:
        """The density at real x, Im w / (pi |w|^2), exact up to rounding and without iterations; 0 off the bands."""
        points = check_array("x", x)
        found = np.zeros(points.shape)
        inside = self._inside(points)
        w = self._inverse(points[inside])
        found[inside] = np.maximum(w.imag, 0.0) / (np.pi * np.abs(w) ** 2)
        return found[()]

    def cdf(self, x: ArrayLike) -> Any:
        """The mass at and below x, from the integral of G dz = (dz/dw) dw / w in closed form.

        1 - cdf(x) = (1/pi) Im [log w + sum_k (1/phi_k) (log(1 - s_k/w) + s_k / (w - s_k)) + v / (2 w^2)]
        """
        points = check_array("x", x)
        passed = np.searchsorted(self._flat_edges, points, side="right")
        found = np.append(0.0, self._cdf_at_edges)[passed]
        for location, mass in zip(*self.atoms, strict=True):
            same_gap = passed == np.searchsorted(self._flat_edges, location, side="right")
            found = np.where(same_gap & (points >= location), found + mass, found)
        inside = self._inside(points)
        left, right = passed[inside] - 1, passed[inside]
        w = self._inverse(points[inside])
        above = np.imag(self._integral(w.real + 1j * np.maximum(w.imag, np.finfo(np.float64).tiny))) / np.pi
        low, high = self._cdf_at_edges[left], self._cdf_at_edges[right]
        # within rounding errors of an edge w is real and says nothing
        to_left, to_right = points[inside] - self._flat_edges[left], self._flat_edges[right] - points[inside]
        at_edge = np.where(to_left < to_right, low, high)
        found = np.asarray(found)
        found[inside] = np.where(w.imag > 0, np.clip(1 - above, low, high), at_edge)
        return found[()]

    def distance(self, ascending: np.ndarray) -> float:
        """The Kolmogorov distance sup |empirical CDF - cdf| to a sample in ascending order."""
        n, cdf = len(ascending), self.cdf(ascending)
        return float(np.maximum(np.arange(1, n + 1) / n - cdf, cdf - np.arange(n) / n).max())

    def quantile(self, q: ArrayLike) -> Any:
        """The smallest x with cdf(x) >= q; the left end of the support for q = 0."""
        wanted = check_array("q", q, low=0, high=1)
        low, high = self._cdf_at_edges.reshape(-1, 2).T
        left, right = self.edges.T
        places, masses = self.atoms
        below = self.cdf(places) - masses if places.size else masses
        # bands and atoms from left to right
        starts, ends = np.append(left, places), np.append(right, places)
        order = np.argsort(starts)
        starts, ends = starts[order], ends[order]
        bottom, top = np.append(low, below)[order], np.append(high, below + masses)[order]
        part = np.minimum(np.searchsorted(top, wanted - _ROUNDING_OF_CDF), top.size - 1)
        at_start, at_end = wanted <= bottom[part] + _ROUNDING_OF_CDF, wanted >= top[part] - _ROUNDING_OF_CDF
        found = np.where(at_start, starts[part], ends[part])
        within = ~at_start & ~at_end & (starts[part] < ends[part])
        start, width = starts[part][within], (ends - starts)[part][within]

        def excess(angle: np.ndarray, wanted: np.ndarray, start: np.ndarray, width: np.ndarray) -> np.ndarray:
            return self.cdf(start + width * np.sin(angle / 2) ** 2) - wanted

        # in this angle the cdf is smooth at the edges, where the density has roots
        angle = increasing_root(excess, 1e-9, np.pi, wanted[within], start, width) if within.any() else start
        found = np.asarray(found)
        found[within] = start + width * np.sin(angle / 2) ** 2
        return found[()]

    def moments(self, order: int) -> np.ndarray:
        """m_1 = 0, m_2, ..., m_order, from the free cumulants kappa_j = sum_k a_k^2 s_k^(j-2) + v [j = 2]."""
        cumulants = [0.0] + [float(self.residues @ self.poles ** (j - 2)) for j in range(2, order + 1)]
        return moments_from_free_cumulants(cumulants[:order])

    @cached_property
    def edges(self) -> np.ndarray:
        """The left and right end of each band: z(w) where dz/dw = 0, that is sum_k a_k^2 / (w - s_k)^2 + v/w^2 = 1."""
        return self._flat_edges.reshape(-1, 2)

    @cached_property
    def band_masses(self) -> np.ndarray:
        """The mass of each band; that of an isolated band of degree k is N_k/n."""
        return np.diff(self._cdf_at_edges)[::2]

    @cached_property
    def atoms(self) -> Atoms:
        """The atom 1 - sum_k 1/phi_k at -sum_k a_k / sqrt(phi_k), if this is positive and there is no semicircle."""
        with np.errstate(divide="ignore"):
            mass = 1 - np.sum(self.residues / self.poles**2)
        if not mass > _ROUNDING_OF_CDF:
            return Atoms(np.zeros(0), np.zeros(0))
        return Atoms(np.array([-np.sum(self.residues / self.poles)]), np.array([mass]))

    @cached_property
    def _critical_points(self) -> tuple[np.ndarray, np.ndarray]:
        """w at the edges from left to right: the nearest pole and the signed distance from it.

        h(w) = sum_j weight_j / (w - pole_j)^2 is convex between neighbouring poles; h = 1 has a root on both outer
        sides and none or two between neighbours.
        """
        weights, poles, total = self.residues, self.poles, self.residues.sum()
        last = poles.size - 1
        gaps = np.arange(last)
        low, high = np.cbrt(weights[:-1] / total), np.cbrt(total / weights[1:])

        def differences(share: np.ndarray, gap: np.ndarray) -> np.ndarray:
            width = poles[gap + 1] - poles[gap]
            found = (poles[gap] + width * share / (1 + share))[:, None] - poles
            found[np.arange(gap.size), gap] = width * share / (1 + share)
            found[np.arange(gap.size), gap + 1] = -width / (1 + share)
            return found

        def slope(share: np.ndarray, gap: np.ndarray) -> np.ndarray:
            return -np.sum(weights / differences(share, gap.astype(int)) ** 3, axis=1)

        def below_one(distance: np.ndarray, pole: np.ndarray, side: np.ndarray) -> np.ndarray:
            from_pole = poles[pole.astype(int)][:, None] - poles + (side * distance)[:, None]
            return 1 - np.sum(weights / from_pole**2, axis=1)

        lowest = (
            increasing_root(slope, low * (1 - _BRACKET_MARGIN), high * (1 + _BRACKET_MARGIN), gaps) if last else low
        )
        open_gaps = np.sum(weights / differences(lowest, gaps) ** 2, axis=1) < 1
        gaps, width, share = gaps[open_gaps], np.diff(poles)[open_gaps], lowest[open_gaps]
        inner = np.stack([gaps, gaps + 1], axis=1).ravel()
        reach = np.stack([width * share / (1 + share), width / (1 + share)], axis=1).ravel()
        pole = np.concatenate([[0], inner, [last]])
        side = np.tile([-1.0, 1.0], pole.size // 2)
        farthest = np.concatenate(
            [[np.sqrt(total) * (1 + _BRACKET_MARGIN)], reach, [np.sqrt(total) * (1 + _BRACKET_MARGIN)]]
        )
        nearest = np.minimum(np.sqrt(weights[pole]) * (1 - _BRACKET_MARGIN), farthest)
        return pole, side * increasing_root(below_one, nearest, farthest, pole, side)

    @cached_property
    def _flat_edges(self) -> np.ndarray:
        pole, distance = self._critical_points
        from_pole = self.poles[pole][:, None] - self.poles + distance[:, None]
        return self.poles[pole] + distance + np.sum(self.residues / from_pole, axis=1)

    @cached_property
    def _cdf_at_edges(self) -> np.ndarray:
        """The cdf below an edge, where w is real and only the arguments of the logarithms are left of the integral."""
        pole, distance = self._critical_points
        w = (self.poles[pole] + distance)[:, None]
        with np.errstate(divide="ignore"):
            parts = self.residues / self.poles**2
        positive = np.where((w > 0) & (w < self.poles), parts, 0.0).sum(axis=1)
        negative = np.where((w < 0) & (w > self.poles), parts, 0.0).sum(axis=1)
        return np.clip(1 - ((w[:, 0] <= 0) + positive - negative), 0.0, 1.0)

    def _inside(self, x: np.ndarray) -> np.ndarray:
        after = np.searchsorted(self._flat_edges, x, side="right")
        return (after % 2 == 1) & (x > self._flat_edges[np.maximum(after - 1, 0)])

    def _inverse(self, z: np.ndarray) -> np.ndarray:
        """w(z): the root of z = w + sum_j weight_j / (w - pole_j) with the largest imaginary part.

        It is the only one in the upper half plane, because the others start near the poles, in the lower one, as z
        comes from infinity, and cannot cross the real line.
        """
        size = self.poles.size + 1
        matrices = np.zeros((*z.shape, size, size), dtype=z.dtype)
        diagonal = np.arange(1, size)
        matrices[..., 0, 0] = z
        matrices[..., 0, 1:] = -np.sqrt(self.residues)
        matrices[..., 1:, 0] = np.sqrt(self.residues)
        matrices[..., diagonal, diagonal] = self.poles
        roots = np.linalg.eigvals(matrices)
        return np.take_along_axis(roots, np.argmax(roots.imag, axis=-1)[..., None], axis=-1)[..., 0]

    def _integral(self, w: np.ndarray) -> np.ndarray:
        """log w + sum_j weight_j / w^2 l(pole_j / w),  l(e) = (log(1 - e) + e / (1 - e)) / e^2."""
        ratio = self.poles / w[..., None]
        small = np.abs(ratio) < 0.1
        safe = np.where(small, 0.5, ratio)
        # the terms of l cancel for small e, where it is the sum of (j+1)/(j+2) e^j
        series = np.polynomial.polynomial.polyval(
            np.where(small, ratio, 0.0), (np.arange(18) + 1) / (np.arange(18) + 2)
        )
        parts = np.where(small, series, (np.log(1 - safe) + safe / (1 - safe)) / safe**2)
        return np.log(w) + parts @ self.residues / w**2


def kernel_spectrum(
    polynomial_coefficients: ArrayLike, multiplicities: ArrayLike, n: float, tail: float = 0.0
) -> KernelSpectrum:
    """The law of the eigenvalues of a kernel matrix of n points at its finite size.

    With a_k the coefficients of f and N_k the multiplicities of the degrees k = 0, 1, ..., K of the law of the points
    (`unlazy.functions.orthogonal`) and phi_k = n / N_k, degree k contributes a_k (Y Y^T / sqrt(n N_k) - sqrt(N_k/n)),

        (a_k / sqrt(phi_k)) (MP_phi_k - 1),

    all degrees above K together a semicircle of variance `tail`, the sum of their a_k^2 (those have N_k >> n), and the
    parts are free. Low degrees are bands of N_k eigenvalues near a_k sqrt(phi_k), away from the others. Coefficients
    below 1e-9 of sqrt(E f^2) are left out.

    Exact as n and d grow, measured to a Kolmogorov distance of some 0.005 at d = 45 (sphere; Krawtchouk coefficients
    for the hypercube). Sources: Lu & Yau (2022), Dubova, Lu, McKenna & Yau (2023), here with all degrees kept.

    >>> law = kernel_spectrum(polynomial_coefficients=[0.4, 0.5, 0.2], multiplicities=[1, 45, 1034], n=1500, tail=0.01)
    >>> print(law.edges.round(3))
    [[-0.408 0.55 ]
     [ 1.897 3.889]
     [14.72 16.31]]
    """
    a = check_array("polynomial_coefficients", polynomial_coefficients, ndim=1)
    copies = check_array("multiplicities", multiplicities, above=0, ndim=1)
    if copies.shape != a.shape:
        raise InputError(f"multiplicities must have shape {a.shape} like polynomial_coefficients, got {copies.shape}")
    n = float(check_array("n", n, low=1, ndim=0))
    return _free_sum(a, n / copies, tail)


def kernel_spectrum_limit(
    polynomial_coefficient: float, samples_per_multiplicity: float, tail: float
) -> KernelSpectrum:
    """The limit of `kernel_spectrum` as d grows with n/d^l -> c: Marchenko-Pastur plus semicircle.

        v s G^3 - (v + a^2 + s z) G^2 + (z + s) G - 1 = 0,       s = a sqrt(phi)

    for an integer l, with a (`polynomial_coefficient`) that of degree l in Hermite polynomials, phi = n / N_l = l! c
    (`samples_per_multiplicity`) and v (`tail`) the sum of a_k^2 over the degrees above l. For an exponent that is no
    integer a = 0: a semicircle, v from the degrees above it. Degrees below l are outliers without weight; the bulk
    shift -a_k sqrt(N_k/n) that they cause vanishes slowly, like d^(-(l-k)/2). Source: Lu & Yau (2022).

    >>> print(kernel_spectrum_limit(polynomial_coefficient=0.8, samples_per_multiplicity=1.0, tail=0.36).edges)
    [[-1.641 2.621]]
    """
    a = check_array("polynomial_coefficient", polynomial_coefficient, ndim=0)
    phi = check_array("samples_per_multiplicity", samples_per_multiplicity, above=0, ndim=0)
    return _free_sum(a.reshape(1), phi.reshape(1), tail)


def function_spectrum(
    kernel_function: str | Link | Callable[[Any], Any], family: InnerProductFamily, n: float, *, last_degree: int = 8
) -> KernelSpectrum:
    """`kernel_spectrum` of f on the sphere or the hypercube, with degrees up to `last_degree` apart from each other.

    >>> from unlazy.functions.orthogonal import Gegenbauer
    >>> law = function_spectrum(kernel_function="relu", family=Gegenbauer(45), n=1500)
    >>> print(1500 * law.band_masses)
    [1454. 45. 1.]
    """
    degree = min(_checked_degree(last_degree), check_family(family).largest_degree)
    found = expanded("kernel_function", as_link(kernel_function, "kernel_function"), family, int(degree))
    return kernel_spectrum(found.polynomial_coefficients, family.multiplicities(int(degree)), n, found.tail)


def function_spectrum_limit(
    kernel_function: str | Link | Callable[[Any], Any],
    n: float,
    d: float,
    samples_exponent: float,
    *,
    last_degree: int = 8,
) -> KernelSpectrum:
    """`kernel_spectrum_limit` of f for n ~ d^samples_exponent; between two integers there is only the semicircle.

    >>> print(function_spectrum_limit(kernel_function="relu", n=1000, d=45, samples_exponent=2).edges)
    [[-0.4098 0.8645]]
    """
    degree = _checked_degree(last_degree)
    n, d = (float(check_array(name, value, above=0, ndim=0)) for name, value in (("n", n), ("d", d)))
    exponent = float(check_array("samples_exponent", samples_exponent, low=0, high=degree, ndim=0))
    found = expanded("kernel_function", as_link(kernel_function, "kernel_function"), Hermite(), degree)
    own = int(exponent)
    tail = float(np.sum(found.polynomial_coefficients[own + 1 :] ** 2) + found.tail)
    if exponent != own:
        return _free_sum(np.zeros(1), np.ones(1), tail)
    return kernel_spectrum_limit(found.polynomial_coefficients[own], math.factorial(own) * n / d**own, tail)


def _checked_degree(last_degree: Any) -> int:
    return check_whole("last_degree", last_degree, 0, _MOST_DEGREES)


def _free_sum(a: np.ndarray, ratios: np.ndarray, tail: float) -> KernelSpectrum:
    variance = float(check_array("tail", tail, low=0, ndim=0))
    total = a @ a + variance
    if not total > 0:
        raise InputError("polynomial_coefficients and tail must not all be 0")
    kept = np.abs(a) >= _LEAST_COEFFICIENT * np.sqrt(total)
    weights, poles = a[kept] ** 2, a[kept] * np.sqrt(ratios[kept])
    if variance > _LEAST_TAIL * total:
        weights, poles = np.append(weights, variance), np.append(poles, 0.0)
    return KernelSpectrum(weights, poles)
