"""Two-layer linear networks over many tasks, as what they are: ridge regression in a learned metric W^T W."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from unlazy.data.many_tasks import ManyTasks, diagonal_tasks
from unlazy.numerics.metric_path import metric_path
from unlazy.numerics.ridge import conditional_risk, decompose

_NEGLIGIBLE = 1e-6
"""Features that together add less than this share of the noise to the kernel are dropped on the way."""


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
    criteria: Sequence[str] = ("evidence", "degrees_of_freedom"),
) -> dict[str, np.ndarray]:
    """Draw one design and its tasks; fit them by ridge, by Bayes and in the metrics that the tasks teach.

    The result has the excess risks, averaged over tasks: `ridge_risk` of the best of the ridges, `bayes_risk` of the
    posterior mean, which knows prior and noise, and for each criterion that of its metric after each of the `steps`.

    Learned metrics start at the identity, know the noise level s2 and take majorise-minimise steps that never raise
    their criterion; the degrees of freedom have the weight 2 s2 of Mallows' Cp.

    Ridge and Bayes are exact expectations over tasks and noise. A learned metric's risk is that of the drawn tasks,
    with the Bayes fit of the same draw as control variate: plus the expected, less the drawn risk of Bayes.
    """
    data = diagonal_tasks(rng, spectrum, prior, n, tasks, noise_variance)
    ridge = conditional_risk(decompose(data.design), spectrum, prior, noise_variance, ridges).risk
    bayes = data.bayes_risk()
    control = bayes + gain_on_zero(data, prior, noise_variance)
    learned = {
        f"{criterion}_risk": np.array(
            [control - gain_on_zero(data, metric, noise_variance) for metric in _metrics(data, criterion, steps)]
        )
        for criterion in criteria
    }
    return {"ridge_risk": ridge.min(), "bayes_risk": np.array(bayes), **learned}


def _metrics(data: ManyTasks, criterion: str, steps: Sequence[int]) -> list[np.ndarray]:
    path = metric_path(
        data.design, data.targets, data.noise_variance, criterion=criterion, prune=_NEGLIGIBLE, dtype=np.float32
    )
    found = {point.step: point.metric for point in islice(path, max(steps) + 1) if point.step in set(steps)}
    return [found[step] for step in steps]


def trained_risk(
    rng: np.random.Generator,
    spectrum: np.ndarray,
    prior: np.ndarray,
    n: int,
    tasks: int,
    noise_variance: float,
    *,
    diagonal: bool,
    steps: int,
    step_size: float,
    batch_size: int,
) -> float:
    """Draw one design and its tasks, train a first layer on them, and return the risk of the tasks.

    The layer is a full d x d matrix or a diagonal one, has a random start and learns by noisy gradient descent as in
    `trained_layer`: mini-batches of tasks, label noise of twice the noise variance, a step size that falls linearly to
    0. In NumPy, since the sizes of an example differ so much that each would be a program of its own. The control
    variate is that of `metric_risks`.
    """
    from unlazy.training.regression.trained_layer import gradient, hidden_layer

    data = diagonal_tasks(rng, spectrum, prior, n, tasks, noise_variance)
    d, design = len(spectrum), data.design[None]
    layer = rng.standard_normal(d if diagonal else (d, d))
    layer *= np.sqrt(noise_variance / spectrum.sum() / (1 if diagonal else d))
    identity = np.eye(n)

    def inverse(kernels: np.ndarray, penalty: float) -> np.ndarray:
        return np.linalg.inv(kernels + penalty * identity)

    for step in range(steps):
        labels = data.targets[None, :, rng.integers(tasks, size=batch_size)]
        noise = rng.uniform(-1, 1, labels.shape) * np.sqrt(6 * noise_variance)
        slope = gradient(layer, design, labels, noise, noise_variance, inverse)
        layer -= step_size * (1 - step / steps) * slope
    hidden = hidden_layer(layer, data.design)
    dual = np.linalg.solve(hidden @ hidden.T + noise_variance * identity, data.targets)
    fit = layer[:, None] * (hidden.T @ dual) if diagonal else layer.T @ (hidden.T @ dual)
    zero = data.excess_risk(np.zeros_like(fit))
    return data.bayes_risk() + gain_on_zero(data, prior, noise_variance) - zero + data.excess_risk(fit)
