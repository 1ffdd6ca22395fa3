"""Kernel regression in the directions along which the functions of many small tasks vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.estimators.common.inputs import Pairs
from unlazy.estimators.in_context.process import CUBIC, GAUSSIAN, Process, kernel
from unlazy.estimators.in_context.tasks import Folds, PooledMean, cut
from unlazy.numerics.ridge import ridge_solutions

_PENALTIES = np.logspace(-4, 1.5, 12)
_SCALES = (0.25, 1.0)
_STEPS = 5
_FLOOR = 1e-4
_MOST_ROWS = 150
_LEAST_NOISE = 1e-8


class LearnedKernel(NamedTuple):
    """The process of a new task, and how it was found."""

    process: Process
    metric: np.ndarray
    """The mean outer product of the functions' gradients, (d, d), in standardised features."""
    error: float
    steps: int
    effective_tasks: float


class _Found(NamedTuple):
    error: float
    noise: float
    penalty: float
    scale: float


class _KernelPath(NamedTuple):
    kind: str
    looks: list[_Found]
    """After 0, 1, ... steps."""


def learn_kernel(
    pairs: Pairs, folds: Folds, pooled: PooledMean, rank: int | None, context: int | None = None
) -> LearnedKernel:
    """Kernel, metric and penalty with the least leave-one-out error of held-out tasks.

    From the metric M = I on, each step fits every task by kernel ridge regression in the metric and replaces M by the
    mean outer product of the fitted functions' gradients over all rows of all tasks:

        M <- mean_t mean_i grad f_t(x_i) grad f_t(x_i)^T,

    scaled so that x.M x is 2 on average; `rank` keeps its strongest directions only. Tasks with functions of the same
    few directions share M although none of them has rows enough to find it. Sources: Radhakrishnan, Beaglehole, Pandit
    & Belkin (2024) for one task; the sharing between tasks is the project's.
    """
    rng = np.random.default_rng(0)
    short = [_shortened(pair, rng) for pair in pairs]
    covariance = _covariance(short)
    paths = [_held_out_path(kind, short, folds, pooled, covariance, rank, context) for kind in (CUBIC, GAUSSIAN)]
    path = min(paths, key=lambda path: min(look.error for look in path.looks))
    count = int(np.argmin([look.error for look in path.looks]))
    best = path.looks[count]
    targets = [(design, target - design @ pooled.all) for design, target in short]
    gradients = np.eye(covariance.shape[0])
    for i, look in enumerate(path.looks[:count]):
        root = _root(gradients, covariance, rank if i else None, look.scale)
        gradients = _mean_gradients(path.kind, targets, root, look.penalty)
    root = _root(gradients, covariance, rank if count else None, best.scale)
    noise = max(best.noise, _LEAST_NOISE)
    process = Process(path.kind, pooled.all, np.vstack([np.zeros(root.shape[1]), root]), noise / best.penalty, noise)
    told = _share_told(path.kind, targets, root, best.penalty)
    metric = _mean_gradients(path.kind, targets, root, best.penalty)
    return LearnedKernel(process, metric, best.error, count, told * len(pairs))


def _held_out_path(
    kind: str,
    pairs: Pairs,
    folds: Folds,
    pooled: PooledMean,
    covariance: np.ndarray,
    rank: int | None,
    context: int | None,
) -> _KernelPath:
    learned, held = [], []
    for (inside, outside), mean in zip(folds, pooled.folds, strict=True):
        learned.append([(pairs[i][0], pairs[i][1] - pairs[i][0] @ mean) for i in inside])
        held.append([(X, y - X @ mean) for i in outside for X, y in cut(pairs[i], context)])
    gradients = [np.eye(covariance.shape[0]) for _ in folds]
    path = _KernelPath(kind, [])
    for count in range(_STEPS + 1):
        roots = [_root(part, covariance, rank if count else None, 1.0) for part in gradients]
        look = min((_look(kind, held, roots, scale) for scale in _SCALES), key=lambda found: found.error)
        path.looks.append(look)
        if count == _STEPS or look.error > 1.05 * min(found.error for found in path.looks):
            break
        gradients = [
            _mean_gradients(kind, part, root * np.sqrt(look.scale), look.penalty)
            for part, root in zip(learned, roots, strict=True)
        ]
    return path


