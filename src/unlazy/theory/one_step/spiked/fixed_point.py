"""The fixed point of spiked random features by Newton's method, and derivatives through it by one adjoint solve.

With unknowns Q_a (groups) and chi_j (nodes), p = 1/(1 + chi), C = L^T diag(w p) L, H = M^T diag(w p) M,
P = diag(N_a r_a^2 Q_a / d) and K = diag(N_a Q_a), the equations

    1/Q_a = ridge + sum_j w_j p_j V_ja + r_a^2 [(C^-1 + P)^-1]_aa
    n chi_j = sum_a N_a V_ja Q_a + d L_j.(P^-1 + C)^-1 L_j + M_j.(K^-1 + H)^-1 M_j

are those of a stationary point of the log determinant of the features' Gram matrix.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from unlazy.numerics.fixed_points import continued, newton
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.one_step.spiked.statistics import FeatureStatistics, TargetStatistics

_FIRST_SWEEPS = 10
_LARGER_RIDGE = 1e6
_NO_VARIANCE = 1e-150


class FeatureSizes(NamedTuple):
    """n samples, d dimensions, N_a neurons of radius r_a in each group."""

    samples: float
    dimension: float
    neurons: np.ndarray
    radii: np.ndarray


class Solution(NamedTuple):
    """At the fixed point; derivatives are total, through the fixed point."""

    objective: float
    """Phi, the minimum of (1/n)|y - F b|^2 + ridge |b|^2."""
    test_error: float
    """dPhi/dJ of p_j = 1/(1 + chi_j) + J."""
    training_error: float
    """Phi - ridge dPhi/dridge, as the sum of p_j^2 times the test error at node j: a tiny one keeps its digits."""
    norm: float
    """|b|^2 = dPhi/dridge."""
    residual: float
    """The largest residual of the equations in logarithms."""


class GroupRotation(NamedTuple):
    """What (P^-1 + C)^-1, C = A^T diag(w p) A, enters through, from the singular values of sqrt(w p) A sqrt(P).

    Accurate for tiny ridges, for groups of tiny fraction and for nodes of tiny weight alike.
    """

    inner: np.ndarray
    """A (P^-1 + C)^-1 A^T, nodes x nodes."""
    crossed: np.ndarray
    """A (I + P C)^-1, nodes x groups."""
    outer: np.ndarray
    """(C^-1 + P)^-1, groups x groups."""


def solve(
    features: FeatureStatistics, target: TargetStatistics, noise: float, sizes: FeatureSizes, ridge: float
) -> Solution:
    """Phi and its derivatives at the fixed point."""
    system = _System(features, sizes, ridge)
    unknown = system.solved()
    return system.outputs(unknown, target, noise)


class _System:
    def __init__(self, features: FeatureStatistics, sizes: FeatureSizes, ridge: float) -> None:
        self.features, self.sizes, self.ridge = features, sizes, ridge
        self.groups = sizes.neurons.size

    def solved(self) -> np.ndarray:
        """log Q and log chi. Damped sweeps first, then Newton; from a larger ridge if Newton does not arrive."""
        nodes = self.features.weights.size
        start = np.concatenate(
            [
                np.full(self.groups, -np.log(self.ridge + 0.1)),
                np.full(nodes, np.log(self.sizes.neurons.sum() / self.sizes.samples)),
            ]
        )
        for _ in range(_FIRST_SWEEPS):
            start = start - self.residual(start, self.parts(start)) / 2
        with suppress(ConvergenceError):
            return newton(self.equations, start)

        def solution(ridge: float, start: np.ndarray) -> np.ndarray:
            return newton(_System(self.features, self.sizes, ridge).equations, start)

        larger = _LARGER_RIDGE * self.ridge
        try:
            return continued(solution, larger, solution(larger, start), self.ridge)
        except ConvergenceError:
            raise ConvergenceError(
                f"the fixed point of spiked features was not found at n = {self.sizes.samples:g}, "
                f"N = {self.sizes.neurons.sum():g}, d = {self.sizes.dimension:g}, ridge = {self.ridge:g}"
            ) from None

    def residual(self, unknown: np.ndarray, parts: _Parts) -> np.ndarray:
        """The logarithms of left over right side."""
        q, chi = unknown[: self.groups], unknown[self.groups :]
        return np.concatenate([q + np.log(parts.inverse), chi - np.log(parts.variance)])

    def equations(self, unknown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The residual and its derivative by the unknowns."""
        parts = self.parts(unknown)
        chi = unknown[self.groups :]
        by_weights = self.by_weights(parts)
        rate = -(parts.weights**2) * np.exp(chi)
        derivative = np.empty((unknown.size, unknown.size))
        k = self.groups
        derivative[:k, :k] = -(parts.linear.outer**2 * parts.bulk * self.sizes.radii[:, None] ** 2)
        derivative[:k, :k] /= parts.inverse[:, None]
        derivative[:k, :k] += np.eye(k)
        derivative[k:, :k] = -self.by_groups(parts) / parts.variance[:, None]
        derivative[:, k:] = by_weights * rate
        derivative[k:, k:] += np.eye(chi.size)
        return self.residual(unknown, parts), derivative

    def parts(self, unknown: np.ndarray) -> _Parts:
        features, sizes = self.features, self.sizes
        q = np.exp(unknown[: self.groups])
        weights = 1 / (1 + np.exp(unknown[self.groups :]))
        node_weights = features.weights * weights
        bulk, whole = sizes.neurons * sizes.radii**2 * q / sizes.dimension, sizes.neurons * q
        linear, mean = _rotation(features.linear, node_weights, bulk), _rotation(features.mean, node_weights, whole)
        inverse = self.ridge + node_weights @ features.rest + sizes.radii**2 * np.diagonal(linear.outer)
        variance = features.rest @ whole + sizes.dimension * np.diagonal(linear.inner) + np.diagonal(mean.inner)
        # where all features vanish (relu on one side) chi is 0, which has no logarithm
        variance = np.maximum(variance / sizes.samples, _NO_VARIANCE)
        return _Parts(weights, node_weights, bulk, whole, linear, mean, inverse, variance)

    def by_weights(self, parts: _Parts) -> np.ndarray:
        """The derivative of the residuals by p_j."""
        features, sizes = self.features, self.sizes
        first = features.rest + (sizes.radii * parts.linear.crossed) ** 2
        second = sizes.dimension * parts.linear.inner**2 + parts.mean.inner**2
        return np.concatenate(
            [
                first.T * features.weights / parts.inverse[:, None],
                second * features.weights / (sizes.samples * parts.variance)[:, None],
            ]
        )

    def by_groups(self, parts: _Parts) -> np.ndarray:
        """The derivative of the right side for chi_j by log Q_a."""
        total = (self.features.rest + parts.mean.crossed**2) * parts.whole
        return (total + self.sizes.dimension * parts.linear.crossed**2 * parts.bulk) / self.sizes.samples

    def outputs(self, unknown: np.ndarray, target: TargetStatistics, noise: float) -> Solution:
        residual, jacobian = self.equations(unknown)
        parts = self.parts(unknown)
        # what the linear and the constant part of the readout predict at the nodes
        linear = parts.linear.inner @ (parts.node_weights * target.linear)
        mean = parts.mean.inner @ (parts.node_weights * target.mean)
        missed = target.rest + noise + target.linear * (target.linear - linear) + target.mean * (target.mean - mean)
        objective = parts.node_weights @ missed
        error = target.rest + noise + (target.linear - linear) ** 2 + (target.mean - mean) ** 2
        by_weights = self.features.weights * error
        by_groups = -parts.bulk * (parts.linear.crossed.T @ (parts.node_weights * target.linear)) ** 2
        by_groups -= parts.whole * (parts.mean.crossed.T @ (parts.node_weights * target.mean)) ** 2
        rate = -(parts.weights**2) * np.exp(unknown[self.groups :])
        adjoint = np.linalg.solve(jacobian.T, np.concatenate([by_groups, by_weights * rate]))
        # by a J of each node alone; a training residual is p_j times that of a new sample
        test_errors = by_weights - adjoint @ self.by_weights(parts)
        norm = -(adjoint[: self.groups] / parts.inverse).sum()
        return Solution(
            float(objective),
            float(test_errors.sum()),
            float(parts.weights**2 @ test_errors),
            float(norm),
            float(np.abs(residual).max()),
        )


