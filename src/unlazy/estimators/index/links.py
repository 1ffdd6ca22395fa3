"""Links of one index, y ~ g(t): polynomials and penalised splines, their slopes, and which of them to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from unlazy.estimators.index.newton import FREEDOM_COST, IndexFit, least_squares, mean_square
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.splines.uniform import bending, uniform_basis, uniform_spline

DEGREES = tuple(range(1, 9))
KNOTS = (8, 16, 32)
SMOOTH_KNOTS = 8
_ROWS_PER_KNOT = 12
# the penalty makes the coarsest spline fit for few rows
_ROWS_PER_SMOOTH_KNOT = 4
_PENALTIES = np.logspace(-6, 4, 21)
# of the range of t on either side: beyond it every link is constant
_FARTHEST = 0.25
# of the deviation of y: a continued polynomial must be known that well
_LARGEST_ERROR = 0.5
# or of its distance from the mean of y
_RELATIVE_ERROR = 0.1
_CONTINUED = 41
# polynomials of this degree and more must prove on the outer rows that they can be continued
_STEEP_DEGREE = 5
# share of the rows on each side, and the largest squared error in units of that of a spline
_OUTER_TESTS = ((0.01, 1.0), (0.05, 10.0))
_FEWEST_OUTER = 2
_ROUNDING = 1e-12
_TINY = 1e-300


class IndexLink(Protocol):
    """g of an index t, with its derivative."""

    def __call__(self, index: Any) -> np.ndarray: ...

    def slope(self, index: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class Affine:
    """intercept + scale link(t): a link, shrunk and in the units of y."""

    link: IndexLink
    intercept: float
    scale: float

    def __call__(self, index: Any) -> np.ndarray:
        return self.intercept + self.scale * self.link(index)

    def slope(self, index: Any) -> np.ndarray:
        return self.scale * self.link.slope(index)


@dataclass(frozen=True)
class BoundedLink:
    """A link that is constant below `low` and above `high`, with values from `least` to `most`."""

    link: IndexLink
    low: float
    high: float
    least: float = -np.inf
    most: float = np.inf

    def __call__(self, index: Any) -> np.ndarray:
        inside = np.clip(np.asarray(index, dtype=np.float64), self.low, self.high)
        return np.clip(self.link(inside), self.least, self.most)

    def slope(self, index: Any) -> np.ndarray:
        index = np.asarray(index, dtype=np.float64)
        inside = np.clip(index, self.low, self.high)
        values = self.link(inside)
        return np.where(
            (index == inside) & (values >= self.least) & (values <= self.most), self.link.slope(inside), 0.0
        )


@dataclass(frozen=True)
class PolynomialLink:
    """sum_k c_k h_k((t - center) / deviation), h_k = He_k / sqrt(k!)."""

    coefficients: tuple[float, ...]
    center: float
    deviation: float

    def __call__(self, index: Any) -> np.ndarray:
        return np.tensordot(np.array(self.coefficients), self._basis(index), 1)

    def slope(self, index: Any) -> np.ndarray:
        slopes = np.sqrt(np.arange(1, len(self.coefficients))) * np.array(self.coefficients[1:])
        return np.tensordot(slopes, self._basis(index)[:-1], 1) / self.deviation

    def _basis(self, index: Any) -> np.ndarray:
        index = np.asarray(index, dtype=np.float64)
        return _hermite(index, self.center, self.deviation, len(self.coefficients) - 1)


@dataclass(frozen=True)
class SplineLink:
    """A cubic spline with uniform knots from `low` to `high`, straight beyond."""

    coefficients: tuple[float, ...]
    low: float
    high: float

    def __call__(self, index: Any) -> np.ndarray:
        return self._at(index, 0)

    def slope(self, index: Any) -> np.ndarray:
        return self._at(index, 1)

    def _at(self, index: Any, derivative: int) -> np.ndarray:
        index = np.asarray(index, dtype=np.float64)
        return uniform_spline(index, np.array(self.coefficients), self.low, self.high, derivative)


def polynomial_fit(index: np.ndarray, labels: np.ndarray, degree: int) -> IndexFit:
    """Least squares with h_0, ..., h_degree of the standardised index; not yet limited to where it is known."""
    center, deviation = float(index.mean()), _deviation(index)
    basis = _hermite(index, center, deviation, degree).T
    coefficients, inverse = least_squares(basis, labels)
    values = basis @ coefficients
    link = PolynomialLink(tuple(coefficients.tolist()), center, deviation)
    return IndexFit(link, values, basis, inverse, mean_square(labels - values), degree + 1.0)


def spline_fit(index: np.ndarray, labels: np.ndarray, knots: int = SMOOTH_KNOTS) -> IndexFit:
    """Cubic spline with a penalty on second differences whose weight has least GCV (Eilers and Marx 1996).

    One generalised eigendecomposition serves all weights. The knots reach over the middle 99% of the index, the spline
    is straight beyond, so that far rows do not take the knots of the others.
    """
    low, high = _middle(index)
    basis = uniform_basis(index, low, high, knots)
    gram, moment = basis.T @ basis, basis.T @ labels
    size = len(gram)
    jitter = _ROUNDING * np.trace(gram) / size
    gram.flat[:: size + 1] += max(jitter, _TINY)
    root = np.linalg.inv(np.linalg.cholesky(gram))
    values, vectors = np.linalg.eigh(root @ bending(size) @ root.T)
    back = root.T @ vectors
    projected = back.T @ moment
    # relative to the middle of the spectrum, so that neither n nor the number of knots matters
    weights = _PENALTIES / max(float(values[size // 2 + 1]), _TINY)
    kept = 1 / (1 + weights[:, None] * np.maximum(values, 0.0))
    total = float(labels @ labels)
    errors = np.maximum(total - (2 * kept - kept**2) @ projected**2, 0.0) / labels.size
    free = np.maximum(1 - FREEDOM_COST * kept.sum(axis=1) / labels.size, 1 / labels.size)
    best = int(np.argmin(errors / free**2))
    inverse = (back * kept[best]) @ back.T
    coefficients = inverse @ moment
    fitted = basis @ coefficients
    link = SplineLink(tuple(coefficients.tolist()), low, high)
    return IndexFit(link, fitted, basis, inverse, mean_square(labels - fitted), float(kept[best].sum()))


def fit_kind(index: np.ndarray, labels: np.ndarray, kind: str) -> IndexFit:
    """'p3' is a polynomial of degree 3, 's16' a spline of 16 intervals."""
    size = int(kind[1:])
    return polynomial_fit(index, labels, size) if kind[0] == "p" else spline_fit(index, labels, size)


def kinds(n: int, distinct: int) -> tuple[str, ...]:
    """The links that n rows with so many distinct indices can tell apart."""
    most = min(n // _ROWS_PER_KNOT, distinct // 2)
    degrees = tuple(f"p{degree}" for degree in DEGREES if degree < min(distinct, n // 3))
    smooth = min(n // _ROWS_PER_SMOOTH_KNOT, distinct // 2) >= SMOOTH_KNOTS
    return degrees + tuple(f"s{knots}" for knots in KNOTS if knots <= most or (smooth and knots == SMOOTH_KNOTS))


def kind_scores(
    index: np.ndarray, labels: np.ndarray, allowed: tuple[str, ...], spent: float = 0.0
) -> dict[str, float]:
    """The `information` of every link, the least first, `spent` for what else has been fitted."""
    scores = {kind: fit_kind(index, labels, kind).information(labels, spent) for kind in allowed}
    return dict(sorted(scores.items(), key=lambda one: one[1]))


def choose_kind(index: np.ndarray, labels: np.ndarray, allowed: tuple[str, ...], spent: float = 0.0) -> str:
    """The link of least score."""
    return next(iter(kind_scores(index, labels, allowed, spent)))


def continues(index: np.ndarray, labels: np.ndarray, kind: str) -> bool:
    """Whether a link can be trusted beyond the rows: all can but polynomials of degree 5 and more, if they fail a test.

    Left out are the outer 1% of the rows on each side, at least 2. A polynomial fitted to the others must predict them
    better than a spline that goes on straight, and the outer 5% not 10 times worse. At 500 rows the squared error of
    wrong ones (degrees 5 to 8 for relu, abs, tanh) is tens to thousands of times that of the spline, that of the right
    one for He5 a hundredth.
    """
    degree = int(kind[1:])
    if kind[0] != "p" or degree < _STEEP_DEGREE:
        return True
    for share, most in _OUTER_TESTS:
        inner, outer = _without_outer(index, share)
        if np.unique(index[inner]).size <= max(degree, SMOOTH_KNOTS):
            return False
        fits = polynomial_fit(index[inner], labels[inner], degree), spline_fit(index[inner], labels[inner])
        polynomial, spline = (mean_square(labels[outer] - fit.function(index[outer])) for fit in fits)
        if polynomial >= most * spline:
            return False
    return True


def _predicts_outer_rows(index: np.ndarray, labels: np.ndarray, kind: str) -> bool:
    """Whether the link, fitted without the outer 1% on each side, predicts them better than if it stayed constant."""
    inner, outer = _without_outer(index, _OUTER_TESTS[0][0])
    if np.unique(index[inner]).size <= max(int(kind[1:]), SMOOTH_KNOTS):
        return False
    link = fit_kind(index[inner], labels[inner], kind).function
    constant = BoundedLink(link, float(index[inner[0]]), float(index[inner[-1]]))
    goes_on, stays = (mean_square(labels[outer] - one(index[outer])) for one in (link, constant))
    return goes_on < stays


def _without_outer(index: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The rows in the order of the index but such a share on each side, and those."""
    order = np.argsort(index, kind="stable")
    outer = max(int(share * index.size), _FEWEST_OUTER)
    return order[outer:-outer], np.r_[order[:outer], order[-outer:]]


