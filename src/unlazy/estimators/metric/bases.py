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
        self.kernels = {e: metric_product(rows, rows, w, _NO_COLUMNS) for e, w in self.weights.items()}

    def _starts(self, rows: np.ndarray) -> Starts:
        targets = self.scaled.targets[rows]
        kernels = {e: centred_kernel(kernel, rows) for e, kernel in self.kernels.items()}
        return start_metrics(kernels, targets - targets.mean(axis=0))

    def _metric(self, start: StartMetric) -> np.ndarray:
        return start.scale * self.weights[start.exponent]

    def split(self, train: np.ndarray, held: np.ndarray) -> Split:
        starts = self._starts(train)
        rows = self.scaled.rows
        mean = rows[train].mean(axis=0)
        centred = SplitRows(rows[train] - mean, rows[held] - mean)
        fold = make_fold(centred, self._metric(starts.best), _centred_targets(self.scaled, train, held), held)
        return Split(fold, fold._replace(start=self._metric(starts.ridge)), starts)

    def whole(self, ridge: bool) -> Whole:
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
        self.kernel = metric_product(rows, rows, scaled.weights(0.0), _NO_COLUMNS)

    def _components(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the kernel of the centred rows, largest first, and eigenvectors."""
        values, vectors = np.linalg.eigh(centred_kernel(self.kernel, rows))
        kept = values > max(values[-1], 0.0) * _LEAST_COMPONENT
        if not kept.any():
            # the features do not vary in these rows: one component that is 0
            return np.ones(1), np.zeros((len(rows), 1))
        return values[kept][::-1], vectors[:, kept][:, ::-1]

    def _starts(self, values: np.ndarray, vectors: np.ndarray, targets: np.ndarray) -> Starts:
        shapes = {e: _shape(values, e) for e in self.exponents}
        return start_metrics({e: (vectors * (values * shape)) @ vectors.T for e, shape in shapes.items()}, targets)

    def split(self, train: np.ndarray, held: np.ndarray) -> Split:
        values, vectors = self._components(train)
        own = self.kernel[np.ix_(train, train)]
        cross = self.kernel[np.ix_(held, train)]
        cross = cross - cross.mean(axis=1, keepdims=True) - own.mean(axis=0) + own.mean()
        every = SplitRows(vectors * np.sqrt(values), cross @ vectors / np.sqrt(values))
        targets = _centred_targets(self.scaled, train, held)
        starts = self._starts(values, vectors, targets.train)
        metrics = [start.scale * _shape(values, start.exponent) for start in starts]
        fold = make_fold(every, metrics[0], targets, held)
        return Split(fold, fold._replace(start=metrics[1]), starts)

    def whole(self, ridge: bool) -> Whole:
        values, vectors = self._components(np.arange(len(self.kernel)))
        starts = self._starts(values, vectors, self.scaled.targets)
        start = starts.ridge if ridge else starts.best
        design = vectors * np.sqrt(values)
        return Whole(design, design, start.scale * _shape(values, start.exponent), start.exponent)

    def directions(self) -> np.ndarray:
        """Orthonormal principal directions, (d, components), of the features relative to the largest deviation."""
        values, vectors = self._components(np.arange(len(self.kernel)))
        return self.scaled.relative_deviations()[:, None] * (self.scaled.exact_rows.T @ (vectors / np.sqrt(values)))

    def coefficients(self, metric: np.ndarray, dual: np.ndarray) -> np.ndarray:
        values, vectors = self._components(np.arange(len(self.kernel)))
        weighted = metric[:, None] * ((vectors * np.sqrt(values)).T @ dual)
        return self.scaled.relative_deviations()[:, None] * (self.directions() @ weighted)

    def original_metric(self, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        largest = float(np.max(self.scaled.log_deviation))
        log_unit = 2 * (self.scaled.log_target_deviation - (largest if np.isfinite(largest) else 0.0))
        return self.scaled.in_units(metric, log_unit), self.directions().T


def _shape(values: np.ndarray, exponent: float) -> np.ndarray:
    """variance^exponent of the components, at most 1."""
    shape = (values / values[0]) ** exponent
    return shape / shape.max()


def _centred_targets(scaled: Scaled, train: np.ndarray, held: np.ndarray) -> SplitRows:
    mean = scaled.targets[train].mean(axis=0)
    return SplitRows(scaled.targets[train] - mean, scaled.targets[held] - mean)
