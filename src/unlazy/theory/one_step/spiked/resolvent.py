"""The resolvent of spiked features without their outliers, at complex ridges and at real ones beyond the bulk.

The fixed point of `fixed_point` without M, at ridge = -x: real and negative Q above the bulk, Im Q > 0 for
Im x > 0. Both come from Newton's method on log Q and log chi, started from a neighbour.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from unlazy.numerics.fixed_points import continued, newton
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.one_step.spiked.fixed_point import FeatureSizes
from unlazy.theory.one_step.spiked.statistics import FeatureStatistics

_MOST_NEWTON_STEPS = 30
_SHORT_STEP = 1e-11
_LONGEST_STEP = 1.0
_FIRST_SWEEPS = 6
_ROUNDING = 1e-9
_NO_SPREAD = 1e-30
# how fast Im x falls on the way to the real axis
_DESCENT = 2.5
_SLOWEST_DESCENT = 1.001


class Resolvent(NamedTuple):
    """Q_a and chi_j at one x."""

    groups: np.ndarray
    nodes: np.ndarray


class BulkSystem:
    """The equations for Q and chi of features F^T F / n without the part of them that is known given s."""

    def __init__(self, features: FeatureStatistics, sizes: FeatureSizes) -> None:
        # at nodes where all features are saturated only their means count: chi = 0
        spread = (features.rest + features.linear**2).max(axis=1)
        kept = spread > _NO_SPREAD * spread.max()
        self.weights = features.weights[kept]
        self.linear, self.rest = features.linear[kept], features.rest[kept]
        self.mean = features.mean[kept]
        self.saturated = (features.mean[~kept].T * features.weights[~kept]) @ features.mean[~kept]
        self.largest_mean = float((features.weights @ features.mean**2).max())
        self.sizes = sizes
        self.neurons = sizes.neurons.sum()
        variances = self.weights @ (self.rest + sizes.radii**2 * self.linear**2)
        self.scale = float(variances.max() * (1 + np.sqrt(self.neurons / sizes.samples)) ** 2)

    def far(self, x: complex) -> Resolvent:
        """A start at |x| much above the scale."""
        found = Resolvent(np.full(self.sizes.neurons.size, -1 / x), np.full(self.weights.size, -self.neurons / x))
        for _ in range(_FIRST_SWEEPS):
            inverse, variance, *_ = self.sides(x, found)
            found = Resolvent(1 / inverse, variance)
        return found

    def newton(self, x: complex, start: Resolvent) -> Resolvent:
        """The solution near `start`, by Newton's method in the logarithm of its ratio to the start."""
        values = np.concatenate(start)
        # singular C (linear features) raise the rounding errors
        ratio = newton(
            lambda logarithm: self.equations(x, self.split(values * np.exp(logarithm))),
            np.zeros_like(values),
            longest=_LONGEST_STEP,
            tolerance=_SHORT_STEP,
            max_iterations=_MOST_NEWTON_STEPS,
        )
        return self.split(values * np.exp(ratio))

    def split(self, values: np.ndarray) -> Resolvent:
        k = self.sizes.neurons.size
        return Resolvent(values[:k], values[k:])

    def above(self, x: complex, start: Resolvent | None) -> Resolvent:
        """The solution at Im x > 0: from a neighbour if that arrives in the upper half plane, else from far above."""
        if start is not None:
            with suppress(ConvergenceError):
                return self._upper(x, start)
        height = 10 * max(self.scale, abs(x))

        def solution(height: float, guess: np.ndarray) -> np.ndarray:
            return np.concatenate(self._upper(x.real + 1j * height, self.split(guess)))

        try:
            begin = np.concatenate(self.far(x.real + 1j * height))
            return self.split(
                continued(
                    solution, height, solution(height, begin), x.imag, factor=_DESCENT, least_factor=_SLOWEST_DESCENT
                )
            )
        except ConvergenceError:
            raise ConvergenceError(f"the bulk of the features' spectrum was not found at x = {x.real:g}") from None

    def _upper(self, x: complex, start: Resolvent) -> Resolvent:
        found = self.newton(x, start)
        # beyond the bulk imaginary parts are as small as rounding errors
        if not all((values.imag > -_ROUNDING * np.abs(values)).all() for values in found):
            raise ConvergenceError(f"the solution at x = {x:g} is not in the upper half plane")
        return found

    def log_determinant(self, x: complex, found: Resolvent) -> complex:
        """log det(F^T F / n - x), whose derivative by -x is sum_a N_a Q_a and whose imaginary part counts eigenvalues.

        Each logarithm is of a number that stays in one half plane: the pivots do as the matrix has Im < 0.
        """
        sizes, (q, chi) = self.sizes, found
        p = 1 / (1 + chi)
        bulk = sizes.neurons * sizes.radii**2 * q / sizes.dimension
        inner = np.diag(1 / bulk) + (self.linear.T * (self.weights * p)) @ self.linear
        samples = sizes.samples * (self.weights @ (np.log(1 + chi) - chi * p))
        neurons = sizes.neurons @ (-np.log(q) + q * (-x + (self.weights * p) @ self.rest) - 1)
        return samples + neurons + sizes.dimension * (np.log(bulk).sum() + np.log(_pivots(inner)).sum())

    def outlier_gains(self, found: Resolvent) -> np.ndarray:
        """The eigenvalues of |K|^(1/2) H |K|^(1/2) at a real solution, in descending order; an outlier has gain 1."""
        root = np.sqrt(self.sizes.neurons * np.abs(found.groups))
        h = (self.mean.T * (self.weights / (1 + found.nodes))) @ self.mean + self.saturated
        return np.linalg.eigvalsh(root[:, None] * h * root)[::-1]

    def sides(self, x: complex, found: Resolvent) -> tuple[np.ndarray, ...]:
        """1/Q and chi of the equations, P, L (I + P C)^-1, L (P^-1 + C)^-1 L^T and (C^-1 + P)^-1."""
        sizes, (q, chi) = self.sizes, found
        p = self.weights / (1 + chi)
        bulk = sizes.neurons * sizes.radii**2 * q / sizes.dimension
        c = (self.linear.T * p) @ self.linear
        turned = np.linalg.inv(np.eye(q.size) + bulk[:, None] * c)
        outer = c @ turned
        crossed = self.linear @ turned
        inner = (crossed * bulk) @ self.linear.T
        inverse = -x + p @ self.rest + sizes.radii**2 * np.diagonal(outer)
        variance = (self.rest @ (sizes.neurons * q) + sizes.dimension * np.diagonal(inner)) / sizes.samples
        return inverse, variance, bulk, crossed, inner, outer

    def equations(self, x: complex, found: Resolvent) -> tuple[np.ndarray, np.ndarray]:
        """Q / Q(chi) - 1 and 1 - chi(Q) / chi, and their derivative by log Q and log chi."""
        sizes, (q, chi) = self.sizes, found
        inverse, variance, bulk, crossed, inner, outer = self.sides(x, found)
        rate = -self.weights * chi / (1 + chi) ** 2
        k = q.size
        jacobian = np.empty((k + chi.size, k + chi.size), dtype=inverse.dtype)
        jacobian[:k, :k] = -(q * sizes.radii**2)[:, None] * outer**2 * bulk + np.diag(q * inverse)
        jacobian[:k, k:] = q[:, None] * (self.rest + sizes.radii**2 * crossed**2).T * rate
        jacobian[k:, :k] = -(self.rest * (sizes.neurons * q) + sizes.dimension * crossed**2 * bulk)
        jacobian[k:, k:] = sizes.dimension * inner**2 * rate
        jacobian[k:] /= (sizes.samples * chi)[:, None]
        jacobian[k:, k:] += np.diag(variance / chi)
        return np.concatenate([q * inverse - 1, 1 - variance / chi]), jacobian


def _pivots(matrix: np.ndarray) -> np.ndarray:
    """The pivots of elimination in the given order, without exchanges."""
    rest = matrix.copy()
    for i in range(len(rest) - 1):
        rest[i + 1 :, i + 1 :] -= np.outer(rest[i + 1 :, i], rest[i, i + 1 :]) / rest[i, i]
    return np.diagonal(rest)