def reach(fit: IndexFit, kind: str, index: np.ndarray, labels: np.ndarray, spent: float = 0.0) -> tuple[float, float]:
    """The interval on which a link is known, that of the rows or more; it is constant beyond.

    A link that `continues`, and that predicts the outer rows from the others, goes on beyond them by at most a quarter
    of their range, a polynomial as long as its standard error is below half the deviation of y or a tenth of its
    distance from the mean of y. Without that the tails of polynomials would be cut, which hold most of their variance.
    """
    low, high = float(index.min()), float(index.max())
    if not (continues(index, labels, kind) and _predicts_outer_rows(index, labels, kind)):
        return low, high
    noise = fit.error * labels.size / max(labels.size - fit.freedom - spent, 1.0)
    link = fit.function

    def end(start: float, sign: int) -> float:
        places = start + sign * _FARTHEST * (high - low) * np.linspace(0, 1, _CONTINUED)
        if not isinstance(link, PolynomialLink):
            return float(places[-1])
        values = _hermite(places, link.center, link.deviation, len(link.coefficients) - 1)
        distance = link(places) - labels.mean()
        variance = noise * np.einsum("kp,kl,lp->p", values, fit.inverse, values)
        bad = variance > _LARGEST_ERROR**2 * labels.var() + (_RELATIVE_ERROR * distance) ** 2
        return float(places[max(int(np.argmax(bad)) - 1, 0)] if bad.any() else places[-1])

    return end(low, -1), end(high, 1)


