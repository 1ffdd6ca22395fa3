"""The directions that matter in many data sets of one kind, by the first phase of pretraining on their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.errors import InputError, check_array

_FLAT = 1e-10
"""A direction whose share of the largest variance is below this is left out."""


class LearnedSubspace(NamedTuple):
    """Directions shared by many data sets; `features` has pooled mean 0 and covariance I."""

    projection: np.ndarray
    """(d, r)."""
    mean: np.ndarray
    """The pooled mean of the inputs, (d,)."""
    singular_values: np.ndarray
    """All singular values of the last gradient: a gap after the first r says that r is right."""

    def features(self, inputs: ArrayLike) -> np.ndarray:
        """(X - mean) projection, (n, r)."""
        return (np.asarray(inputs, dtype=np.float64) - self.mean) @ self.projection


def learn_subspace(
    tasks: Sequence[tuple[ArrayLike, ArrayLike]],
    rank: int,
    *,
    neurons: int = 64,
    steps: int = 3,
    seed: int = 0,
) -> LearnedSubspace:
    """The `rank` directions that matter in many data sets (X_t, y_t) of one kind: phase I on all rows of all of them.

    Inputs are whitened with the pooled covariance, and directions without variance are left out. Every row is once the
    query of the prompt of the others of its set, and a set counts with its number of pairs. Labels are centred in each
    set and the neurons over all of them: with few rows, centred labels alone would bias the gradient. The steps use the
    same rows again. Assumes inputs not far from normal with one covariance in all sets, and labels of one scale.
    Source: Oko, Song, Suzuki & Wu (2024), phase I, adapted to data by the project.
    """
    sets = _checked_sets(tasks)
    mean, whitening = _whitening(np.concatenate([x for x, _ in sets]))
    if not 1 <= rank <= whitening.shape[1]:
        raise InputError(f"rank must be from 1 to the rank {whitening.shape[1]} of the inputs, got {rank}")
    if neurons < rank or steps < 1:
        raise InputError(f"neurons must be >= rank = {rank} and steps >= 1, got neurons={neurons}, steps={steps}")
    x = np.concatenate([inputs for inputs, _ in sets])
    x = (x - mean) @ whitening
    y = np.concatenate([labels - labels.mean() for _, labels in sets])
    if not np.any(y):
        raise InputError("tasks must have labels that vary within a data set, got constant ones only")
    y /= np.sqrt(np.mean(y**2))
    starts = np.cumsum([0, *(len(labels) for _, labels in sets)])
    rng = np.random.default_rng(seed)
    weights, biases = unit_rows(rng.standard_normal((neurons, x.shape[1]))), rng.uniform(-1, 1, neurons)
    for _ in range(steps):
        gradient = _gradient_on_sets(x, y, starts, weights, biases)
        weights = unit_rows(gradient)
    _, sizes, rows = np.linalg.svd(gradient, full_matrices=False)
    return LearnedSubspace(whitening @ rows[:rank].T, mean, sizes)


def _gradient_on_sets(
    x: np.ndarray, y: np.ndarray, starts: np.ndarray, weights: np.ndarray, biases: np.ndarray
) -> np.ndarray:
    hidden = x @ weights.T + biases
    active = (hidden > 0).astype(float)
    values = np.maximum(hidden, 0.0)
    values = (values - values.mean(axis=0)) * y[:, None]
    a = np.repeat(np.add.reduceat(values, starts[:-1]), np.diff(starts), axis=0) - values
    a *= y[:, None]
    slopes = active.T @ x / len(x)
    return (a * active).T @ x - a.sum(axis=0)[:, None] * slopes


def _checked_sets(tasks: Sequence[tuple[ArrayLike, ArrayLike]]) -> list[tuple[np.ndarray, np.ndarray]]:
    sets: list[tuple[np.ndarray, np.ndarray]] = []
    for t, task in enumerate(tasks):
        try:
            inputs, labels = task
        except (TypeError, ValueError):
            raise InputError(f"tasks must be pairs (X, y), got {type(task).__name__} as number {t}") from None
        x, y = check_array(f"X of task {t}", inputs, ndim=2), check_array(f"y of task {t}", labels, ndim=1)
        if len(x) != len(y) or len(x) < 3:
            raise InputError(f"task {t} must have as many labels as inputs and at least 3, got {len(x)} and {len(y)}")
        if sets and x.shape[1] != sets[0][0].shape[1]:
            raise InputError(
                f"all tasks must have {sets[0][0].shape[1]} columns as the first, task {t} has {x.shape[1]}"
            )
        sets.append((x, y))
    if not sets:
        raise InputError("tasks must contain at least one pair (X, y), got none")
    return sets


def _whitening(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean, and (d, rank) with which centred inputs have covariance I."""
    mean = x.mean(axis=0)
    sizes, vectors = np.linalg.eigh(np.cov(x, rowvar=False, bias=True).reshape(x.shape[1], -1))
    kept = sizes > _FLAT * sizes[-1]
    if not kept.any():
        raise InputError("tasks must have inputs that vary, got constant ones")
    return mean, vectors[:, kept] / np.sqrt(sizes[kept])


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """The rows over their lengths; rows of 0 stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
