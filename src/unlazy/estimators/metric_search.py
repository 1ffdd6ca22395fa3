"""Cross-validated paths of a metric: every fold relearns it, so no held-out label ever shaped its own prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.numerics.metric_path import MetricStep, metric_path, metric_product, strong_columns

_PENALTY_FACTORS = np.logspace(-2, 2, 17)
PRUNE = 0.03
RIDGE = "ridge"
"""The criterion of step 0."""
_PATIENCE = 2
_LEAST_GAIN = 1e-3
_COMPACT = 0.8
LEAST_NOISE = 1e-8


class Rows(NamedTuple):
    """Centred training and held-out rows."""

    train: np.ndarray
    held: np.ndarray


class Fold(NamedTuple):
    """One split of the centred data in one basis."""

    rows: Rows
    start: np.ndarray
    """The metric of step 0, shape (columns,)."""
    targets: np.ndarray
    """Training targets in the basis `responses`: n_train x at most n_train."""
    responses: np.ndarray
    """Orthonormal combinations of the tasks, strongest first, as columns."""
    held_targets: np.ndarray


class Choice(NamedTuple):
    """A penalty and a rank at one step, with the error of each held-out row."""

    penalty: float
    rank: int
    row_errors: np.ndarray

    @property
    def error(self) -> float:
        return float(self.row_errors.mean())


class PathRecord(NamedTuple):
    """Held-out errors at one step of a path."""

    basis: str
    criterion: str
    step: int
    penalties: np.ndarray
    ranks: np.ndarray
    """Increasing; the last is the full rank, unless one rank was asked for."""
    errors: np.ndarray
    """Mean squared errors, (penalties, ranks)."""
    best: Choice
    best_of_full_rank: Choice
    noise_variance: float
    """The held-out noise estimate of `best_of_full_rank`."""
    schedule: tuple[float, ...]
    """The penalties of the steps that led here."""


def make_fold(rows: Rows, start: np.ndarray, targets: Rows) -> Fold:
    """A fold whose targets are compressed to the row space of the training targets."""
    left, values, right = np.linalg.svd(targets.train, full_matrices=False)
    return Fold(rows, start, left * values, right.T, targets.held)


def search_path(
    folds: Sequence[Fold],
    basis: str,
    criterion: str,
    penalty: float,
    steps: Sequence[int],
    ranks: Sequence[int] | int,
    *,
    adapt: bool,
    groups: np.ndarray | None = None,
    start_known: bool = False,
) -> list[PathRecord]:
    """Held-out errors along the path of `metric_path` (power 1), all folds in lockstep.

    At each of `steps` the errors of 17 penalties around that of the path and of the ranks (predictions confined
    to the strongest combinations of tasks) are recorded. With `adapt` the noise variance estimated there is the
    penalty of the next steps:

        s2 = mean over held-out rows of residual^2 / (1 + v/c),   v = k(x,x) - k(x,X) (K + c I)^-1 k(X,x),

    or, where the least of the 17 penalties is the best, the smaller of the penalty and the error.

    The path ends after two records that lower the least error by less than 0.1%.
    `start_known` leaves out step 0, which is the same for both criteria.
    """
    paths = []
    for fold in folds:
        tasks = len(fold.responses)
        # metric_path divides by the number of columns it gets
        scaled = fold.targets * np.sqrt(fold.targets.shape[1] / tasks)
        paths.append(
            metric_path(
                fold.rows.train,
                scaled,
                penalty,
                criterion=criterion,
                start=fold.start,
                power=1.0,
                groups=groups,
                prune=PRUNE,
                dtype=fold.rows.train.dtype,
            )
        )
    columns = [_Columns(np.arange(len(fold.start)), fold.rows) for fold in folds]
    rank_grid = _rank_grid(folds, ranks)
    records: list[PathRecord] = []
    schedule: list[float] = []
    without_gain, least = 0, np.inf
    for step in range(max(steps) + 1):
        if step == 0:
            reached = [next(path) for path in paths]
        else:
            schedule.append(penalty)
            reached = [path.send(penalty) for path in paths]
        if step not in steps or (start_known and step == 0):
            continue
        penalties = penalty * _PENALTY_FACTORS
        columns = [_active(part, state.metric) for part, state in zip(columns, reached, strict=True)]
        parts = [
            _held_out(fold, part, state, penalties, rank_grid)
            for fold, part, state in zip(folds, columns, reached, strict=True)
        ]
        errors = np.concatenate([part[0] for part in parts], axis=1)
        variances = np.concatenate([part[1] for part in parts], axis=1)
        means = errors.mean(axis=1)
        i, j = np.unravel_index(np.argmin(means), means.shape)
        full = int(np.argmin(means[:, -1]))
        best = Choice(float(penalties[i]), int(rank_grid[j]), errors[i, :, j])
        of_full_rank = Choice(float(penalties[full]), int(rank_grid[-1]), errors[full, :, -1])
        noise = float(np.mean(of_full_rank.row_errors / (1 + variances[full] / of_full_rank.penalty)))
        if full == 0:
            # the errors only say that the penalty is small, and would drive it to 0
            noise = min(penalty, of_full_rank.error)
        records.append(
            PathRecord(
                basis,
                criterion if step else RIDGE,
                step,
                penalties,
                rank_grid,
                means,
                best,
                of_full_rank,
                noise,
                tuple(schedule),
            )
        )
        if adapt:
            penalty = float(np.clip(noise, max(penalty / 20, LEAST_NOISE), penalty * 20))
        without_gain = 0 if best.error < (1 - _LEAST_GAIN) * least else without_gain + 1
        least = min(least, best.error)
        if without_gain == _PATIENCE:
            break
    return records


class _Columns(NamedTuple):
    """The columns that are not all dropped."""

    indices: np.ndarray
    rows: Rows


def _active(columns: _Columns, metric: np.ndarray) -> _Columns:
    kept = np.flatnonzero(metric[columns.indices])
    if len(kept) >= _COMPACT * len(columns.indices):
        return columns
    return _Columns(columns.indices[kept], Rows(*(part[:, kept] for part in columns.rows)))


def _held_out(
    fold: Fold, columns: _Columns, state: MetricStep, penalties: np.ndarray, ranks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors (penalties, rows, ranks), mean over tasks, and prior variances v (penalties, rows)."""
    train, held = columns.rows
    metric = state.metric[columns.indices]
    strong = strong_columns(metric * np.einsum("ij,ij->j", train, train), float(penalties.min()))
    cross = metric_product(held, train, metric, strong)
    own = np.square(held, dtype=np.float64) @ metric
    eigenvalues, vectors = np.linalg.eigh(state.kernel)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    cross = cross @ vectors
    projected = vectors.T @ fold.targets
    wanted = fold.held_targets @ fold.responses
    tasks = len(fold.responses)
    total = np.sum(fold.held_targets**2, axis=1)[:, None]
    errors = np.empty((len(penalties), len(held), len(ranks)))
    variances = np.empty((len(penalties), len(held)))
    for i, penalty in enumerate(penalties):
        shrunk = cross / (eigenvalues + penalty)
        predicted = shrunk @ projected
        gains = np.cumsum(predicted * (2 * wanted - predicted), axis=1)[:, ranks - 1]
        errors[i] = np.maximum(total - gains, 0.0) / tasks
        variances[i] = np.maximum(own - np.sum(shrunk * cross, axis=1), 0.0)
    return errors, variances


