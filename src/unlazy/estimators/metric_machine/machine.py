"""Kernel ridge machines with a learned metric, for tables as they are."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from unlazy.checks import InputError, check_whole
from unlazy.estimators.common.folds import parted_halves
from unlazy.estimators.metric_machine.calibration import calibrated
from unlazy.estimators.metric_machine.forest import MOST_ROWS, Forest, crossed_forest, grown
from unlazy.estimators.metric_machine.large import fit_all
from unlazy.estimators.metric_machine.logits import LinearLogits, crossed_logits, log_loss
from unlazy.estimators.metric_machine.report import Gain, MachineReport, direction_words
from unlazy.estimators.metric_machine.rows import (
    EncodedRows,
    RowsInMemory,
    RowsInPartitions,
    by_partition,
    encoder_of,
    in_memory,
    is_partitioned,
    new_encoder,
    partition_lengths,
)
from unlazy.training.one_step.metric_machine.kernels import DISTANCE, SUM
from unlazy.training.one_step.metric_machine.members import Fit, linear_round, refits, rounds

_LEAST_WEIGHT = 0.03
_FEWEST_ROWS = 10
_MOST_DIRECTIONS = 5
_RESAMPLES = 500
Seen = TypeVar("Seen")
RIDGES = LINEAR, BOUNDED = "ridge", "ridge of bounded columns"
FOREST = "forest"


class Member(NamedTuple):
    """One machine of the sum."""

    stage: str
    weight: float
    fit: Fit | Forest


class Views(NamedTuple, Generic[Seen]):
    """The same rows, encoded, as kernels and as ridge regression see them."""

    bounded: Seen
    """No row is far away."""
    plain: Seen
    """Of mean 0 and variance 1 among the rows that taught the metric."""

    def of(self, kind: str) -> Seen:
        return self.plain if kind == LINEAR else self.bounded


class LearnedScores(NamedTuple):
    """What the rows that taught the metric say of each other."""

    rows: Views[np.ndarray]
    halves: tuple[np.ndarray, np.ndarray]
    crossed: np.ndarray
    """(n, outputs), cross-fitted scores."""


class MetricMachine(BaseEstimator):
    """Abstract: scores (n, outputs) as a sum of kernel ridge machines whose metric is learned, and a forest."""

    _score_word = "R^2"

    def __init__(self, *, metric_rows: int = 2000, trees: int = 300, random_state: Any = None):
        self.metric_rows = metric_rows
        self.trees = trees
        self.random_state = random_state

    def _learn(self, table: EncodedRows, targets: np.ndarray, strata: np.ndarray) -> LearnedScores:
        """Fit scores to targets (n, outputs) of mean 0."""
        random = check_random_state(self.random_state)
        n, most = len(targets), check_whole("metric_rows", self.metric_rows, _FEWEST_ROWS)
        trees = check_whole("trees", self.trees, 0)
        some = np.arange(n) if n <= most else np.sort(random.permutation(n)[:most])
        rows = self._views(table, some)
        few, few_targets = Views(rows.bounded.take(some), rows.plain.take(some)), targets[some]
        halves = parted_halves(strata[some], random)
        chains = {kind: [linear_round(few.of(kind), few_targets, halves)] for kind in RIDGES}
        chains |= {kind: rounds(kind, few.bounded, few_targets, halves, random) for kind in (SUM, DISTANCE)}
        found = {(kind, count): one.predictions for kind, chain in chains.items() for count, one in enumerate(chain)}
        if trees:
            found[FOREST, 0] = crossed_forest(few.bounded, few_targets, halves, trees, random)
        weights = _stacked(found, few_targets)
        if n > most:
            # all rows cost more than those of the metric: one machine of each kind
            heaviest = {kind: max(weights, key=lambda key: (key[0] == kind, weights[key])) for kind, _ in found}
            weights = _stacked({key: found[key] for key in heaviest.values()}, few_targets)
        members = []
        for kind, chain in chains.items():
            used = [count for count in range(len(chain)) if weights.get((kind, count))]
            machines = refits(chain[used[-1]], few.of(kind), few_targets, random) if used else []
            for count in used:
                machine = machines[count] if n <= most else fit_all(machines[count], rows.of(kind), targets, random)
                members.append(Member(_name(kind, count), weights[kind, count], machine))
        if weights.get((FOREST, 0)):
            places = some if n <= most else np.sort(random.permutation(n)[:MOST_ROWS])
            forest = grown(rows.bounded.take(places), targets[places], trees, random)
            members.append(Member(FOREST, weights[FOREST, 0], forest))
        self.members_, self.metric_indices_ = tuple(members), some
        crossed = np.sum([weight * found[key] for key, weight in weights.items()], axis=0)
        self._describe(few, few_targets, {_name(*key): one for key, one in found.items()}, crossed)
        return LearnedScores(few, halves, crossed)

    def _describe(
        self, rows: Views[np.ndarray], targets: np.ndarray, found: dict[str, np.ndarray], crossed: np.ndarray
    ) -> None:
        """What the machines see of the columns, in units of their deviations, and how well each stage does."""
        total = np.zeros((rows.bounded.shape[1],) * 2)
        for stage, weight, one in self.members_:
            if isinstance(one, Forest):
                seen = np.diag(np.sqrt(one.trees.feature_importances_))
            elif stage in RIDGES:
                seen = one.dual.T @ one.metric.rows * rows.of(stage).std(axis=0)
            else:
                root = np.diag(one.metric.root) if one.metric.root.ndim == 1 else one.metric.root
                seen = root.T * rows.of(stage).std(axis=0)
            total += weight * seen.T @ seen / (np.sum(seen**2) or 1.0)
        by_source = np.bincount(self.encoder_.sources_, np.diag(total), self.n_features_in_)
        self.feature_importances_ = by_source / (by_source.sum() or 1.0)
        values, vectors = np.linalg.eigh(total)
        self.directions_ = vectors[:, ::-1][:, :_MOST_DIRECTIONS].T
        self.direction_shares_ = values[::-1][:_MOST_DIRECTIONS] / (values.sum() or 1.0)
        errors = {stage: np.sum((targets - one) ** 2, axis=1) for stage, one in found.items()}
        square = np.sum(targets**2) or 1.0
        self.stage_scores_ = {stage: float(1 - np.sum(one) / square) for stage, one in errors.items()}
        fixed = max((_name(kind, 0) for kind in (SUM, DISTANCE)), key=lambda stage: self.stage_scores_[stage])
        own = np.sum((targets - crossed) ** 2, axis=1)
        self._gains = {name: Gain(own, errors[stage]) for name, stage in ((LINEAR, LINEAR), ("kernel", fixed))}

    def report(self) -> MachineReport:
        """How well it does, how far from ridge regression and from a fixed kernel, and what matters."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"column {place}" for place in range(self.n_features_in_)])
        order = np.argsort(-self.feature_importances_, kind="stable")
        encoded = self.encoder_.get_feature_names_out()
        return MachineReport(
            n=len(self.metric_indices_),
            score=self.score_,
            score_interval=self.score_interval_,
            score_word=self._score_word,
            stage_scores=self.stage_scores_,
            gains=self._gains,
            importances={str(names[place]): float(self.feature_importances_[place]) for place in order},
            directions=tuple(direction_words(one, encoded) for one in self.directions_),
            direction_shares=self.direction_shares_,
        )

    def _scores(self, rows: Views[np.ndarray]) -> np.ndarray:
        total = np.zeros((len(rows.plain), self._outputs))
        for member in self.members_:
            total += member.weight * member.fit.predict(rows.of(member.stage))
        return total

    def _views(self, table: EncodedRows, some: np.ndarray) -> Views[EncodedRows]:
        """How kernels and ridge regression see the rows of a table; of mean 0 and variance 1 are those at `some`."""
        encoded = table.take(some)
        deviations = encoded.std(axis=0)
        self._center, self._scale = encoded.mean(axis=0), np.where(deviations > 0, deviations, 1.0)
        return Views(table.seen(self.encoder_.bound), table.seen(self._plain))

    def _plain(self, encoded: np.ndarray) -> np.ndarray:
        return (encoded - self._center) / self._scale

    def _seen(self, X: Any) -> Views[np.ndarray]:
        encoded = self.encoder_.transform(X)
        return Views(self.encoder_.bound(encoded), self._plain(encoded))

    def _read(self, X: Any, y: Any) -> tuple[EncodedRows, np.ndarray]:
        """Checks X and y, learns the encoding of X, and returns encoded rows and y."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = column_or_1d(in_memory(y), warn=True)
        rows: EncodedRows
        if is_partitioned(X):
            lengths = partition_lengths(X)
            self.encoder_ = encoder_of(X, lengths)
            rows = RowsInPartitions(X, self.encoder_.transform, lengths)
        else:
            self.encoder_ = new_encoder().fit(X)
            rows = RowsInMemory(self.encoder_.transform(X))
        self.n_features_in_ = self.encoder_.n_features_in_
        if hasattr(self.encoder_, "feature_names_in_"):
            self.feature_names_in_ = self.encoder_.feature_names_in_
        if len(rows) != len(y):
            raise InputError(f"X and y must have as many rows, got {len(rows)} and {len(y)}")
        if len(y) < _FEWEST_ROWS:
            raise InputError(f"X must have at least {_FEWEST_ROWS} rows, got n_samples = {len(y)}")
        return rows, y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


class MetricMachineRegressor(RegressorMixin, MetricMachine):
    """Kernel ridge regression in a metric that the rows teach, for tables of tens to millions of rows.

    Columns are encoded by `TableEncoder`. Two kernels of the encoded rows z, bounded so that none is far away, compete,
    with a linear part each,

        exp(-sum_j r_j |z_j - z'_j| / L)    and    exp(-(|R (z - z')| / L)^q),

    with r or R learned in up to three rounds: the mean outer product G of the gradients of the fit, less what fits to
    left-out residuals of random sign give, becomes the root of the next metric, R = (1 - s) (G / mean)^p + s I. Exact
    leave-one-out errors choose bandwidth, q, linear part and penalty; but of a metric that the same rows taught they
    are 5 to 10% too low, so a metric is learned on each half of the rows and judged on the other, and rounds end where
    that error rises. Ridge regression, with the bound and without, both fixed kernels, all rounds and a random forest
    are added with the non-negative weights of least cross-fitted error: a kernel is smooth, and where y jumps at some
    value of a column the forest sees it from fewer rows. Beyond `metric_rows` rows the metric is learned on that many,
    the machines are fitted to all rows with their kernel functions (Nystroem), in blocks, and the forest to 20,000.

    X may be a Dask array or DataFrame (extra `cluster`): its partitions are encoded and their normal equations added up
    where they are, and predictions are lazy. y, and n numbers for each class, are in memory.

    Sources: Radhakrishnan, Beaglehole, Pandit & Belkin (2024), recursive feature machines; the subtraction, the
    cross-fitting and the sum are this project's.

    Parameters
    ----------
    metric_rows : int
        Most rows that teach the metric; the cost of a fit grows with its cube.
    trees : int
        Trees of the forest; 0 for kernels and ridge regression alone.
    random_state : int, RandomState or None
        Halves the rows, draws signs and grows trees.

    Attributes
    ----------
    feature_importances_ : (d,), share of the metric times the variance of each column of X, and of what the forest
        gains by it
    directions_ : (k, columns of `encoder_`), what the metric sees most, in deviations; `direction_shares_` : (k,)
    leave_one_out_ : cross-fitted predictions of the rows `metric_indices_`, each left out by a fit whose metric the
        other half taught
    score_ : R^2 of these;  score_interval_ : (2,), its 95% interval over resampled rows
    stage_scores_ : dict of the cross-fitted R^2 of every stage
    members_ : the machines of the sum, with their weights;  report() : all of this in words and a figure
    encoder_ : the fitted `TableEncoder`
    """

    def fit(self, X: Any, y: Any) -> MetricMachineRegressor:
        """Learn from X, a DataFrame or an array (n, d), and numbers y (n,)."""
        rows, y = self._read(X, y)
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(f"y must be numbers, got {y[0]!r}: use MetricMachineClassifier for classes") from None
        if not np.isfinite(y).all():
            raise InputError(f"y must be finite, got {y[~np.isfinite(y)][0]}")
        self.mean_, self._unit, self._outputs = float(y.mean()), float(y.std()) or 1.0, 1
        crossed = self._learn(rows, ((y - self.mean_) / self._unit)[:, None], y).crossed
        self.leave_one_out_ = self.mean_ + self._unit * crossed[:, 0]
        here = y[self.metric_indices_]
        errors = (here - self.leave_one_out_) ** 2

        def score(weights: np.ndarray) -> np.ndarray:
            center = weights @ here / weights.sum(axis=-1)
            total = weights @ here**2 - weights.sum(axis=-1) * center**2
            return 1 - weights @ errors / np.maximum(total, np.finfo(np.float64).tiny)

        self.score_, self.score_interval_ = _resampled(score, len(here))
        return self

    def predict(self, X: Any) -> Any:
        """(n,); of a Dask collection one like it."""
        check_is_fitted(self)
        if is_partitioned(X):
            return by_partition(self.predict, X, np.float64)
        return self.mean_ + self._unit * self._scores(self._seen(X))[:, 0]


class MetricMachineClassifier(ClassifierMixin, MetricMachine):
    """`MetricMachineRegressor` of one column for each class, whose scores become probabilities.

    They are calibrated for the least log loss of the cross-fitted scores (`calibration`).

    Parameters and further attributes as there; `leave_one_out_` are probabilities (n, classes), `score_` is the share
    of right classes, and `stage_scores_` are R^2 of the scores.

    Attributes
    ----------
    classes_ : (classes,)
    """

    _score_word = "right classes"

    def fit(self, X: Any, y: Any) -> MetricMachineClassifier:
        """Learn from X, a DataFrame or an array (n, d), and classes y (n,)."""
        rows, y = self._read(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y must hold at least 2 classes, got only {self.classes_[0]}")
        one_hot = np.eye(len(self.classes_))[codes]
        self._outputs = len(self.classes_)
        self._shares = one_hot.mean(axis=0)
        learned = self._learn(rows, one_hot - self._shares, codes)
        crossed, here = learned.crossed + self._shares, codes[self.metric_indices_]
        views = {kind: crossed_logits(learned.rows.of(kind), here, self._outputs, learned.halves) for kind in RIDGES}
        found = {kind: linear for kind, linear in views.items() if linear is not None}
        self._logits_of = min(found, key=lambda kind: log_loss(found[kind][0], here), default="")
        logits: np.ndarray | None
        self._logits: LinearLogits | None
        logits, self._logits = found.get(self._logits_of, (None, None))
        self._calibration = calibrated(crossed, here, logits)
        self.leave_one_out_ = self._calibration(crossed, logits)
        right = (self.leave_one_out_.argmax(axis=1) == here).astype(np.float64)
        self.score_, self.score_interval_ = _resampled(
            lambda weights: weights @ right / weights.sum(axis=-1), len(here)
        )
        return self

    def predict_proba(self, X: Any) -> Any:
        """(n, classes); of a Dask collection one like it."""
        check_is_fitted(self)
        if is_partitioned(X):
            return by_partition(self.predict_proba, X, np.float64, len(self.classes_))
        rows = self._seen(X)
        logits = None if self._logits is None else self._logits(rows.of(self._logits_of))
        return self._calibration(self._scores(rows) + self._shares, logits)

    def predict(self, X: Any) -> Any:
        """(n,); of a Dask collection one like it."""
        check_is_fitted(self)
        if is_partitioned(X):
            return by_partition(self.predict, X, self.classes_.dtype)
        shares = self.predict_proba(X)
        return self.classes_[np.argmax(shares, axis=1)]


def _name(kind: str, count: int) -> str:
    if kind in (*RIDGES, FOREST):
        return kind
    kernel = "sum kernel" if kind == SUM else "distance kernel"
    return f"{kernel}, fixed" if not count else f"{kernel}, {count} round{'s' if count > 1 else ''}"


def _stacked(found: dict[Any, np.ndarray], targets: np.ndarray) -> dict[Any, float]:
    """Non-negative weights of least squared error; those below 3% of all are dropped, and the others solved again."""
    from scipy.optimize import nnls

    kept = list(found)
    for last in (False, True):
        columns = np.column_stack([found[key].ravel() for key in kept])
        weights = nnls(columns, targets.ravel())[0]
        if last or not weights.any():
            break
        kept = [key for key, weight in zip(kept, weights, strict=True) if weight >= _LEAST_WEIGHT * weights.sum()]
    return dict.fromkeys(found, 0.0) | dict(zip(kept, weights.tolist(), strict=True))


def _resampled(score: Any, n: int) -> tuple[float, np.ndarray]:
    """A score of weights of rows, and its 95% interval under resampling."""
    draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES).astype(np.float64)
    return float(score(np.ones(n))), np.quantile(score(draws), (0.025, 0.975))
