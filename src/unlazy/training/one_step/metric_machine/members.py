"""One kernel machine whose metric is learned: rounds of fits and gradients, judged on rows that did not teach it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from unlazy.numerics.ridge import left_out_residuals, left_out_solution, ridge_solutions
from unlazy.training.one_step.metric_machine.kernels import (
    DISTANCE,
    SUM,
    LaplaceKernel,
    MetricRows,
    gradient_outer_product,
    in_metric,
)

BANDWIDTHS = tuple(2.0**k for k in range(-3, 5))
POWERS, LINEAR = (1.0, 1.4), (0.0, 1.0, 10.0)
PENALTIES = np.geomspace(1e-6, 1e3, 16)
"""Of a kernel whose diagonal is 1."""
SHAPES = ((0.5, 0.1), (0.5, 0.4), (0.25, 0.1))
"""Exponents of the gradients' outer product, and shares of the identity."""
ROUNDS = 3
_SEARCH_ROWS = 400
_FLIPS = 2
_BLOCK = 4096
Solution = TypeVar("Solution")


class Shape(NamedTuple):
    """How a root is made of gradients."""

    power: float
    share: float
    diagonal: bool


class Fit(NamedTuple):
    """Kernel ridge regression in a metric, at the penalty of least leave-one-out error."""

    metric: MetricRows
    kernel: LaplaceKernel
    penalty: float
    dual: np.ndarray
    residuals: np.ndarray
    """Left out."""

    @property
    def loss(self) -> float:
        return float(np.sum(self.residuals**2))

    def matrix(self, placed: np.ndarray) -> np.ndarray:
        """The kernel of rows in the metric with those of the fit."""
        products = self.metric.products(placed) if self.kernel.linear else None
        return self.kernel.matrix(self.metric.distances(placed), products)

    def predict(self, rows: np.ndarray) -> np.ndarray:
        blocks = [self.matrix(self.metric.placed(block)) @ self.dual for block in _blocks(rows)]
        return np.concatenate(blocks)


