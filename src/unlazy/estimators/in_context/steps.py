"""Steps to the normal prior of many small regressions, and what tasks that it has not seen say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.estimators.metric.task_batches import LeftOut, TaskBatch


class Prior(NamedTuple):
    """Coefficients b ~ N(mean, covariance) of a task y = X b + noise."""

    mean: np.ndarray
    covariance: np.ndarray
    noise_variance: float


class Told(NamedTuple):
    """What the tasks' rows tell about the coefficients, for G_t = (X_t C X_t^T + s2 I)^-1."""

    mean_covariance: np.ndarray
    """Of the prior mean given all rows."""
    variance_told: np.ndarray
    """The mean over the tasks of C X^T G X C, by which a task's rows lower the covariance of its coefficients."""
    tasks: int


def step(
    batches: Sequence[TaskBatch], prior: Prior, *, learn_mean: bool = True, stride: float = 1.0
) -> tuple[Prior, Told]:
    """The next mean and covariance at the same noise variance; with `stride` 1 the density of the tasks does not fall.

    First the mean that is best given C, then a step of expectation-maximisation for C around it; d_t and V_t are mean
    and covariance of b_t - m given the rows of task t, and the tasks are k:

        (sum_t X^T G X + C^-1) m = sum_t X^T G y,     C <- (m m^T + sum_t (d_t d_t^T + V_t)) / (k + 1).

    The mean's own law N(0, C) counts as one more task whose coefficients were seen: it keeps the steps well-posed where
    the tasks have fewer rows in all than there are coefficients. With C = A A^T the step is C <- A (I - D) A^T. A
    `stride` > 1 goes about as far as that many steps: see `_long_step`.

    Sources: Dempster, Laird & Rubin (1977); Laird & Ware (1982) for random coefficients; Meng & Rubin (1993).
    """
    root = covariance_root(prior.covariance)
    width = len(root)
    centre = np.zeros(width) if learn_mean else prior.mean
    whitened = [_whiten(batch, root, centre, prior.noise_variance) for batch in batches]
    information = sum((_gram(features) for features, _ in whitened), np.zeros((width, width)))
    tasks = sum(len(targets) for _, targets in whitened)
    count = tasks + learn_mean
    inverse = np.linalg.inv(information + np.eye(width)) if learn_mean else np.zeros((width, width))
    pull = sum((np.tensordot(features, targets, 2 * ([0, 1],)) for features, targets in whitened), np.zeros(width))
    # in the coordinates A, in which everything holds for a singular C too
    mean = inverse @ pull
    moment = tasks * np.eye(width) - information + np.outer(mean, mean)
    for features, targets in whitened:
        residual = targets - features @ mean
        deviations = (features.swapaxes(1, 2) @ residual[..., None])[..., 0]
        moment += deviations.T @ deviations
    change = np.eye(width) - _symmetric(moment) / count
    if stride == 1:
        covariance = root @ (np.eye(width) - change) @ root.T
    else:
        longer = root @ _long_step([features for features, _ in whitened], information, change, count, stride)
        covariance = longer @ longer.T
    found = Prior(root @ mean if learn_mean else prior.mean, _symmetric(covariance), prior.noise_variance)
    return found, Told(_symmetric(root @ inverse @ root.T), _symmetric(root @ information @ root.T) / tasks, tasks)


