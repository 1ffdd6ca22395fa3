"""What a diagonal metric can weigh: the features, or the principal components of the design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from unlazy.estimators.common.scaling import Scaled
from unlazy.estimators.metric.search import Fold, SplitRows, make_fold
from unlazy.estimators.metric.start import StartMetric, Starts, centred_kernel, start_metrics
from unlazy.numerics.metric_path import metric_product

_NO_COLUMNS = np.array([], dtype=int)
_LEAST_COMPONENT = 1e-10


class Split(NamedTuple):
    """One fold, whose path starts where evidence is largest, and the same fold at ridge."""

    fold: Fold
    ridge: Fold
    starts: Starts


class Whole(NamedTuple):
    """All rows in one basis."""

    design: np.ndarray
    """In the precision in which a metric is learned."""
    exact_design: np.ndarray
    """In double precision."""
    start: np.ndarray
    exponent: float
    span: np.ndarray | None = None
    """(n, k): the basis, orthonormal, in which k rows stand for n; None where they stand for themselves."""


class Basis(Protocol):
    """The columns that a metric weighs, of a part of the rows or of all."""

    name: str

    def split(self, train: np.ndarray, held: np.ndarray) -> Split: ...

    def whole(self, ridge: bool) -> Whole:
        """With the start of ridge, or with that of the largest evidence."""
        ...

    def coefficients(self, metric: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """Coefficients of the scaled features, M X^T dual."""
        ...

    def original_metric(self, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The metric in the units of X and y, and the directions it weighs as rows, None for the features."""
        ...


