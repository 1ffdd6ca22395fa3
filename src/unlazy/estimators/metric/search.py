"""Cross-validated paths of a metric: every fold relearns it, so no held-out label ever shaped its own prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.estimators.common.gate import is_gain, mean_of_rows, student_quantile
from unlazy.numerics.metric_path import MetricStep, metric_path, metric_product, strong_columns

_PENALTY_FACTORS = np.logspace(-2, 2, 17)
_RIDGE_FACTORS = np.concatenate([np.logspace(-6, -2.25, 16), _PENALTY_FACTORS, np.logspace(2.25, 3, 4)])
PRUNE = 0.03
RIDGE = "ridge"
"""The criterion of step 0."""
_PATIENCE = 2
_LEAST_GAIN = 1e-3
_COMPACT = 0.8
LEAST_NOISE = 1e-8
_LEVEL = 0.05


class SplitRows(NamedTuple):
    """Centred training and held-out rows."""

    train: np.ndarray
    held: np.ndarray


class Fold(NamedTuple):
    """One split of the centred data in one basis."""

    rows: SplitRows
    start: np.ndarray
    """The metric of step 0, shape (columns,)."""
    targets: np.ndarray
    """Training targets in the basis `responses`: n_train x at most n_train."""
    responses: np.ndarray
    """Orthonormal combinations of the tasks, strongest first, as columns."""
    held_targets: np.ndarray
    held: np.ndarray
    """Indices of the held-out rows among all."""
    training_rows: int
    """How many; fewer stand for them where they span fewer dimensions."""


class HeldOutChoice(NamedTuple):
    """A penalty and a rank at one step, with the error of each held-out row."""

    penalty: float
    rank: int
    row_errors: np.ndarray
    """Mean over the folds that hold a row out."""

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
    best: HeldOutChoice
    best_of_full_rank: HeldOutChoice
    noise_variance: float
    """The held-out noise estimate at the best of the 17 penalties near that of the path, of full rank."""
    schedule: tuple[float, ...]
    """The penalties of the steps that led here."""
    is_ridge: bool
    """No label chose anything but scale and penalty."""


def make_fold(
    rows: SplitRows, start: np.ndarray, targets: SplitRows, held: np.ndarray, span: np.ndarray | None = None
) -> Fold:
    """A fold whose targets are compressed to the row space of the training targets.

    `span` (n, k), with orthonormal columns, is where the training rows lie, given in that basis.
    """
    left, values, right = np.linalg.svd(targets.train, full_matrices=False)
    responses = left * values if span is None else span.T @ (left * values)
    return Fold(rows, start, responses, right.T, targets.held, held, len(left))


def prune_of(count: int, rows: np.ndarray) -> float:
    """What `metric_path` drops of rows that stand for `count` ones: it divides by those that it sees."""
    return PRUNE * count / len(rows)


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
    start_is_ridge: bool = False,
) -> list[PathRecord]:
    """Held-out errors along the path of `metric_path` (power 1), all folds in lockstep.

    At each of `steps` the errors of 17 penalties around that of the path (37 for ridge) and of the ranks (predictions
    confined to the strongest combinations of tasks) are recorded. With `adapt` the noise variance estimated there is
    the penalty of the next steps:

        s2 = mean over held-out rows of residual^2 / (1 + v/c),   v = k(x,x) - k(x,X) (K + c I)^-1 k(X,x),

    or, where the least of the penalties is the best, the smaller of the penalty and the error.

    The path ends after two records that lower the least error by less than 0.1%.
    `start_known` leaves out step 0, which is the same for both criteria; `start_is_ridge` says that it is ridge.
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
                prune=prune_of(fold.training_rows, fold.rows.train),
                dtype=fold.rows.train.dtype,
            )
        )
    columns = [_Columns(np.arange(len(fold.start)), fold.rows) for fold in folds]
    rank_grid = _rank_grid(folds, ranks)
    held = np.concatenate([fold.held for fold in folds])
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
        # ridge has nothing but its penalty, and nearly collinear features want a tiny one
        is_ridge = start_is_ridge and step == 0
        penalties = penalty * (_RIDGE_FACTORS if is_ridge else _PENALTY_FACTORS)
        columns = [_active(part, state.metric) for part, state in zip(columns, reached, strict=True)]
        parts = [
            _held_out(fold, part, state, penalties, rank_grid)
            for fold, part, state in zip(folds, columns, reached, strict=True)
        ]
        errors = mean_of_rows(np.concatenate([part[0] for part in parts], axis=1), held, axis=1)
        variances = mean_of_rows(np.concatenate([part[1] for part in parts], axis=1), held, axis=1)
        means = errors.mean(axis=1)
        i, j = np.unravel_index(np.argmin(means), means.shape)
        full = int(np.argmin(means[:, -1]))
        best = HeldOutChoice(float(penalties[i]), int(rank_grid[j]), errors[i, :, j])
        of_full_rank = HeldOutChoice(float(penalties[full]), int(rank_grid[-1]), errors[full, :, -1])
        near = np.flatnonzero(np.isin(penalties, penalty * _PENALTY_FACTORS))
        k = near[np.argmin(means[near, -1])]
        noise = float(np.mean(errors[k, :, -1] / (1 + variances[k] / penalties[k])))
        if k == near[0]:
            # the errors only say that the penalty is small, and would drive it to 0
            noise = min(penalty, float(means[k, -1]))
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
                is_ridge,
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
    rows: SplitRows


