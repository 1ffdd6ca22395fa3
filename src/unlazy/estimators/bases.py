"""What a diagonal metric can weigh: the features, or the principal components of the design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from unlazy.estimators.metric_search import Fold, Rows, make_fold
from unlazy.estimators.scaling import Scaled
from unlazy.estimators.start_metric import StartMetric, centred_kernel, start_metric
from unlazy.numerics.metric_path import metric_product

_NO_COLUMNS = np.array([], dtype=int)
_LEAST_COMPONENT = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-11}


class Whole(NamedTuple):
    """All rows in one basis."""

    design: np.ndarray
    start: np.ndarray
    chosen: StartMetric


class Basis(Protocol):
    """The columns that a metric weighs, of a part of the rows or of all."""

    name: str

    def fold(self, train: np.ndarray, held: np.ndarray) -> tuple[Fold, StartMetric]: ...

    def whole(self) -> Whole: ...

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

    def _start(self, rows: np.ndarray) -> tuple[np.ndarray, StartMetric]:
        targets = self.scaled.targets[rows]
        kernels = {e: centred_kernel(kernel, rows) for e, kernel in self.kernels.items()}
        chosen = start_metric(kernels, targets - targets.mean(axis=0))
        return chosen.scale * self.weights[chosen.exponent], chosen

    def fold(self, train: np.ndarray, held: np.ndarray) -> tuple[Fold, StartMetric]:
        start, chosen = self._start(train)
        rows = self.scaled.rows
        mean = rows[train].mean(axis=0)

        return make_fold(
            Rows(rows[train] - mean, rows[held] - mean), start, _centred_targets(self.scaled, train, held)
        ), chosen

    def whole(self) -> Whole:
        start, chosen = self._start(np.arange(len(self.scaled.rows)))
        return Whole(self.scaled.rows, start, chosen)

    def coefficients(self, metric: np.ndarray, dual: np.ndarray) -> np.ndarray:
        active = np.flatnonzero(metric)
        result = np.zeros((len(metric), dual.shape[1]))
        result[active] = metric[active, None] * (self.scaled.rows[:, active].T @ dual)
        return result

    def original_metric(self, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return self.scaled.original_metric(metric), None


class ComponentBasis:
    """The principal components of the features in their own units, with the scale of each."""

    name = "pca"

    def __init__(self, scaled: Scaled, exponents: Sequence[float], kernel: np.ndarray | None = None):
        self.scaled = scaled
        self.exponents = exponents
        if kernel is None:
            kernel = metric_product(scaled.rows, scaled.rows, scaled.weights(0.0), _NO_COLUMNS)
        self.kernel = kernel

    def _components(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the kernel of the centred rows, largest first, and eigenvectors."""
        values, vectors = np.linalg.eigh(centred_kernel(self.kernel, rows))
        kept = values > max(values[-1], 0.0) * _LEAST_COMPONENT[self.scaled.rows.dtype]
        if not kept.any():
            # the features do not vary in these rows: one component that is 0
            return np.ones(1), np.zeros((len(rows), 1))
        return values[kept][::-1], vectors[:, kept][:, ::-1]

    def _start(self, values: np.ndarray, vectors: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, StartMetric]:
        shapes = {e: (values / values[0]) ** e for e in self.exponents}
        shapes = {e: shape / shape.max() for e, shape in shapes.items()}
        kernels = {e: (vectors * (values * shape)) @ vectors.T for e, shape in shapes.items()}
        chosen = start_metric(kernels, targets)
        return chosen.scale * shapes[chosen.exponent], chosen

    def fold(self, train: np.ndarray, held: np.ndarray) -> tuple[Fold, StartMetric]:
        values, vectors = self._components(train)
        own = self.kernel[np.ix_(train, train)]
        cross = self.kernel[np.ix_(held, train)]
        cross = cross - cross.mean(axis=1, keepdims=True) - own.mean(axis=0) + own.mean()
        every = Rows(vectors * np.sqrt(values), cross @ vectors / np.sqrt(values))
        targets = _centred_targets(self.scaled, train, held)
        start, chosen = self._start(values, vectors, targets.train)
        return make_fold(every, start, targets), chosen

    def whole(self) -> Whole:
        values, vectors = self._components(np.arange(len(self.kernel)))
        start, chosen = self._start(values, vectors, self.scaled.targets)
        return Whole(vectors * np.sqrt(values), start, chosen)

    def directions(self) -> np.ndarray:
        """Orthonormal principal directions, (d, components), of the features relative to the largest deviation."""
        values, vectors = self._components(np.arange(len(self.kernel)))
        return self.scaled.relative_deviations()[:, None] * (self.scaled.rows.T @ (vectors / np.sqrt(values)))

    def coefficients(self, metric: np.ndarray, dual: np.ndarray) -> np.ndarray:
        values, vectors = self._components(np.arange(len(self.kernel)))
        weighted = metric[:, None] * ((vectors * np.sqrt(values)).T @ dual)
        return self.scaled.relative_deviations()[:, None] * (self.directions() @ weighted)

    def original_metric(self, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        log_unit = 2 * (self.scaled.log_target_deviation - np.max(self.scaled.log_deviation))
        return self.scaled.in_units(metric, log_unit), self.directions().T


def _centred_targets(scaled: Scaled, train: np.ndarray, held: np.ndarray) -> Rows:
    mean = scaled.targets[train].mean(axis=0)
    return Rows(scaled.targets[train] - mean, scaled.targets[held] - mean)
