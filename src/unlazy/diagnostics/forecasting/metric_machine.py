"""What more rows bring to a metric machine whose metric stays as it is: its kernel, cross-fitted, as any other one.

A metric is learned on each half of the rows and used on the other, where it is a fixed kernel: none of these rows had a
say in it. So `LearningCurve` reads the errors with more rows off the kernel matrix of each half, and the forecast is
the geometric mean of the two. With m rows in a half and e_1(n), e_2(n) the errors of kernel ridge regression on n rows,

    e(n) = sqrt(e_1(n) e_2(n))
    low(n) = e(n) exp(-w_low(n)) (min(n, 2000) / m)^-s,    high(n) = e(n) exp(w_high(n)),

where w is half the root of the sum of the squares of both intervals, each way, as for the mean of two independent ones.

The metric would get better with more rows, which no theory here foresees: the error holds it fixed, and only the low
end allows for it. The slope s is by how much log error on one half falls if all of the other half teaches the metric,
in place of either half of it, over log 2; between 0 and 1. Low ends keep it for more rows, up to the 2000 beyond which
`MetricMachineRegressor` learns no better metric. Metrics of few rows may get better faster than that.

`MetricMachineRegressor` adds several kernels with weights of their own; forecast is that of least cross-fitted error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.diagnostics.curves import Curve, Interval
from unlazy.diagnostics.learning_curve.curve import LearningCurve
from unlazy.diagnostics.learning_curve.pool import subsample
from unlazy.estimators.common.folds import parted_halves
from unlazy.training.one_step.metric_machine.kernels import DISTANCE, SUM, LaplaceKernel, MetricRows, in_metric
from unlazy.training.one_step.metric_machine.members import MetricRound, fit, linear_round, refits, rounds

LARGEST_POOL = 600
# halves of fewer do not teach a metric: from 40 to 80 rows of real tables, errors at 10x were off by a factor of 2.9
_FEWEST = 100
_MOST_COLUMNS = 500
# with fewer a half may hold one value only
_FEWEST_OTHERS = 4
# rows^2 (columns + 100), so that wide tables take no longer than narrow ones
_WORK = 1e8
# `metric_rows` of `MetricMachineRegressor`
_MOST_METRIC_ROWS = 2000
_LINEAR = "linear"


class MetricGain(NamedTuple):
    """What a better metric than that of so many rows may bring: a factor (min(n, 2000) / rows)^-slope of the error."""

    rows: int
    """That taught it."""
    slope: float
    """-d log error / d log rows, from half as many rows to these; between 0 and 1."""

    def at(self, n: np.ndarray) -> np.ndarray:
        """The factor; 1 for n below `rows`."""
        return np.maximum(np.minimum(n, _MOST_METRIC_ROWS) / self.rows, 1.0) ** -self.slope


class MetricCurve:
    """Two kernels, each with the metric that one half of the rows taught and the curve of the other half."""

    def __init__(
        self,
        kernel: LaplaceKernel,
        encoder: Any,
        halves: Sequence[MetricRows],
        targets: Sequence[np.ndarray],
        words: str,
        gain: MetricGain | None,
    ):
        self.rows, self.words, self.gain = len(targets[0]) + len(targets[1]), words, gain
        self._kernel, self._encoder, self._metric = kernel, encoder, halves[0]
        self.curves = []
        for half, labels in zip(halves, targets, strict=True):
            matrix = _matrix(kernel, half, half.rows)
            # distances of rows that repeat each other are rounding errors, not the same both ways
            curve = LearningCurve("precomputed", max_rows=len(labels)).fit((matrix + matrix.T) / 2, labels)
            self.curves.append(curve)

    @property
    def pool(self) -> int:
        """The rows of the smaller half."""
        return min(curve.pool_.size for curve in self.curves)

    @property
    def noise_variance(self) -> float:
        """As a share of the target's variance."""
        return float(np.mean([curve.noise_estimate().share for curve in self.curves]))

    def penalty_path(self) -> tuple[np.ndarray, np.ndarray]:
        """Penalties and leave-one-out errors, the mean of both halves."""
        first, second = (curve.penalty_path() for curve in self.curves)
        other = np.interp(np.log(first.penalty), np.log(second.penalty), second.loo_error)
        return first.penalty, (first.loo_error + other) / 2

    def predict(self, n: np.ndarray, penalty: float) -> Curve:
        """Errors with n rows in a metric that stays as it is, also in the intervals."""
        found = [curve.predict(n, penalty) for curve in self.curves]
        errors, lows, highs, in_range, reliable = (
            np.array([getattr(one, name) for one in found])
            for name in ("test_error", "low", "high", "in_range", "reliable")
        )
        error = np.sqrt(np.prod(errors, axis=0))

        def width(ends: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(error == 0, 0.0, np.sqrt(np.sum(np.log(ends / errors) ** 2, axis=0)) / 2)

        interval = Interval(error * np.exp(-width(lows)), error * np.exp(width(highs)))
        return Curve(n, error, interval, in_range[0] & in_range[1], reliable[0] & reliable[1])

    def matrices(self, inputs: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Kernel matrices of rows of the table, and of new ones with them, in the metric of one half."""
        metric = self._metric.at(self._encoder.transform(inputs))
        placed = metric.placed(self._encoder.transform(new))
        return _matrix(self._kernel, metric, metric.rows), _matrix(self._kernel, metric, placed)


def pool_of(inputs: np.ndarray) -> np.ndarray:
    """The rows that the forecast is made from: all, or 600 at random, fewer of wide tables."""
    return subsample(len(inputs), int(min(LARGEST_POOL, np.sqrt(_WORK / (inputs.shape[1] + 100)))), 0)


def refusal(inputs: np.ndarray, targets: np.ndarray) -> str:
    """Why there is no forecast of a metric machine; empty where there is."""
    if targets.shape[1] > 1:
        return f"it takes one target, got {targets.shape[1]}"
    if len(inputs) < _FEWEST:
        return f"it needs at least {_FEWEST} rows, got {len(inputs)}"
    if inputs.shape[1] > _MOST_COLUMNS:
        return f"it takes at most {_MOST_COLUMNS} columns, got {inputs.shape[1]}"
    counts = np.unique(targets[pool_of(inputs)], return_counts=True)[1]
    if counts.sum() - counts.max() < _FEWEST_OTHERS:
        return f"its halves need at least {_FEWEST_OTHERS} rows that differ from the most common target"
    return ""


def metric_curve(inputs: np.ndarray, targets: np.ndarray) -> MetricCurve:
    """The curve of the machine's best stage, from the rows of `pool_of`.

    Kernel, number of rounds and shapes of the metric have the least cross-fitted error of both halves together.
    """
    from sklearn.utils import check_random_state

    from unlazy.data.table_encoder import TableEncoder

    random, pool = check_random_state(0), pool_of(inputs)
    encoder = TableEncoder("robust").fit(inputs)
    rows, labels = encoder.transform(inputs[pool]), targets[pool] - targets[pool].mean(axis=0)
    halves = parted_halves(labels[:, 0], random)
    kind, count, best = _best_stage(rows, labels, halves, random)
    roots = [refits(best, rows[half], labels[half], random)[-1].metric.root for half in halves]
    crossed = zip(halves, roots[::-1], strict=True)
    metrics = [in_metric(best.kernel.kind, rows[half], root) for half, root in crossed]
    words, gain = f"{kind} kernel, no metric learned", None
    if count:
        gain = MetricGain(min(map(len, halves)), _slope(best, rows, labels, halves, roots, random))
        words = f"{kind} kernel, metric of {count} round{'s' if count > 1 else ''} from {gain.rows} rows"
    return MetricCurve(best.kernel, encoder, metrics, [targets[pool][half] for half in halves], words, gain)


def _best_stage(
    rows: np.ndarray, targets: np.ndarray, halves: tuple[np.ndarray, np.ndarray], random: np.random.RandomState
) -> tuple[str, int, MetricRound]:
    chains = {_LINEAR: [linear_round(rows, targets, halves)]}
    chains |= {kind: rounds(kind, rows, targets, halves, random) for kind in (SUM, DISTANCE)}
    stages = [(kind, count, one) for kind, chain in chains.items() for count, one in enumerate(chain)]
    return min(stages, key=lambda stage: float(np.sum((targets - stage[2].predictions) ** 2)))


def _slope(
    best: MetricRound,
    rows: np.ndarray,
    targets: np.ndarray,
    halves: tuple[np.ndarray, np.ndarray],
    roots: list[np.ndarray],
    random: np.random.RandomState,
) -> float:
    """-d log error / d log rows that teach the metric, from a quarter of all to a half: the mean over four quarters."""
    found = []
    for here, other, root in zip(halves, halves[::-1], roots[::-1], strict=True):

        def loss(taught: np.ndarray, here: np.ndarray = here) -> float:
            return fit(best.kernel, rows[here], targets[here], taught, best.penalty).loss

        whole = loss(root)
        for place in parted_halves(targets[other, 0], random):
            part = other[place]
            taught = refits(best, rows[part], targets[part], random)[-1].metric.root
            found.append(np.log2(loss(taught) / whole) if whole > 0 else 0.0)
    return float(np.clip(np.mean(found), 0.0, 1.0))


def _matrix(kernel: LaplaceKernel, metric: MetricRows, placed: np.ndarray) -> np.ndarray:
    return kernel.matrix(metric.distances(placed), metric.products(placed) if kernel.linear else None)