class MetricRound(NamedTuple):
    """After so many rounds: how the root was made each time, and what the halves say of each other."""

    kernel: LaplaceKernel
    penalty: float
    shapes: tuple[Shape, ...]
    predictions: np.ndarray
    """(n, outputs), each left out by a fit whose metric the other half taught."""


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    return np.array_split(rows, -(-len(rows) // _BLOCK))


def fit(
    kernel: LaplaceKernel, rows: np.ndarray, targets: np.ndarray, root: np.ndarray, near: float | None = None
) -> Fit:
    """At the penalty of least leave-one-out error; downhill from that next to `near`, if it is given."""
    return fit_in(in_metric(kernel.kind, rows, root), kernel, targets, near)


def fit_in(metric: MetricRows, kernel: LaplaceKernel, targets: np.ndarray, near: float | None = None) -> Fit:
    return _fit(metric, kernel, metric.distances(metric.rows), targets, near)


def _fit(
    metric: MetricRows, kernel: LaplaceKernel, distances: np.ndarray, targets: np.ndarray, near: float | None = None
) -> Fit:
    matrix = kernel.matrix(distances, metric.products(metric.rows) if kernel.linear else None)
    if near is not None:
        found = downhill(
            lambda penalty: left_out_solution(matrix, targets, penalty),
            lambda one: float(np.sum(one.residuals**2)),
            near,
        )
        if found is not None:
            penalty, one = found
            return Fit(metric, kernel, penalty, one.dual, one.residuals)
    eigenvalues, vectors = np.linalg.eigh(matrix)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    residuals = [residuals for residuals, _ in left_out_residuals(eigenvalues, vectors, targets, PENALTIES)]
    best = int(np.argmin([np.sum(one**2) for one in residuals]))
    dual = vectors @ ((vectors.T @ targets) / (eigenvalues + PENALTIES[best])[:, None])
    return Fit(metric, kernel, float(PENALTIES[best]), dual, residuals[best])


def downhill(
    solve: Callable[[float], Solution | None], loss: Callable[[Solution], float], near: float
) -> tuple[float, Solution] | None:
    """The penalty, of PENALTIES, and its solution where the loss is least on the way down from that next to `near`.

    None where there is no solution.
    """
    known: dict[int, tuple[float, Solution | None]] = {}

    def at(place: int) -> float:
        if place not in known:
            inside = 0 <= place < len(PENALTIES)
            one = solve(float(PENALTIES[place])) if inside else None
            # two solutions at most are of use later on
            known[place] = (np.inf if one is None else loss(one)), one
        return known[place][0]

    place = int(np.argmin(np.abs(np.log(PENALTIES / near))))
    step = 1 if at(place + 1) < at(place) else -1
    while at(place + step) < at(place):
        known = (
            {key: value for key, value in known.items() if key >= place}
            if step > 0
            else {key: value for key, value in known.items() if key <= place}
        )
        place += step
    one = known[place][1]
    return None if one is None else (float(PENALTIES[place]), one)


def first_kernel(kind: str, rows: np.ndarray, targets: np.ndarray, random: np.random.RandomState) -> LaplaceKernel:
    """Bandwidth, power and linear part of least leave-one-out error, one after the other, on some of the rows."""
    some = random.permutation(len(rows))[:_SEARCH_ROWS]
    metric = in_metric(kind, rows[some], np.ones(rows.shape[1]))
    distances = metric.distances(metric.rows)

    def loss(kernel: LaplaceKernel) -> float:
        return _fit(metric, kernel, distances, targets[some]).loss

    def best(kernels: list[LaplaceKernel]) -> LaplaceKernel:
        return min(kernels, key=loss)

    kernel = best([LaplaceKernel(kind, bandwidth) for bandwidth in BANDWIDTHS])
    kernel = best([kernel._replace(linear=linear) for linear in LINEAR])
    if kind == DISTANCE:
        kernel = best([kernel._replace(power=power) for power in POWERS])
    near = [kernel.bandwidth * factor for factor in (0.5, 1.0, 2.0)]
    return best([kernel._replace(bandwidth=bandwidth) for bandwidth in near])


def learned_root(shape: Shape, gradients: np.ndarray) -> np.ndarray:
    """(1 - share) (G / mean)^power + share I."""
    whole = gradients.ndim == 2 and not shape.diagonal
    values, vectors = np.linalg.eigh(gradients) if whole else (gradients, np.empty(0))
    values = np.maximum(values if values.ndim == 1 else np.diag(values), 0.0)
    roots = (values / (values.mean() or 1.0)) ** shape.power
    if whole:
        return (1 - shape.share) * (vectors * roots) @ vectors.T + shape.share * np.eye(len(values))
    return (1 - shape.share) * roots + shape.share


def taught(found: Fit, rows: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """The gradients' outer product of the fit less that of fits to left-out residuals whose signs are flipped."""
    distances = found.metric.distances(found.metric.rows)
    gradients = gradient_outer_product(found.metric, found.kernel, rows, distances, found.dual)
    products = found.metric.products(found.metric.rows) if found.kernel.linear else None
    signs = random.choice([-1.0, 1.0], (_FLIPS, len(rows), 1))
    noise = np.concatenate(list(signs * found.residuals), axis=1)
    dual = ridge_solutions(found.kernel.matrix(distances, products), noise, found.penalty)
    return gradients - gradient_outer_product(found.metric, found.kernel, rows, distances, dual) / _FLIPS


def rounds(
    kind: str, rows: np.ndarray, targets: np.ndarray, halves: tuple[np.ndarray, np.ndarray], random: Any
) -> list[MetricRound]:
    """The fixed kernel, and as many rounds of learning the metric as lower the cross-fitted error."""
    d = rows.shape[1]
    kernel = first_kernel(kind, rows, targets, random)
    fits = [fit(kernel, rows[half], targets[half], np.ones(d)) for half in halves]
    found = [MetricRound(kernel, fits[0].penalty, (), _crossed(fits, targets, halves))]
    losses = [sum(one.loss for one in fits)]
    diagonals = (True,) if kind == SUM else (False, True)
    for _ in range(ROUNDS):
        gradients = [taught(one, rows[half], random) for one, half in zip(fits, halves, strict=True)]
        tried = []
        for shape in (Shape(power, share, diagonal) for power, share in SHAPES for diagonal in diagonals):
            roots = [learned_root(shape, each) for each in gradients]
            # the metric of one half, judged on the other
            judged = [
                fit(kernel, rows[half], targets[half], root, near.penalty)
                for half, root, near in zip(halves, roots[::-1], fits, strict=True)
            ]
            tried.append((sum(one.loss for one in judged), shape, roots, judged))
        loss, shape, roots, judged = min(tried, key=lambda one: one[0])
        if loss >= losses[-1]:
            break
        losses.append(loss)
        found.append(
            MetricRound(kernel, judged[0].penalty, (*found[-1].shapes, shape), _crossed(judged, targets, halves))
        )
        # each half goes on with what it taught itself
        fits = [
            fit(kernel, rows[half], targets[half], root, near.penalty)
            for half, root, near in zip(halves, roots, fits, strict=True)
        ]
    return found


def linear_round(rows: np.ndarray, targets: np.ndarray, halves: tuple[np.ndarray, np.ndarray]) -> MetricRound:
    """Ridge regression."""
    kernel = LaplaceKernel(DISTANCE, np.inf, linear=1.0)
    fits = [fit(kernel, rows[half], targets[half], np.ones(rows.shape[1])) for half in halves]
    return MetricRound(kernel, fits[0].penalty, (), _crossed(fits, targets, halves))


def refits(last: MetricRound, rows: np.ndarray, targets: np.ndarray, random: Any) -> list[Fit]:
    """The same rounds with all rows: the fixed kernel, and the fit after each of the shapes."""
    found = [fit(last.kernel, rows, targets, np.ones(rows.shape[1]), last.penalty)]
    for shape in last.shapes:
        root = learned_root(shape, taught(found[-1], rows, random))
        found.append(fit(last.kernel, rows, targets, root, found[-1].penalty))
    return found


def _crossed(fits: list[Fit], targets: np.ndarray, halves: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    predictions = np.empty(targets.shape)
    for one, half in zip(fits, halves, strict=True):
        predictions[half] = targets[half] - one.residuals
    return predictions
