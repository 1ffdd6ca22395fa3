"""Two-layer linear networks over many tasks, as what they are: ridge regression in a learned metric W^T W."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.data.many_tasks import ManyTasks, diagonal_tasks
from unlazy.numerics.metric_path import metric_path
from unlazy.numerics.ridge import conditional_risk, decompose

_NEGLIGIBLE = 1e-6
"""Features that together add less than this share of the noise to the kernel are dropped on the way."""


class MetricRisks(NamedTuple):
    """Excess risks for one drawn design, averaged over tasks."""

    ridge_risk: np.ndarray
    """Ridge regression at the best of the ridges."""
    bayes_risk: float
    """The posterior mean, which knows the prior and the noise level."""
    evidence_risk: np.ndarray
    """The metric learned by evidence, after each of the numbers of steps."""
    degrees_of_freedom_risk: np.ndarray
    """The metric learned with degrees-of-freedom regularisation, likewise."""


def gain_on_zero(data: ManyTasks, metric: np.ndarray, penalty: float) -> float:
    """By how much the risk of b_hat = M X^T a, a = (X M X^T + penalty I)^-1 Y, is below that of predicting 0.

    M and the covariance S are diagonal, M may be singular. With Z = X M S^(1/2) it is a.(2 Z S^(1/2) b - Z Z^T a),
    averaged over tasks: no array of size d x tasks but the coefficients.
    """
    kept = slice(None) if metric.all() else np.flatnonzero(metric)
    design, metric, spectrum = data.design[:, kept], metric[kept], data.covariance[kept]
    weighted = design * metric
    kernel = weighted @ design.T
    kernel.flat[:: len(kernel) + 1] += penalty
    # not `ridge_solutions`: degrees of freedom make metrics so large that the method shows in the sixth digit
    dual = np.linalg.solve(kernel, data.targets)
    overlap = (weighted * spectrum) @ data.coefficients[kept]
    weighted *= np.sqrt(spectrum)
    return float(np.mean(np.sum(dual * (2 * overlap - (weighted @ weighted.T) @ dual), axis=0)))


def metric_risks(
    rng: np.random.Generator,
    spectrum: np.ndarray,
    prior: np.ndarray,
    n: int,
    tasks: int,
    noise_variance: float,
    ridges: ArrayLike,
    steps: Sequence[int],
) -> MetricRisks:
    """Draw one design and its tasks; fit them by ridge, by Bayes and in the metrics that the tasks teach.

    Learned metrics start at the identity, know the noise level s2 and take majorise-minimise steps that never raise
    their criterion; the degrees of freedom have the weight 2 s2 of Mallows' Cp.

    Ridge and Bayes are exact expectations over tasks and noise. A learned metric's risk is that of the drawn tasks,
    with the Bayes fit of the same draw as control variate: plus the expected, less the drawn risk of Bayes.
    """
    data = diagonal_tasks(rng, spectrum, prior, n, tasks, noise_variance)
    ridge = conditional_risk(decompose(data.design), spectrum, prior, noise_variance, ridges).risk
    bayes = data.bayes_risk()
    control = bayes + gain_on_zero(data, prior, noise_variance)
    learned = (
        np.array([control - gain_on_zero(data, metric, noise_variance) for metric in _metrics(data, criterion, steps)])
        for criterion in ("evidence", "degrees_of_freedom")
    )
    return MetricRisks(ridge.min(), bayes, *learned)


def _metrics(data: ManyTasks, criterion: str, steps: Sequence[int]) -> list[np.ndarray]:
    path = metric_path(
        data.design, data.targets, data.noise_variance, criterion=criterion, prune=_NEGLIGIBLE, dtype=np.float32
    )
    found = {point.step: point.metric for point in islice(path, max(steps) + 1) if point.step in set(steps)}
    return [found[step] for step in steps]
