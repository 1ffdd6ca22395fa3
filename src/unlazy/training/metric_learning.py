"""Two-layer linear networks over many tasks, as what they are: ridge regression in a learned metric W^T W."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.data.linear_tasks import LinearTasks, TaskSample
from unlazy.numerics.metric_path import metric_path
from unlazy.numerics.ridge_path import conditional_risk, decompose

_NEGLIGIBLE = 1e-6
"""Features that together add less than this share of the noise to the kernel are dropped on the way."""


class MetricRisks(NamedTuple):
    """Excess risks for one drawn design, averaged over tasks."""

    ridge: np.ndarray
    """Ridge regression, at each of the ridges."""
    bayes: float
    """The posterior mean, which knows the prior and the noise level."""
    evidence: np.ndarray
    """The metric learned by evidence, after each of the numbers of steps."""
    dof: np.ndarray
    """The metric learned with degrees-of-freedom regularisation, likewise."""


def gain_on_zero(population: LinearTasks, sample: TaskSample, metric: np.ndarray, penalty: float) -> float:
    """By how much the risk of b_hat = M X^T a, a = (X M X^T + penalty I)^-1 Y, is below that of predicting 0.

    M is diagonal and may be singular. With Z = X M S^(1/2) the gain is a.(2 Z S^(1/2) b - Z Z^T a), averaged over
    tasks: no array of size d x tasks but the coefficients.
    """
    kept = slice(None) if metric.all() else np.flatnonzero(metric)
    design, metric, spectrum = sample.design[:, kept], metric[kept], population.spectrum[kept]
    weighted = design * metric
    kernel = weighted @ design.T
    kernel.flat[:: len(kernel) + 1] += penalty
    dual = np.linalg.solve(kernel, sample.targets)
    overlap = (weighted * spectrum) @ sample.coefficients[kept]
    weighted *= np.sqrt(spectrum)
    return float(np.mean(np.sum(dual * (2 * overlap - (weighted @ weighted.T) @ dual), axis=0)))


def posterior_risk(population: LinearTasks, design: np.ndarray) -> float:
    """The risk of Bayes given X: tr S C with the posterior covariance C = B - B X^T (X B X^T + s2 I)^-1 X B."""
    weighted = design * population.prior
    kernel = weighted @ design.T
    kernel.flat[:: len(kernel) + 1] += population.noise_variance
    learned = np.linalg.solve(kernel, (weighted * population.spectrum) @ weighted.T)
    return float(population.spectrum @ population.prior - np.trace(learned))


def metric_risks(
    rng: np.random.Generator, population: LinearTasks, n: int, tasks: int, ridges: ArrayLike, steps: Sequence[int]
) -> MetricRisks:
    """Draw one design and its tasks; fit them by ridge, by Bayes and in the metrics that the tasks teach.

    Learned metrics start at the identity, know the noise level s2 and take majorise-minimise steps that never raise
    their criterion; the degrees of freedom have the weight 2 s2 of Mallows' Cp.

    Ridge and Bayes are exact expectations over tasks and noise. A learned metric's risk is that of the drawn tasks,
    with the Bayes fit of the same draw as control variate: plus the expected, less the drawn risk of Bayes.
    """
    sample = population.sample(rng, n, tasks)
    spectrum, prior, noise = population.spectrum, population.prior, population.noise_variance

    def gain(metric: np.ndarray) -> float:
        return gain_on_zero(population, sample, metric, noise)

    ridge = conditional_risk(decompose(sample.design), spectrum, prior, noise, ridges).risk
    bayes = posterior_risk(population, sample.design)
    control = bayes + gain(prior)
    learned = {
        criterion: np.array([control - gain(metric) for metric in _metrics(sample, noise, criterion, steps)])
        for criterion in ("evidence", "dof")
    }
    return MetricRisks(ridge, bayes, **learned)


def _metrics(sample: TaskSample, noise: float, criterion: str, steps: Sequence[int]) -> list[np.ndarray]:
    path = metric_path(sample.design, sample.targets, noise, criterion=criterion, prune=_NEGLIGIBLE, dtype=np.float32)
    found = {point.step: point.metric for point in islice(path, max(steps) + 1) if point.step in set(steps)}
    return [found[step] for step in steps]
