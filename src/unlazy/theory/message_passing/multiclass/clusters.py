"""State evolution of softmax regression on Gaussian clusters, at one number of rows and one penalty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.contrasts import helmert_contrasts
from unlazy.theory.message_passing.multiclass.modes import MODES, overlap_stability, settle
from unlazy.theory.message_passing.multiclass.nodes import cone_chance, nodes_for
from unlazy.theory.message_passing.multiclass.prox import Prox, loss, root, softmax_prox
from unlazy.theory.message_passing.multiclass.resolvent import Diagonal, Full
from unlazy.theory.message_passing.multiclass.training import right_chance

_LARGEST_RESPONSE = 1e4


class ClusterPoint(NamedTuple):
    response: np.ndarray
    overlap: np.ndarray
    norm: np.ndarray
    bias: np.ndarray


class ClusterEquations:
    """One solution at one n and penalty; keeps the proximal points of the last step to start the next from."""

    def __init__(
        self,
        geometry: Diagonal | Full,
        labels: np.ndarray,
        weights: np.ndarray,
        n: float,
        penalty: float,
        bias: bool,
    ) -> None:
        self.geometry, self.labels, self.weights, self.n, self.penalty = geometry, labels, weights, n, penalty
        self.bias, self.basis = bias, helmert_contrasts(int(labels.max()) + 1)
        self.r = self.basis.shape[1]
        self.kept: dict[int, np.ndarray] = {}
        self.accuracy: float | None = None

    def first(self) -> ClusterPoint:
        eye = np.eye(self.r)
        count = len(self.labels)
        response = np.minimum(self.geometry.traces() / self.penalty, _LARGEST_RESPONSE)
        return ClusterPoint(
            response[:, None, None] * eye,
            np.zeros((count, self.r)),
            np.tile(1e-12 * eye, (count, 1, 1)),
            np.zeros(self.r),
        )

    def largest_penalty(self) -> float:
        """Where scores and responses are of order 1 or less."""
        return float(self.geometry.traces().max())

    def solve(self, point: ClusterPoint | None, max_iterations: int) -> tuple[ClusterPoint, int]:
        return settle(self, self.first() if point is None else point, max_iterations)

    def fields(self, point: ClusterPoint, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores (r, N) of cluster c and their weights."""
        values, vectors = np.linalg.eigh(point.norm[c])
        deviations = np.sqrt(np.maximum(values, 0.0))
        nodes, weights = nodes_for(self.r, float(deviations[-1]), self.accuracy)
        center = (point.overlap[c] + point.bias)[:, None]
        return center + ((vectors * deviations) @ vectors.T) @ nodes, weights

    def prox(self, point: ClusterPoint, c: int) -> tuple[Prox, np.ndarray]:
        omega, weights = self.fields(point, c)
        start = self.kept.get(c)
        start = start if start is not None and start.shape == omega.shape else None
        found = softmax_prox(self.basis, int(self.labels[c]), omega, root(point.response[c]), start)
        self.kept[c] = found.start
        return found, weights

    def step(self, point: ClusterPoint) -> ClusterPoint:
        r, count = self.r, len(self.labels)
        curvature, noise, pull = np.empty((count, r, r)), np.empty((count, r, r)), np.empty((count, r))
        for c in range(count):
            prox, weights = self.prox(point, c)
            rows = self.n * self.weights[c]
            slope = prox.slope @ weights
            curvature[c] = -rows * (slope + slope.T) / 2
            noise[c] = rows * (prox.pull * weights) @ prox.pull.T
            pull[c] = rows * (prox.pull @ weights)
        a = self.geometry.resolvent(self.penalty, curvature)
        overlaps, bias, force = self.means(a, curvature, pull, point)
        response = self.geometry.response(a)
        covariance = self.geometry.spread(a, force, noise)
        return ClusterPoint((response + response.swapaxes(1, 2)) / 2, overlaps, covariance, bias)

    def means(
        self, a: np.ndarray, curvature: np.ndarray, pull: np.ndarray, old: ClusterPoint
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The implicit update of M and b: M' = P h, h = mh + D (M + b - M' - b'), and sum_c h_c = 0 with a bias."""
        r, count = self.r, len(self.labels)
        gram = self.geometry.gram(a).reshape(count * r, count * r)
        blocks = np.zeros((count, r, count, r))
        blocks[np.arange(count), :, np.arange(count)] = curvature
        d = blocks.reshape(count * r, count * r)
        before = old.overlap + old.bias
        drive = (pull + np.einsum("cab,cb->ca", curvature, before)).ravel()
        ones = np.tile(np.eye(r), (count, 1))
        system, right = np.eye(count * r) + gram @ d, gram @ drive
        if self.bias:
            system = np.block([[system, gram @ d @ ones], [ones.T @ d, ones.T @ d @ ones]])
            right = np.concatenate([right, ones.T @ drive])
        solution = np.linalg.solve(system, right)
        overlaps = solution[: count * r].reshape(count, r)
        bias = solution[count * r :] if self.bias else np.zeros(r)
        force = (drive - d @ (overlaps + bias).ravel()).reshape(count, r)
        return overlaps, bias, force

    def outputs(self, point: ClusterPoint, iterations: int, modes: bool) -> tuple[np.ndarray, ...]:
        r, count, classes = self.r, len(self.labels), self.r + 1
        curvature, squares = np.empty((count, r, r)), np.empty((count, r, r, r, r))
        train, test, error, training_error = (np.empty(count) for _ in range(4))
        for c, label in enumerate(self.labels):
            prox, weights = self.prox(point, c)
            rows = self.n * self.weights[c]
            curvature[c] = -rows * prox.slope @ weights
            squares[c] = rows * np.einsum("abn,cdn,n->abcd", prox.slope, prox.slope, weights, optimize=True)
            train[c] = weights @ loss(self.basis @ prox.point, label)
            omega, weights = self.fields(point, c)
            test[c] = weights @ loss(self.basis @ omega, label)
            sides = np.delete(self.basis[label] - self.basis, label, axis=0)
            center = sides @ (point.overlap[c] + point.bias)
            error[c] = 1 - cone_chance(center, sides @ point.norm[c] @ sides.T)
            place = point.overlap[c] + point.bias
            training_error[c] = 1 - right_chance(self.basis, int(label), point.response[c], place, point.norm[c])
        a = self.geometry.resolvent(self.penalty, curvature)
        # Y_e -> dg Y_e dg^T, then the trace over the coordinates
        operator = np.einsum("cabegh,egphq->cabepq", self.geometry.pairs(a), squares, optimize=True)
        operator = operator.reshape(count * r * r, count * r * r)
        stability = np.abs(np.linalg.eigvals(operator)).max()
        of_class = np.array([self.weights[self.labels == k].sum() for k in range(classes)])
        class_errors = np.array([(self.weights * error)[self.labels == k].sum() for k in range(classes)]) / of_class
        errors = (self.weights @ error, class_errors, self.weights @ training_error)
        means = (*errors, self.weights @ train, self.weights @ test)
        self.accuracy = MODES
        slowest = overlap_stability(self.step, point) if modes else np.nan
        return (*point, *(np.asarray(value) for value in (*means, stability, slowest, iterations)))
