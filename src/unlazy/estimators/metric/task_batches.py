"""Tasks with designs of their own, stacked so that one call solves many, and the steps that learn their metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.estimators.metric.start import scalar_evidence
from unlazy.numerics.ridge import left_out_residuals, ridge_solutions

_BATCH_NUMBERS = 4_000_000
_PADDING = 1.25
_NEGLIGIBLE = 1e-24


class TaskBatch(NamedTuple):
    """Centred tasks of about one size. Rows of zeros fill them up, which changes no sum over rows."""

    designs: np.ndarray
    """(tasks, rows, d)."""
    targets: np.ndarray
    """(tasks, rows)."""
    sizes: np.ndarray
    """Rows of each task that are not filling."""
    freedoms: np.ndarray
    """Rows less the one that the mean took."""


class MetaState(NamedTuple):
    """A metric, (d, d) or (d,) if it is diagonal, and a noise variance."""

    metric: np.ndarray
    noise_variance: float


class LeftOut(NamedTuple):
    """Sums over left-out rows, for each penalty."""

    errors: np.ndarray
    noise: np.ndarray
    rows: int


class _Solved(NamedTuple):
    """For G = (X M X^T + s2 I)^-1 = R^T R of each task of a batch."""

    root: np.ndarray
    """R, (tasks, rows, rows)."""
    dual: np.ndarray
    """G y, (tasks, rows)."""
    left: np.ndarray
    """R X M, or R X if M is diagonal, (tasks, rows, d)."""


def make_batches(tasks: Sequence[tuple[np.ndarray, np.ndarray]], centre: bool) -> list[TaskBatch]:
    """Batches of bounded memory of tasks whose numbers of rows differ by a quarter at most.

    Centring is exact for an intercept with a flat prior: what it takes from a task is the one direction that
    carries no information on the coefficients.
    """
    order = sorted(range(len(tasks)), key=lambda i: len(tasks[i][0]))
    d = tasks[0][0].shape[1]
    chunks: list[list[int]] = []
    for i in order:
        rows = len(tasks[i][0])
        if chunks:
            chunk = chunks[-1]
            fits = rows <= _PADDING * len(tasks[chunk[0]][0])
            if fits and (len(chunk) + 1) * rows * (d + rows) <= _BATCH_NUMBERS:
                chunk.append(i)
                continue
        chunks.append([i])
    return [_stack([tasks[i] for i in chunk], centre) for chunk in chunks]


def start_state(batches: Sequence[TaskBatch]) -> MetaState:
    """Ridge: the metric tau I and the noise variance with the largest evidence of all tasks together.

    They are those of `scalar_evidence`, whose count is that of the rows less one for each centred mean.
    The noise variance is kept in [0.1, 0.9] of the variance of the targets.
    """
    values, energies = [], []
    for batch in batches:
        eigenvalues, vectors = np.linalg.eigh(batch.designs @ batch.designs.swapaxes(1, 2))
        values.append(np.maximum(eigenvalues, 0.0).ravel())
        energies.append((np.einsum("tij,ti->tj", vectors, batch.targets) ** 2).ravel())
    eigenvalues, energy = np.concatenate(values), np.concatenate(energies)
    count = sum(float(batch.freedoms.sum()) for batch in batches)
    found = scalar_evidence(eigenvalues, energy, count)
    variance = energy.sum() / count
    noise = float(np.clip(found.noise_variance, 0.1 * variance, 0.9 * variance))
    return MetaState(found.scale * np.ones(batches[0].designs.shape[2]), noise)


def evidence(batches: Sequence[TaskBatch], state: MetaState) -> float:
    """Minus twice the log-likelihood of y_t ~ N(0, X_t M X_t^T + s2 I), without constants, summed over the tasks."""
    total = 0.0
    for batch in batches:
        solved = _solve(batch, state)
        log_roots = np.log(np.diagonal(solved.root, axis1=1, axis2=2)).sum()
        filling = batch.targets.size - batch.freedoms.sum()
        total += float(np.sum(batch.targets * solved.dual) - 2 * log_roots - filling * np.log(state.noise_variance))
    return total


def step(batches: Sequence[TaskBatch], state: MetaState) -> MetaState:
    """The next metric at the same noise variance; `evidence` does not rise.

    A full metric takes a step of expectation-maximisation, b_t and C_t being mean and covariance of the coefficients
    of task t given its rows; a diagonal one the majorise-minimise step of `metric_path` with sums over the tasks.

        M <- (1/tasks) sum_t (b_t b_t^T + C_t)         m_j <- m_j sqrt(sum_t (x_tj.G_t y_t)^2 / sum_t x_tj.G_t x_tj)

    Similar steps for the noise variance exist, but with as many unknowns per task as rows they drive it far below
    the truth, so it is learned from held-out tasks.
    """
    return (_full_step if state.metric.ndim == 2 else _diagonal_step)(batches, state)


def left_out_errors(batches: Sequence[TaskBatch], metric: np.ndarray, penalties: np.ndarray, centred: bool) -> LeftOut:
    """The `left_out_residuals`, for each penalty c, of tasks that the metric has not seen."""
    errors, noise, count = np.zeros(len(penalties)), np.zeros(len(penalties)), 0
    for batch in batches:
        weighted = batch.designs * metric if metric.ndim == 1 else batch.designs @ metric
        kernel = weighted @ batch.designs.swapaxes(1, 2)
        eigenvalues, vectors = np.linalg.eigh((kernel + kernel.swapaxes(1, 2)) / 2)
        real = np.arange(batch.targets.shape[1]) < batch.sizes[:, None]
        rows = batch.sizes[:, None] if centred else np.inf
        parts = left_out_residuals(np.maximum(eigenvalues, 0.0), vectors, batch.targets[..., None], penalties, rows)
        for i, (residual, weights) in enumerate(parts):
            squares = residual[..., 0][real] ** 2
            errors[i] += np.sum(squares)
            noise[i] += np.sum(weights[real] * squares)
        count += int(real.sum())
    return LeftOut(errors, noise, count)


def posterior_mean(design: np.ndarray, targets: np.ndarray, state: MetaState) -> np.ndarray:
    """b = M X^T (X M X^T + s2 I)^-1 y of one centred task."""
    weighted = state.metric[:, None] * design.T if state.metric.ndim == 1 else state.metric @ design.T
    return weighted @ ridge_solutions(design @ weighted, targets, state.noise_variance)


def _full_step(batches: Sequence[TaskBatch], state: MetaState) -> MetaState:
    change = np.zeros_like(state.metric)
    count = 0
    for batch in batches:
        solved = _solve(batch, state)
        means = np.einsum("tid,ti->td", batch.designs, solved.dual) @ state.metric
        explained = solved.left.reshape(-1, state.metric.shape[0])
        change += means.T @ means - explained.T @ explained
        count += len(means)
    metric = state.metric + change / count
    return state._replace(metric=(metric + metric.T) / 2)


def _diagonal_step(batches: Sequence[TaskBatch], state: MetaState) -> MetaState:
    gain, price = np.zeros_like(state.metric), np.zeros_like(state.metric)
    for batch in batches:
        solved = _solve(batch, state)
        gain += np.sum(np.einsum("tid,ti->td", batch.designs, solved.dual) ** 2, axis=0)
        price += np.einsum("tid,tid->d", solved.left, solved.left)
    metric = state.metric * np.sqrt(np.divide(gain, price, out=np.zeros_like(gain), where=price > 0))
    metric[metric < _NEGLIGIBLE * metric.max(initial=0.0)] = 0.0
    return state._replace(metric=metric)


def _solve(batch: TaskBatch, state: MetaState) -> _Solved:
    diagonal = state.metric.ndim == 1
    weighted = batch.designs * state.metric if diagonal else batch.designs @ state.metric
    rows = batch.designs.shape[1]
    kernel = weighted @ batch.designs.swapaxes(1, 2) + state.noise_variance * np.eye(rows)
    root = np.linalg.inv(np.linalg.cholesky((kernel + kernel.swapaxes(1, 2)) / 2))
    whitened = np.einsum("tij,tj->ti", root, batch.targets)
    return _Solved(root, np.einsum("tij,ti->tj", root, whitened), root @ (batch.designs if diagonal else weighted))


def _stack(tasks: Sequence[tuple[np.ndarray, np.ndarray]], centre: bool) -> TaskBatch:
    sizes = np.array([len(design) for design, _ in tasks])
    designs = np.zeros((len(tasks), sizes.max(), tasks[0][0].shape[1]))
    targets = np.zeros(designs.shape[:2])
    for i, (design, target) in enumerate(tasks):
        designs[i, : sizes[i]] = design - design.mean(axis=0) if centre else design
        targets[i, : sizes[i]] = target - target.mean() if centre else target
    return TaskBatch(designs, targets, sizes, sizes - 1.0 if centre else sizes.astype(float))