class FeatureBasis:
    """The features themselves."""

    name = "features"

    def __init__(self, scaled: Scaled, exponents: Sequence[float], groups: np.ndarray | None = None):
        self.scaled = scaled
        self.weights = {exponent: scaled.weights(exponent, groups) for exponent in exponents}
        rows = scaled.rows
        self.is_tall = _is_tall(rows)
        if not self.is_tall:
            self.kernels = {e: metric_product(rows, rows, w, _NO_COLUMNS) for e, w in self.weights.items()}

    def _tall_starts(self, span: np.ndarray, rows: np.ndarray, targets: np.ndarray) -> Starts:
        kernels = {e: (rows * weights) @ rows.T for e, weights in self.weights.items()}
        return _starts_in(span, kernels, targets)

    def _starts(self, rows: np.ndarray) -> Starts:
        targets = self.scaled.targets[rows]
        kernels = {e: centred_kernel(kernel, rows) for e, kernel in self.kernels.items()}
        return start_metrics(kernels, targets - targets.mean(axis=0))

    def _metric(self, start: StartMetric) -> np.ndarray:
        return start.scale * self.weights[start.exponent]

    def split(self, train: np.ndarray, held: np.ndarray) -> Split:
        if self.is_tall:
            return self._tall_split(train, held)
        starts = self._starts(train)
        rows = self.scaled.rows
        mean = rows[train].mean(axis=0)
        centred = SplitRows(rows[train] - mean, rows[held] - mean)
        fold = make_fold(centred, self._metric(starts.best), _centred_targets(self.scaled, train, held), held)
        return Split(fold, fold._replace(start=self._metric(starts.ridge)), starts)

    def _tall_split(self, train: np.ndarray, held: np.ndarray) -> Split:
        rows, dtype = self.scaled.exact_rows, self.scaled.rows.dtype
        mean = rows[train].mean(axis=0)
        span, triangle = np.linalg.qr(rows[train] - mean)
        targets = _centred_targets(self.scaled, train, held)
        starts = self._tall_starts(span, triangle, targets.train)
        both = SplitRows(triangle.astype(dtype), (rows[held] - mean).astype(dtype))
        fold = make_fold(both, self._metric(starts.best), targets, held, span)
        return Split(fold, fold._replace(start=self._metric(starts.ridge)), starts)

    def whole(self, ridge: bool) -> Whole:
        if self.is_tall:
            span, triangle = np.linalg.qr(self.scaled.exact_rows)
            starts = self._tall_starts(span, triangle, self.scaled.targets)
            start = starts.ridge if ridge else starts.best
            design = triangle.astype(self.scaled.rows.dtype)
            return Whole(design, triangle, self._metric(start), start.exponent, span)
        starts = self._starts(np.arange(len(self.scaled.rows)))
        start = starts.ridge if ridge else starts.best
        return Whole(self.scaled.rows, self.scaled.exact_rows, self._metric(start), start.exponent)

    def coefficients(self, metric: np.ndarray, dual: np.ndarray) -> np.ndarray:
        active = np.flatnonzero(metric)
        result = np.zeros((len(metric), dual.shape[1]))
        result[active] = metric[active, None] * (self.scaled.exact_rows[:, active].T @ dual)
        return result

    def original_metric(self, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return self.scaled.original_metric(metric), None


class ComponentBasis:
    """The principal components of the features in their own units, with the scale of each."""

    name = "pca"

    def __init__(self, scaled: Scaled, exponents: Sequence[float]):
        self.scaled = scaled
        self.exponents = exponents
        # in double precision, since weak components are small differences of large numbers
        rows = scaled.exact_rows
        self.is_tall = _is_tall(rows)
        self.rows = rows * np.sqrt(scaled.weights(0.0))
        if not self.is_tall:
            self.kernel = metric_product(rows, rows, scaled.weights(0.0), _NO_COLUMNS)

    def _components(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the kernel of the centred rows, largest first, and eigenvectors."""
        if self.is_tall:
            values, right = self._directions_of(rows)
            centred = self.rows[rows] - self.rows[rows].mean(axis=0)
            return values, centred @ (right / np.sqrt(values))
        values, vectors = np.linalg.eigh(centred_kernel(self.kernel, rows))
        kept = values > max(values[-1], 0.0) * _LEAST_COMPONENT
        if not kept.any():
            # the features do not vary in these rows: one component that is 0
            return np.ones(1), np.zeros((len(rows), 1))
        return values[kept][::-1], vectors[:, kept][:, ::-1]

    def _directions_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same eigenvalues, and eigenvectors (d, k) of the centred columns."""
        centred = self.rows[rows] - self.rows[rows].mean(axis=0)
        values, right = np.linalg.eigh(centred.T @ centred)
        kept = values > max(values[-1], 0.0) * _LEAST_COMPONENT
        if not kept.any():
            return np.ones(1), np.zeros((len(values), 1))
        return values[kept][::-1], right[:, kept][:, ::-1]

    def _starts(self, values: np.ndarray, vectors: np.ndarray, targets: np.ndarray) -> Starts:
        shapes = {e: _shape(values, e) for e in self.exponents}
        if self.is_tall:
            return _starts_in(vectors, {e: np.diag(values * shape) for e, shape in shapes.items()}, targets)
        return start_metrics({e: (vectors * (values * shape)) @ vectors.T for e, shape in shapes.items()}, targets)

    def split(self, train: np.ndarray, held: np.ndarray) -> Split:
        values, vectors = self._components(train)
        if self.is_tall:
            outer = (self.rows[held] - self.rows[train].mean(axis=0)) @ self._directions_of(train)[1]
            every = SplitRows(np.diag(np.sqrt(values)), outer)
        else:
            own = self.kernel[np.ix_(train, train)]
            cross = self.kernel[np.ix_(held, train)]
            cross = cross - cross.mean(axis=1, keepdims=True) - own.mean(axis=0) + own.mean()
            every = SplitRows(vectors * np.sqrt(values), cross @ vectors / np.sqrt(values))
        targets = _centred_targets(self.scaled, train, held)
        starts = self._starts(values, vectors, targets.train)
        metrics = [start.scale * _shape(values, start.exponent) for start in starts]
        fold = make_fold(every, metrics[0], targets, held, vectors if self.is_tall else None)
        return Split(fold, fold._replace(start=metrics[1]), starts)

    def whole(self, ridge: bool) -> Whole:
        values, vectors = self._components(np.arange(len(self.rows)))
        starts = self._starts(values, vectors, self.scaled.targets)
        start = starts.ridge if ridge else starts.best
        metric = start.scale * _shape(values, start.exponent)
        if self.is_tall:
            design = np.diag(np.sqrt(values))
            return Whole(design, design, metric, start.exponent, vectors)
        design = vectors * np.sqrt(values)
        return Whole(design, design, metric, start.exponent)

    def directions(self) -> np.ndarray:
        """Orthonormal principal directions, (d, components), of the features relative to the largest deviation."""
        values, vectors = self._components(np.arange(len(self.rows)))
        return self.scaled.relative_deviations()[:, None] * (self.scaled.exact_rows.T @ (vectors / np.sqrt(values)))

    def coefficients(self, metric: np.ndarray, dual: np.ndarray) -> np.ndarray:
        values, vectors = self._components(np.arange(len(self.rows)))
        weighted = metric[:, None] * ((vectors * np.sqrt(values)).T @ dual)
        return self.scaled.relative_deviations()[:, None] * (self.directions() @ weighted)

    def original_metric(self, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        largest = float(np.max(self.scaled.log_deviation))
        log_unit = 2 * (self.scaled.log_target_deviation - (largest if np.isfinite(largest) else 0.0))
        return self.scaled.in_units(metric, log_unit), self.directions().T


def _is_tall(rows: np.ndarray) -> bool:
    """Whether the training rows of half of them would outnumber the columns: then all that is asked of their products
    is asked of as many rows as there are columns, in a basis of what they span."""
    return len(rows) > 2 * rows.shape[1]


def _starts_in(span: np.ndarray, kernels: dict[float, np.ndarray], targets: np.ndarray) -> Starts:
    inside = span.T @ targets
    outside = float(np.sum(targets**2) - np.sum(inside**2)) / targets.shape[1]
    return start_metrics(kernels, inside, len(targets), max(outside, 0.0))


def _shape(values: np.ndarray, exponent: float) -> np.ndarray:
    """variance^exponent of the components, at most 1."""
    shape = (values / values[0]) ** exponent
    return shape / shape.max()


def _centred_targets(scaled: Scaled, train: np.ndarray, held: np.ndarray) -> SplitRows:
    mean = scaled.targets[train].mean(axis=0)
    return SplitRows(scaled.targets[train] - mean, scaled.targets[held] - mean)