def _rank_grid(folds: Sequence[Fold], ranks: Sequence[int] | int) -> np.ndarray:
    """A single rank, or the given ones below the full one and the full one last."""
    full = min(fold.targets.shape[1] for fold in folds)
    if isinstance(ranks, int):
        return np.array([min(ranks, full)])
    return np.array(sorted({rank for rank in ranks if rank < full} | {full}))


def choose(records: Sequence[PathRecord]) -> tuple[PathRecord, Choice]:
    """The record and choice with the least error, unless something simpler is about as good.

    Ridge (step 0 of the first basis) is left for a metric that is better by one standard error, and the full rank for
    a lower one that is better by two: that of the mean paired difference over the held-out rows.
    """
    starts = [record for record in records if record.step == 0 and record.basis == records[0].basis]
    candidates = [min(of, key=lambda record: record.best_of_full_rank.error) for of in (starts, records) if of]
    chosen, choice = candidates[0], candidates[0].best_of_full_rank
    if _is_better(candidates[-1].best_of_full_rank, choice, 1.0):
        chosen, choice = candidates[-1], candidates[-1].best_of_full_rank
    lower_rank = min(records, key=lambda record: record.best.error)
    if _is_better(lower_rank.best, choice, 2.0):
        chosen, choice = lower_rank, lower_rank.best
    return chosen, choice


def _is_better(first: Choice, second: Choice, standard_errors: float) -> bool:
    difference = second.row_errors - first.row_errors
    return bool(difference.mean() > standard_errors * difference.std() / np.sqrt(len(difference)))
