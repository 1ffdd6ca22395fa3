"""Clamped B-splines as densities on an interval, and what the diffusion dX = -X dt + sqrt(2) dB makes of them.

Diffused means convolved: with m = e^-t, sigma^2 = 1 - e^(-2t) and the normal density phi,
E_j(x, t) = int B_j(y) phi((x - m y) / sigma) / sigma dy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.numerics.quadrature import unit_rule

MOST_DEGREE = 6
_NEAR = 6.0
"""Points within so many sigma of the diffused support need no rescaling: E is above 1e-9 times its maximum."""
_CELL_NODES = 12
"""Gauss nodes in a cell that is at most sigma / m wide: errors below 1e-13."""
_EDGE_NODES = 40
_EDGE_FOLDS = 40.0
"""Over the part of a cell that counts the kernel falls by so many e-folds; 40 nodes resolve that to 1e-15."""
_LARGEST = 1e100
"""Points whose squares do not overflow."""
_MOST_TIME = 200.0
"""Beyond it nothing of the data is left in double precision."""
_MOST_VALUES = 1 << 22


class DiffusedBasis(NamedTuple):
    """E_j = value exp(log_scale), dE_j/dx = derivative exp(log_scale): far outside the support E itself underflows."""

    value: np.ndarray
    """(n, n_basis)."""
    derivative: np.ndarray
    """(n, n_basis)."""
    log_scale: np.ndarray
    """(n,), 0 within six sigma of the diffused support."""


class LogDiffusedBasis(NamedTuple):
    """log E_j = log_value + log_scale, with the derivative of log E_j in x."""

    log_value: np.ndarray
    """(n, n_basis)."""
    log_derivative: np.ndarray
    """(n, n_basis)."""
    log_scale: np.ndarray
    """(n,), -1/2 of the squared distance from the diffused support in units of sigma."""


@dataclass(frozen=True)
class SplineBasis:
    """The `n_basis` clamped B-splines of `degree` on [low, high] with equal cells, each scaled to integral one.

    There are n_basis - degree cells. A sum with weights on the simplex is a probability density, continuous with
    degree - 1 derivatives (de Boor 1978).
    """

    n_basis: int
    degree: int = 3
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        degree = check_whole("degree", self.degree, 0, MOST_DEGREE)
        n_basis = check_whole("n_basis", self.n_basis, degree + 2, 1 << 20)
        low, high = (float(check_array(name, getattr(self, name), ndim=0)) for name in ("low", "high"))
        if not high - low > 1e-12 * max(abs(low), abs(high)):
            raise InputError(f"high must be above low = {low:g} by more than rounding, got {high:g}")
        for name, checked in (("n_basis", n_basis), ("degree", degree), ("low", low), ("high", high)):
            object.__setattr__(self, name, checked)

    @property
    def cells(self) -> int:
        """The number of polynomial pieces."""
        return self.n_basis - self.degree

    @property
    def cell_width(self) -> float:
        return (self.high - self.low) / self.cells

    @cached_property
    def breaks(self) -> np.ndarray:
        """The ends of the cells, (cells + 1,)."""
        return np.linspace(self.low, self.high, self.cells + 1)

    @cached_property
    def scales(self) -> np.ndarray:
        """What a plain B-spline, part of a partition of one, is multiplied by to have integral one."""
        knots = self._knots(self.degree)
        return (self.degree + 1) / (knots[self.degree + 1 :] - knots[: -self.degree - 1])

    def values(self, x: ArrayLike) -> np.ndarray:
        """B_j(x), (n, n_basis), at points x (n,) of the support."""
        return self._design(self._inside("x", x), self.degree) * self.scales

    def antiderivatives(self, x: ArrayLike) -> np.ndarray:
        """int_low^x B_j, (n, n_basis): the distribution function of each basis density."""
        upper = self._design(self._inside("x", x), self.degree + 1)
        return np.cumsum(upper[:, :0:-1], axis=1)[:, ::-1]

    def masses(self, edges: ArrayLike) -> np.ndarray:
        """int over [edges_c, edges_c+1] of B_j, (len(edges) - 1, n_basis), exact."""
        edges = self._inside("edges", edges)
        if len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InputError("edges must be at least two increasing numbers")
        return np.maximum(np.diff(self.antiderivatives(edges), axis=0), 0.0)

    def diffused(self, x: ArrayLike, t: float) -> DiffusedBasis:
        """E_j(x, t) and dE_j/dx at any x (n,), t > 0.

        With a and b the ends of a cell in units of sigma from x, I_j = int_a^b z^j phi(z) dz obeys

            I_0 = Phi(b) - Phi(a),  I_1 = phi(a) - phi(b),  I_j = (j-1) I_(j-2) + a^(j-1) phi(a) - b^(j-1) phi(b),

        exact where sigma/m is below the width of a cell; wider kernels and points more than six sigma outside, where
        the recursion cancels, take Gauss rules that are as exact.
        """
        x, signal, noise = _kernel(x, t)
        outside = np.maximum(np.maximum(x - signal * self.high, signal * self.low - x), 0.0) / noise
        near = outside <= _NEAR
        value, derivative = np.zeros((2, len(x), self.n_basis))
        log_scale = np.zeros(len(x))
        narrow = noise <= signal * self.cell_width
        work = self.cells * ((self.degree + 2) if narrow else _CELL_NODES)
        for rows in row_chunks(np.flatnonzero(near), work):
            function = self._by_recursion if narrow else self._by_cells
            value[rows], derivative[rows] = function(x[rows], signal, noise)
        if not near.all():
            logs = self.log_diffused(x[~near], t)
            log_scale[~near], value[~near] = logs.log_scale, np.exp(logs.log_value)
            derivative[~near] = value[~near] * logs.log_derivative
        return DiffusedBasis(value, derivative, log_scale)

    def _knots(self, degree: int) -> np.ndarray:
        return np.r_[np.repeat(self.low, degree), self.breaks, np.repeat(self.high, degree)]

    def _design(self, x: np.ndarray, degree: int) -> np.ndarray:
        from scipy.interpolate import BSpline

        return BSpline.design_matrix(x, self._knots(degree), degree).toarray()

    def _inside(self, name: str, x: ArrayLike) -> np.ndarray:
        array = check_array(name, x, ndim=1)
        wrong = (array < self.low) | (array > self.high)
        if wrong.any():
            raise InputError(f"{name} must be in the support [{self.low:g}, {self.high:g}], got {array[wrong][0]:g}")
        return array

    @cached_property
    def _pieces(self) -> np.ndarray:
        """Coefficients of (y - l)^q of every basis function on every cell, (cells, degree + 1, n_basis)."""
        # the values at degree + 1 points of a cell, in its own unit of length, fix the polynomial
        nodes = (np.arange(self.degree + 1) + 0.5) / (self.degree + 1)
        at = (self.breaks[:-1, None] + self.cell_width * nodes).reshape(-1)
        values = self.values(at).reshape(self.cells, self.degree + 1, self.n_basis)
        powers = np.linalg.inv(np.vander(nodes, increasing=True))
        return powers @ values / self.cell_width ** np.arange(self.degree + 1)[:, None]

    @cached_property
    def _slopes(self) -> np.ndarray:
        """Coefficients of the derivatives, (cells, degree + 1, n_basis)."""
        slopes = np.zeros_like(self._pieces)
        slopes[:, :-1] = self._pieces[:, 1:] * np.arange(1, self.degree + 1)[:, None]
        return slopes

    @cached_property
    def _jumps(self) -> np.ndarray:
        """The jump of every basis function at every break, (cells + 1, n_basis); inside only degree 0 has any."""
        jumps = np.zeros((self.cells + 1, self.n_basis))
        jumps[0, 0], jumps[-1, -1] = self.scales[0], -self.scales[-1]
        if self.degree == 0:
            for j in range(self.n_basis):
                jumps[j, j], jumps[j + 1, j] = self.scales[j], -self.scales[j]
        return jumps

    def _by_recursion(self, x: np.ndarray, signal: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
        from scipy.special import ndtr

        spread, center = noise / signal, (x / signal)[:, None]
        ends = np.clip((self.breaks - center) / spread, -1e100, 1e100)
        density = np.exp(-0.5 * np.minimum(np.abs(ends), 40.0) ** 2) / np.sqrt(2 * np.pi)
        density[np.abs(ends) >= 40.0] = 0.0
        a, b, at_a, at_b = ends[:, :-1], ends[:, 1:], density[:, :-1], density[:, 1:]
        # of the two tails the one without cancellation
        moments = [np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)), at_a - at_b]
        for j in range(2, self.degree + 1):
            moments.append((j - 1) * moments[-2] + _times(a, at_a, j - 1) - _times(b, at_b, j - 1))
        distance = center - self.breaks[:-1]
        powers = [
            sum(comb(q, j) * distance ** (q - j) * spread**j * moments[j] for j in range(q + 1))
            for q in range(self.degree + 1)
        ]
        integrals = np.stack(powers, axis=2).reshape(len(x), -1) / signal
        value = integrals @ self._pieces.reshape(-1, self.n_basis)
        # by parts: the derivative of the kernel would cost digits as sigma goes to 0
        slope = integrals @ self._slopes.reshape(-1, self.n_basis) + density / noise @ self._jumps
        return np.maximum(value, 0.0), slope / signal

    def _by_cells(self, x: np.ndarray, signal: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = self._cell_rule
        z = (x[:, None] - signal * nodes) / noise
        kernel = np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * noise)
        return kernel @ weights, -(kernel * z) @ weights / noise

    @cached_property
    def _cell_rule(self) -> tuple[np.ndarray, np.ndarray]:
        """Gauss nodes of all cells, (cells 12,), and their weights times B_j, (cells 12, n_basis)."""
        unit, weights = unit_rule(_CELL_NODES)
        nodes = (self.breaks[:-1, None] + self.cell_width * unit).reshape(-1)
        return nodes, self.values(nodes) * np.tile(weights * self.cell_width, self.cells)[:, None]

    def log_diffused(self, x: ArrayLike, t: float) -> LogDiffusedBasis:
        """log E_j(x, t) and d log E_j / dx at any x (n,), with full relative accuracy however small E_j is; slower.

        Each cell has its own scale, the kernel at its point nearest to x / m, and a Gauss rule on the part of it where
        the kernel is above e^-40 of that; the polynomials are in Bernstein form, without cancellation.
        """
        x, signal, noise = _kernel(x, t)
        log_value, ratio = np.empty((2, len(x), self.n_basis))
        log_scale = np.empty(len(x))
        for rows in row_chunks(np.arange(len(x)), self.cells * _EDGE_NODES * (self.degree + 1)):
            log_value[rows], ratio[rows], log_scale[rows] = self._by_logarithms(x[rows], signal, noise)
        return LogDiffusedBasis(log_value, ratio, log_scale)

    @cached_property
    def _bernstein(self) -> np.ndarray:
        """Coefficients of C(degree, i) u^i (1-u)^(degree-i) of the degree + 1 functions of a cell, none negative."""
        k = self.degree
        local = np.arange(self.cells)[:, None] + np.arange(k + 1)
        powers = np.take_along_axis(self._pieces, local[:, None, :], axis=2)
        powers = powers * self.cell_width ** np.arange(k + 1)[:, None]
        convert = np.array([[comb(i, q) / comb(k, q) if q <= i else 0.0 for q in range(k + 1)] for i in range(k + 1)])
        coefficients = convert @ powers
        # what is 0 must be 0: rounding there would drown the tails
        return np.where(coefficients > 1e-10 * coefficients.max(), coefficients, 0.0)

    def _by_logarithms(self, x: np.ndarray, signal: float, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        unit, weights = unit_rule(_EDGE_NODES)
        spread, center = noise / signal, x[:, None] / signal
        low, high = self.breaks[:-1], self.breaks[1:]
        anchor = np.clip(center, self.low, self.high)
        outside = (anchor - center) / spread
        nearest = np.clip(center, low, high)
        start = (nearest - anchor) / spread
        slope = outside + start
        reach = 2 * _EDGE_FOLDS / (np.abs(slope) + np.sqrt(slope**2 + 2 * _EDGE_FOLDS))
        left, right = np.maximum(-reach, (low - nearest) / spread), np.minimum(reach, (high - nearest) / spread)
        length = (right - left)[..., None]
        z = left[..., None] + length * unit
        kernel = np.exp(-z * (slope[..., None] + 0.5 * z)) * weights * length
        width = self.cell_width / spread
        u = ((nearest - low) / spread)[..., None] + z
        v = ((high - nearest) / spread)[..., None] - z
        parts, slopes = np.zeros((2, len(x), self.cells, self.degree + 1))
        for i in range(self.degree + 1):
            term = kernel * comb(self.degree, i) * (u / width) ** i * (v / width) ** (self.degree - i)
            parts += term.sum(axis=2)[..., None] * self._bernstein[:, i]
            slopes += (term * (slope[..., None] + z)).sum(axis=2)[..., None] * self._bernstein[:, i]

        # the scale of a basis function is that of its nearest cell in which it is not 0
        with np.errstate(divide="ignore"):
            logs = np.log(parts) - (start * (outside + 0.5 * start))[..., None] - np.log(np.sqrt(2 * np.pi) * signal)
        local = np.arange(self.cells)[:, None] + np.arange(self.degree + 1)
        top = np.full((len(x), self.n_basis), -np.inf)
        for j in range(self.degree + 1):
            top[:, local[:, j]] = np.maximum(top[:, local[:, j]], logs[:, :, j])
        value, derivative = np.zeros((2, len(x), self.n_basis))
        for j in range(self.degree + 1):
            share = np.exp(logs[:, :, j] - top[:, local[:, j]])
            value[:, local[:, j]] += share
            derivative[:, local[:, j]] += share * slopes[:, :, j] / np.where(parts[:, :, j] > 0, parts[:, :, j], 1.0)
        return top + np.log(value), derivative / value / noise, -0.5 * outside[:, 0] ** 2


def _kernel(x: ArrayLike, t: float) -> tuple[np.ndarray, float, float]:
    """The checked points, m = e^-t and sigma."""
    points = check_array("x", x, low=-_LARGEST, high=_LARGEST, ndim=1)
    time = min(float(check_array("t", t, above=0, ndim=0)), _MOST_TIME)
    return points, float(np.exp(-time)), float(np.sqrt(-np.expm1(-2 * time)))


def _times(x: np.ndarray, density: np.ndarray, power: int) -> np.ndarray:
    """x^power density, 0 where the density is 0."""
    return np.where(density > 0, x, 0.0) ** power * density


def row_chunks(rows: np.ndarray, values_per_row: int) -> list[np.ndarray]:
    """The rows in parts whose working arrays stay small."""
    if rows.size == 0:
        return []
    return np.array_split(rows, -(-rows.size * values_per_row // _MOST_VALUES))