def limited(fit: IndexFit, kind: str, index: np.ndarray, labels: np.ndarray, spent: float = 0.0) -> BoundedLink:
    """The fitted link where it is known, constant beyond, with no values but those of the labels and of its ends.

    Between far rows a polynomial may swing as wildly as beyond them: the last bound is for those gaps.
    """
    low, high = reach(fit, kind, index, labels, spent)
    values = (*fit.function(np.array([low, high])), labels.min(), labels.max())
    return BoundedLink(fit.function, low, high, float(min(values)), float(max(values)))


def _hermite(index: np.ndarray, center: float, deviation: float, degree: int) -> np.ndarray:
    return Hermite().values((index - center) / deviation, degree)


def _deviation(values: np.ndarray) -> float:
    found = float(values.std())
    return found if found > 0 else 1.0


def _middle(index: np.ndarray) -> tuple[float, float]:
    """All but the outer 0.5% on each side, or everything if that has no width."""
    cut = index.size // 200
    ordered = np.partition(index, (cut, index.size - 1 - cut)) if cut else np.array([index.min(), index.max()])
    low, high = float(ordered[cut]), float(ordered[ordered.size - 1 - cut])
    if high - low <= _ROUNDING * max(abs(low), abs(high)):
        low, high = float(index.min()), float(index.max())
    return (low, high) if high > low else (low - 0.5, low + 0.5)