class _Parts(NamedTuple):
    weights: np.ndarray
    node_weights: np.ndarray
    bulk: np.ndarray
    whole: np.ndarray
    linear: GroupRotation
    mean: GroupRotation
    inverse: np.ndarray
    variance: np.ndarray


def _rotation(values: np.ndarray, node_weights: np.ndarray, scale: np.ndarray) -> GroupRotation:
    by_group = np.sqrt(node_weights)[:, None] * values
    by_node = values * np.sqrt(scale)
    left, singular, right = np.linalg.svd(by_group * np.sqrt(scale), full_matrices=False)
    # rows of singular vectors for tiny nodes or groups are rounding errors, so that these are projected instead
    nodes, groups = by_node @ right.T, left.T @ by_group
    missed_nodes, missed_groups = by_node - nodes @ right, by_group - left @ groups
    total = 1 + singular**2
    large = singular > 1
    by_large = nodes[:, large] / singular[large]
    crossed = values - by_large @ groups[large] - (nodes * (singular / total))[:, ~large] @ groups[~large]
    crossed += (by_large / total[large]) @ groups[large]
    return GroupRotation(
        (nodes / total) @ nodes.T + missed_nodes @ missed_nodes.T,
        crossed,
        (groups.T / total) @ groups + missed_groups.T @ missed_groups,
    )