def _active(columns: _Columns, metric: np.ndarray) -> _Columns:
    kept = np.flatnonzero(metric[columns.indices])
    if len(kept) >= _COMPACT * len(columns.indices):
        return columns
    return _Columns(columns.indices[kept], SplitRows(*(part[:, kept] for part in columns.rows)))


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


def choose(records: Sequence[PathRecord]) -> tuple[PathRecord, HeldOutChoice]:
    """Ridge, unless a record is better by more than chance among so many explains.

    The least error of full rank has to beat ridge, and the least error of any rank then has to beat the winner. Better
    means that the paired differences of the held-out rows have a mean of more than q standard errors, where q is
    Student's quantile at the level 5% divided by the number of other records (Bonferroni). Without ridge among the
    records the full rank with the least error is the one to beat.
    """
    ridge = [record for record in records if record.is_ridge]
    chosen = min(ridge or records, key=lambda record: record.best_of_full_rank.error)
    choice = chosen.best_of_full_rank
    others = max(len(records) - len(ridge), 1)
    best = min(records, key=lambda record: record.best_of_full_rank.error)
    if _is_better(best.best_of_full_rank, choice, others):
        chosen, choice = best, best.best_of_full_rank
    lower_rank = min(records, key=lambda record: record.best.error)
    if _is_better(lower_rank.best, choice, others):
        chosen, choice = lower_rank, lower_rank.best
    return chosen, choice


def _is_better(first: HeldOutChoice, second: HeldOutChoice, candidates: int) -> bool:
    gain = second.row_errors - first.row_errors
    return is_gain(gain, student_quantile(_LEVEL / candidates, len(gain)))


def record_table(records: Sequence[PathRecord], unit: float) -> dict[str, np.ndarray]:
    """All errors as columns of one table; `unit` is that of variances."""
    columns: dict[str, list[np.ndarray]] = {}
    for record in records:
        shape = record.errors.shape
        row: dict[str, Any] = {
            "basis": record.basis,
            "criterion": record.criterion,
            "step": record.step,
            "is_ridge": record.is_ridge,
            "alpha": unit * record.penalties[:, None],
            "rank": record.ranks,
            "cv_mse": unit * record.errors,
            "noise_variance": unit * record.noise_variance,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(np.broadcast_to(value, shape).ravel())
    return {name: np.concatenate(parts) for name, parts in columns.items()}
