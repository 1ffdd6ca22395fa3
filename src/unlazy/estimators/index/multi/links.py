"""Functions of a few indices at once: polynomials and polyharmonic splines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from unlazy.estimators.index.links import IndexLink
from unlazy.estimators.index.near import Near
from unlazy.estimators.index.newton import FREEDOM_COST, IndexFit, least_squares, mean_square
from unlazy.functions.orthogonal import Hermite

DEGREES = (1, 2, 3, 4)
SEARCH_KNOTS = 40
KNOTS = (40, 120)
_ROWS_PER_KNOT = 4
_ROWS_PER_COEFFICIENT = 4
_PENALTIES = np.logspace(-10, 4, 43)
_ROUNDING = 1e-12
# of the largest radius of the rows: functions are constant beyond
_FARTHEST = 1.1
# share of the rows, the outermost, that a function must predict from the others to be continued beyond them
_OUTER, _FEWEST_OUTER = 0.02, 4


@dataclass(frozen=True)
class Surface:
    """constant + slope.t + sum_j c_j |t - knot_j|^3: a spline without a scale of its own."""

    knots: np.ndarray
    weights: np.ndarray
    constant: float
    slope: np.ndarray

    def __call__(self, indices: Any) -> np.ndarray:
        t = np.asarray(indices, dtype=np.float64)
        return self.constant + t @ self.slope + distances(t, self.knots) ** 3 @ self.weights

    def slopes(self, indices: Any) -> np.ndarray:
        t = np.asarray(indices, dtype=np.float64)
        pulls = 3 * distances(t, self.knots) * self.weights
        return self.slope + pulls.sum(axis=1)[:, None] * t - pulls @ self.knots


@dataclass(frozen=True)
class PolynomialSurface:
    """sum_e c_e prod_j h_{e_j}((t_j - center_j) / deviation_j)."""

    exponents: tuple[tuple[int, ...], ...]
    coefficients: np.ndarray
    center: np.ndarray
    deviation: np.ndarray

    def __call__(self, indices: Any) -> np.ndarray:
        return _products(self._standardised(indices), self.exponents) @ self.coefficients

    def slopes(self, indices: Any) -> np.ndarray:
        u = self._standardised(indices)
        columns = []
        for j in range(u.shape[1]):
            lowered = tuple((*e[:j], max(e[j] - 1, 0), *e[j + 1 :]) for e in self.exponents)
            factors = np.sqrt([e[j] for e in self.exponents])
            columns.append(_products(u, lowered) @ (factors * self.coefficients))
        return np.column_stack(columns) / self.deviation

    def _standardised(self, indices: Any) -> np.ndarray:
        return (np.asarray(indices, dtype=np.float64) - self.center) / self.deviation


@dataclass(frozen=True)
class BoundedSurface:
    """f within a radius, constant along the rays from the center beyond, with values near those of the rows around.

    The radius is of u = (t - center) / deviation.
    """

    function: Any
    center: np.ndarray
    deviation: np.ndarray
    radius: float
    near: Near

    def __call__(self, indices: Any) -> np.ndarray:
        inside, _, _ = self._inside(indices)
        return self.near.kept(self.function(inside), inside)

    def slopes(self, indices: Any) -> np.ndarray:
        inside, u, pull = self._inside(indices)
        values = self.function(inside)
        least, most = self.near.range(inside)
        # beyond the radius nothing changes along the ray, and across it by the share `pull`
        slopes = pull * self.function.slopes(inside) * self.deviation
        ray = u / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1e-300)
        slopes -= np.where(pull < 1, np.sum(slopes * ray, axis=1, keepdims=True) * ray, 0.0)
        return np.where(((values >= least) & (values <= most))[:, None], slopes / self.deviation, 0.0)

    def _inside(self, indices: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        u = (np.asarray(indices, dtype=np.float64) - self.center) / self.deviation
        norms = np.linalg.norm(u, axis=1, keepdims=True)
        pull = np.minimum(1.0, self.radius / np.maximum(norms, 1e-300))
        return self.center + pull * u * self.deviation, u, pull


@dataclass(frozen=True)
class OneLink:
    """A link of one index as a function of a matrix of one column."""

    link: IndexLink

    def __call__(self, indices: Any) -> np.ndarray:
        return self.link(np.asarray(indices)[:, 0])

    def slopes(self, indices: Any) -> np.ndarray:
        return self.link.slope(np.asarray(indices)[:, 0])[:, None]


@dataclass(frozen=True)
class AffineSurface:
    """intercept + scale f(factors (t - origin)): a function in other units of its indices and values."""

    function: Any
    intercept: float
    scale: float
    origin: np.ndarray
    factors: np.ndarray

    def __call__(self, indices: Any) -> np.ndarray:
        inside = (np.asarray(indices, dtype=np.float64) - self.origin) * self.factors
        return self.intercept + self.scale * self.function(inside)

    def slopes(self, indices: Any) -> np.ndarray:
        inside = (np.asarray(indices, dtype=np.float64) - self.origin) * self.factors
        return self.scale * self.function.slopes(inside) * self.factors


@dataclass(frozen=True)
class SurfaceSmoother:
    """'p3' is a polynomial of total degree 3, 't40' a spline with 40 knots at the rows `places`."""

    kind: str
    places: np.ndarray

    def __call__(self, indices: np.ndarray, labels: np.ndarray) -> IndexFit:
        size = int(self.kind[1:])
        if self.kind[0] == "p":
            return polynomial_fit(indices, labels, size)
        return spline_fit(indices, labels, indices[self.places[:size]])


def bounded(kind: str, knots: np.ndarray, indices: np.ndarray, labels: np.ndarray) -> BoundedSurface:
    """The fitted function as far as the rows support it; `knots` are the rows at which a spline has them.

    It is constant beyond their largest radius, with values near those of the labels around. If, fitted without the
    outer 2% of the rows, it predicts them better than so, it goes on for a tenth of the radius.
    """
    u = (indices - indices.mean(axis=0)) / _deviation(indices)
    order = np.argsort(np.linalg.norm(u, axis=1), kind="stable")
    count = max(int(_OUTER * len(labels)), _FEWEST_OUTER)
    inner, outer = order[:-count], order[-count:]
    place = np.full(len(labels), -1)
    place[inner] = np.arange(len(inner))
    smoother = SurfaceSmoother(kind, (inside := place[knots])[inside >= 0])
    function = smoother(indices[inner], labels[inner]).function
    goes_on, stays = (
        mean_square(labels[outer] - one(indices[outer]))
        for one in (function, _bounded(function, indices[inner], labels[inner], 1.0))
    )
    function = SurfaceSmoother(kind, knots)(indices, labels).function
    return _bounded(function, indices, labels, _FARTHEST if goes_on < stays else 1.0)


def _bounded(function: Any, indices: np.ndarray, labels: np.ndarray, farthest: float) -> BoundedSurface:
    center, deviation = indices.mean(axis=0), _deviation(indices)
    radius = farthest * float(np.linalg.norm((indices - center) / deviation, axis=1).max())
    return BoundedSurface(function, center, deviation, radius, Near(indices, labels))


def surface_kinds(n: int, count: int) -> tuple[str, ...]:
    """The functions of so many indices that n rows can tell apart."""
    degrees = tuple(f"p{q}" for q in DEGREES if _ROWS_PER_COEFFICIENT * len(_exponents(count, q)) <= n or q == 1)
    return degrees + tuple(f"t{k}" for k in KNOTS if _ROWS_PER_KNOT * k <= n and k > count + 2)


def polynomial_fit(indices: np.ndarray, labels: np.ndarray, degree: int) -> IndexFit:
    """Least squares with all products of h_k of total degree at most `degree`."""
    center, deviation = indices.mean(axis=0), _deviation(indices)
    u = (indices - center) / deviation
    exponents = _exponents(indices.shape[1], degree)
    basis = _products(u, exponents)
    coefficients, inverse = least_squares(basis, labels)
    values = basis @ coefficients
    function = PolynomialSurface(exponents, coefficients, center, deviation)
    return IndexFit(function, values, basis, inverse, mean_square(labels - values), float(len(exponents)))


def spline_fit(indices: np.ndarray, labels: np.ndarray, knots: np.ndarray) -> IndexFit:
    """The polyharmonic spline of order 3 with these knots whose penalty has least GCV.

    f = linear + sum_j c_j |t - knot_j|^3 with sum_j c_j (1, knot_j) = 0 and the penalty c^T E c, E = |knot - knot|^3,
    which is positive there in any dimension; in one dimension it is the cubic smoothing spline. One eigendecomposition
    serves all penalties. Source: Duchon (1977), Wahba (1990), Wood (2003).
    """
    n, count = indices.shape
    flat = np.column_stack([np.ones(n), indices])
    turned = np.linalg.qr(np.column_stack([np.ones(len(knots)), knots]), mode="complete")[0][:, count + 1 :]
    values, vectors = np.linalg.eigh(turned.T @ distances(knots, knots) ** 3 @ turned)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    back = turned @ (vectors[:, kept] / np.sqrt(values[kept]))
    bent = distances(indices, knots) ** 3 @ back
    # the linear part is free of penalty: project it off
    base = np.linalg.qr(flat)[0]
    projected = bent - base @ (base.T @ bent)
    target = labels - base @ (base.T @ labels)
    spectrum, axes = np.linalg.eigh(projected.T @ projected)
    spectrum = np.maximum(spectrum, 0.0)
    moments = axes.T @ (projected.T @ target)
    penalties = _PENALTIES * max(float(spectrum[-1]), 1e-300)
    total = float(target @ target)
    shares = 1 / (spectrum + penalties[:, None])
    errors = np.maximum(total - (2 * shares - spectrum * shares**2) @ moments**2, 0.0) / n
    freedoms = (spectrum * shares).sum(axis=1) + count + 1
    best = int(np.argmin(errors / np.maximum(1 - FREEDOM_COST * freedoms / n, 1 / n) ** 2))
    basis = np.column_stack([base, projected @ axes])
    inverse = np.diag(np.concatenate([np.ones(base.shape[1]), shares[best]]))
    inner = axes @ (shares[best] * moments)
    weights = back @ inner
    linear = np.linalg.lstsq(flat, labels - bent @ inner, rcond=_ROUNDING)[0]
    function = Surface(np.array(knots), weights, float(linear[0]), linear[1:])
    fitted = flat @ linear + bent @ inner
    return IndexFit(function, fitted, basis, inverse, mean_square(labels - fitted), float(freedoms[best]))


def _deviation(indices: np.ndarray) -> np.ndarray:
    deviation = indices.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    squares = np.zeros((len(left), len(right)))
    for one, other in zip(left.T, right.T, strict=True):
        squares += np.subtract.outer(one, other) ** 2
    return np.sqrt(squares)


@cache
def _exponents(count: int, degree: int) -> tuple[tuple[int, ...], ...]:
    return tuple(e for e in product(range(degree + 1), repeat=count) if sum(e) <= degree)


def _products(u: np.ndarray, exponents: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """(n, terms): products of h_k, one per column of u."""
    powers = np.array(exponents)
    values = Hermite().values(u, int(powers.max()))
    result = np.ones((len(u), len(powers)))
    for j in range(u.shape[1]):
        result *= values[powers[:, j], :, j].T
    return result