def left_out(batches: Sequence[TaskBatch], covariance: np.ndarray, penalties: np.ndarray) -> LeftOut:
    """`task_batches.left_out_errors`, for all penalties c at once and through the smaller side of F = X A, C = A A^T.

    c G = c U (S + c)^-1 U^T with F F^T = U S U^T, or I - F V (S + c)^-1 V^T F^T with F^T F = V S V^T.
    """
    width = len(covariance)
    root = covariance_root(covariance)
    errors, noise, rows = np.zeros(len(penalties)), np.zeros(len(penalties)), 0
    for batch in batches:
        features = _times(batch.designs, root)
        short = batch.targets.shape[1] <= width
        other = features.swapaxes(1, 2)
        values, vectors = np.linalg.eigh(features @ other if short else other @ features)
        basis = vectors if short else features @ vectors
        inverse = 1 / (np.maximum(values, 0.0)[..., None] + penalties)
        projected = basis.swapaxes(1, 2) @ batch.targets[..., None]
        diagonal, dual = basis**2 @ inverse, basis @ (projected * inverse)
        if short:
            diagonal, dual = penalties * diagonal, penalties * dual
        else:
            diagonal, dual = 1 - diagonal, batch.targets[..., None] - dual
        real = np.arange(batch.targets.shape[1]) < batch.sizes[:, None]
        diagonal = np.maximum(diagonal[real], np.finfo(np.float64).eps)
        squares = (dual[real] / diagonal) ** 2
        errors += squares.sum(axis=0)
        noise += np.sum(diagonal * squares, axis=0)
        rows += len(squares)
    return LeftOut(errors, noise, rows)


def around(batches: Sequence[TaskBatch], mean: np.ndarray) -> list[TaskBatch]:
    """The tasks with the prediction of the prior mean taken from their targets."""
    return [batch._replace(targets=batch.targets - batch.designs @ mean) for batch in batches]


def covariance_root(covariance: np.ndarray) -> np.ndarray:
    """A with A A^T = C."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _long_step(
    features: Sequence[np.ndarray], information: np.ndarray, change: np.ndarray, count: int, stride: float
) -> np.ndarray:
    """B with C <- A B B^T A^T, for about `stride` steps of expectation-maximisation C <- A (I - D) A^T at once.

    Steps along directions that the tasks determine well have converged after a few, and longer ones would overshoot:
    they are those of Fisher scoring. Where the tasks tell little, C^-1 grows by the same in every step. With the tasks'
    information s_t = A^T X^T G X A, in the eigenvectors of its sum,

        D_ij <- stride D_ij / (1 + (stride - 1) b_ij),    b_ij = mean_t s_t,ii s_t,jj,

    and the eigenvalues c = 1 - D above 1 are kept, those below become 1/(1 + D), which is positive. The project's own;
    it stops where expectation-maximisation does.
    """
    width = len(information)
    vectors = np.linalg.eigh(information)[1]
    shares = [np.sum((part.reshape(-1, width) @ vectors).reshape(part.shape) ** 2, axis=1) for part in features]
    tasks = sum(map(len, shares))
    curvature = (sum((part.T @ part for part in shares), np.zeros((width, width))) + (count - tasks)) / count
    longer = stride * (vectors.T @ change @ vectors) / (1 + (stride - 1) * curvature)
    values, rotation = np.linalg.eigh(_symmetric(longer))
    return vectors @ rotation * np.sqrt(np.where(values < 0, 1 - values, 1 / (1 + np.maximum(values, 0.0))))


def _whiten(
    batch: TaskBatch, root: np.ndarray, mean: np.ndarray, noise_variance: float
) -> tuple[np.ndarray, np.ndarray]:
    """R X A and R (y - X m) of each task, R^T R = (X A A^T X^T + s2 I)^-1."""
    features = _times(batch.designs, root)
    kernel = features @ features.swapaxes(1, 2)
    places = np.arange(kernel.shape[1])
    kernel[:, places, places] += noise_variance
    inverse = np.linalg.inv(np.linalg.cholesky(kernel))
    residual = batch.targets - batch.designs @ mean
    return inverse @ features, (inverse @ residual[..., None])[..., 0]


def _times(stacked: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    # one product: a stack of small ones is much slower
    return (stacked.reshape(-1, len(matrix)) @ matrix).reshape(*stacked.shape[:2], -1)


def _gram(designs: np.ndarray) -> np.ndarray:
    rows = designs.reshape(-1, designs.shape[2])
    return rows.T @ rows


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2