def _look(kind: str, held: Sequence[Pairs], roots: Sequence[np.ndarray], scale: float) -> _Found:
    """The penalty with the least leave-one-out error, residual_i = (G y)_i / G_ii.

    Not `left_out_residuals`: with the few rows of a task all penalties at once are up to three times as fast.
    """
    errors, noises, rows = np.zeros(len(_PENALTIES)), np.zeros(len(_PENALTIES)), 0
    for pairs, root in zip(held, roots, strict=True):
        for design, target in pairs:
            features = np.sqrt(scale) * design[:, 1:] @ root
            values, vectors = np.linalg.eigh(kernel(kind, features, features))
            # times the penalty: between 0 and 1
            inverse = _PENALTIES / (np.maximum(values, 0.0)[:, None] + _PENALTIES)
            diagonal = np.maximum(vectors**2 @ inverse, np.finfo(np.float64).eps)
            residual = vectors @ (inverse * (vectors.T @ target)[:, None]) / diagonal
            errors += np.sum(residual**2, axis=0)
            noises += np.sum(diagonal * residual**2, axis=0)
            rows += len(target)
    i = int(np.argmin(errors))
    return _Found(float(errors[i] / rows), float(noises[i] / rows), float(_PENALTIES[i]), scale)


def _mean_gradients(kind: str, pairs: Pairs, root: np.ndarray, penalty: float) -> np.ndarray:
    """The mean outer product of the gradients of all tasks' fits at their rows."""
    total, rows = np.zeros((root.shape[1], root.shape[1])), 0
    for design, target in pairs:
        features = design[:, 1:] @ root
        gram = kernel(kind, features, features)
        dual = ridge_solutions(gram, target, penalty)
        if kind == CUBIC:
            slopes = (1 + features @ features.T) ** 2 / 9 * dual
            gradients = slopes @ features
        else:
            slopes = (gram - 1) * dual
            gradients = slopes @ features - slopes.sum(axis=1)[:, None] * features
        total += gradients.T @ gradients
        rows += len(target)
    return root @ (total / rows) @ root.T


def _share_told(kind: str, pairs: Pairs, root: np.ndarray, penalty: float) -> float:
    """The mean over tasks of the share of the kernel's trace that a task's rows determine."""
    shares = []
    for design, _ in pairs[:50]:
        features = design[:, 1:] @ root
        gram = kernel(kind, features, features)
        values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
        shares.append(float(np.sum(values**2 / (values + penalty)) / np.sum(values)))
    return float(np.mean(shares))


def _root(gradients: np.ndarray, covariance: np.ndarray, rank: int | None, scale: float) -> np.ndarray:
    """A with A A^T = M, of which the mean of x.M x is 2 * scale."""
    values, vectors = np.linalg.eigh(gradients)
    largest = max(float(values[-1]), np.finfo(np.float64).tiny)
    kept = slice(None) if rank is None else slice(-rank, None)
    root = vectors[:, kept] * np.sqrt(np.maximum(values[kept], _FLOOR * largest) / largest)
    mean_square = float(np.sum(root * (covariance @ root)))
    return root * np.sqrt(2 * scale / mean_square) if mean_square > 0 else root


def _covariance(pairs: Pairs) -> np.ndarray:
    rows = np.concatenate([design[:, 1:] for design, _ in pairs])
    return rows.T @ rows / len(rows)


def _shortened(pair: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    design, target = pair
    if len(target) <= _MOST_ROWS:
        return pair
    rows = rng.choice(len(target), _MOST_ROWS, replace=False)
    return design[rows], target[rows]
