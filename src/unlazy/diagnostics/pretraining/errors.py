"""Errors of pretrained linear attention along the effective ridge, for many numbers of tasks and context lengths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.theory.in_context.finite_size import PromptMoments, gaussian_task_moments, task_moments

_LEAST_NOISE = 1e-9
# in units of the mean eigenvalue of the feature moments; the first stands for zero, where they may be singular
_EFFECTIVE_RIDGES = np.concatenate([[1e-12], np.logspace(-7, 3, 121)])
_TASK_SETS = 2
MOST_TASKS = 100
"""Drawn tasks, in units of the dimension; more are as good as infinitely many."""


class PromptCurve(NamedTuple):
    """What the errors at given tasks and context are made of, along the effective ridge xi; u = d/n.

    ridge = xi (1 - u used),    error = missed + u price / (1 - u twice).
    """

    effective_ridge: np.ndarray
    missed: np.ndarray
    """The test error of B (R+xi)^-1, to which n does not matter."""
    price: np.ndarray
    """tr[R_test (R+xi)^-1 R (R+xi)^-1] times the error of B (R+xi)^-1 on the pretraining tasks."""
    used: np.ndarray
    """tr R (R+xi)^-1."""
    twice: np.ndarray
    """tr R^2 (R+xi)^-2."""

    @property
    def least(self) -> float:
        """With unlimited prompts."""
        return float(self.missed.min())


class AttentionErrors:
    """Errors of linear attention for drawn sets of tasks that are prefixes of one another."""

    def __init__(self, d: int, noise: float, covariance: np.ndarray, rng: np.random.Generator) -> None:
        self.d, self.covariance = d, covariance
        # one task without noise makes the moments singular
        self.noise = max(noise, _LEAST_NOISE * float(np.trace(covariance)) / d)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        self._drawn = [rng.standard_normal((MOST_TASKS * d, d)) @ root.T for _ in range(_TASK_SETS)]
        self._moments: dict[float, list[tuple[PromptMoments, PromptMoments]]] = {}
        self._curves: dict[tuple[float, float], PromptCurve] = {}

    def at(self, tasks: float, context: float) -> PromptCurve:
        """Mean over the sets of tasks; above 100 d tasks as for infinitely many."""
        tasks = tasks if tasks <= MOST_TASKS * self.d else np.inf
        if (tasks, context) not in self._curves:
            test = gaussian_task_moments(self.covariance, context, self.noise)
            xi = _EFFECTIVE_RIDGES * float(np.trace(test.feature_moment)) / len(test.feature_moment)
            sets = [test] if np.isinf(tasks) else [_between(*ends, context) for ends in self._ends(tasks)]
            parts = np.mean([_curve(moments, test, xi) for moments in sets], axis=0)
            self._curves[tasks, context] = PromptCurve(xi, *parts)
        return self._curves[tasks, context]

    def _ends(self, tasks: float) -> list[tuple[PromptMoments, PromptMoments]]:
        """The moments at contexts of one row and of infinitely many."""
        if tasks not in self._moments:
            self._moments[tasks] = [
                (task_moments(part[: int(tasks)], 1, self.noise), task_moments(part[: int(tasks)], 1e99, self.noise))
                for part in self._drawn
            ]
        return self._moments[tasks]


def _between(one: PromptMoments, infinite: PromptMoments, context: float) -> PromptMoments:
    """The moments of features are linear in 1/context, the others do not depend on it."""
    return infinite._replace(
        feature_moment=infinite.feature_moment + (one.feature_moment - infinite.feature_moment) / context
    )


def _curve(moments: PromptMoments, test: PromptMoments, xi: np.ndarray) -> np.ndarray:
    """The parts of `PromptCurve`: `finite_size_errors` without solving for xi."""
    d = len(moments.cross_moment)
    eigenvalues, vectors = np.linalg.eigh(moments.feature_moment)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    inverse = 1 / (eigenvalues + xi[:, None])
    cross = moments.cross_moment @ vectors
    gram, feature = cross.T @ cross, vectors.T @ test.feature_moment @ vectors
    own = np.sum(inverse**2 * (np.diagonal(gram) * eigenvalues), axis=1) - 2 * inverse @ np.diagonal(gram)
    missed = np.sum(inverse @ (gram * feature) * inverse, axis=1)
    missed -= 2 * inverse @ np.sum(cross * (test.cross_moment @ vectors), axis=0)
    spread = inverse**2 @ (eigenvalues * np.diagonal(feature))
    return np.array(
        [
            test.label_moment + missed / d,
            spread * (moments.label_moment + own / d),
            inverse @ eigenvalues,
            inverse**2 @ eigenvalues**2,
        ]
    )
