"""What `MeanFieldRegressor` and `MeanFieldClassifier` share: choice by validation, training, certificate and spread."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.estimators.common.inputs import check_memory, check_table, standardised
from unlazy.estimators.mean_field.certificate import CertificateEffort, certified, warn_of_width
from unlazy.estimators.mean_field.fit import (
    NetworkSetting,
    PaddedRows,
    WidthSpread,
    extended,
    mean_predictions,
    padded,
    train_all,
    width_spread,
)
from unlazy.numerics.roots import ConvergenceError

_AMPLITUDES = (3.0, 10.0)
_PRIOR_SCALES = (0.1, 0.2, 0.3, 0.5)
_TEMPERATURES = (1e-3, 3e-3, 1e-2, 1e-1)
_SEARCH_TEMPERATURE_OF_POSTERIOR = 1e-2
# below so many columns the same steepness of a neuron needs larger weights
_COLUMNS_OF_SCALES = 20
_SEARCH_PARTICLES, _SEARCH_STEPS, _SEARCH_ROWS = 64, 500, 1000
_ROWS_FOR_ONE_FOLD = 200
_SPREAD_DRAWS = 1024
_LONGER_FOR_POSTERIOR = 10
# few rows leave time for more chains, whose number the error of the certificate falls with
_CHAIN_ENTRIES = 2**18
_LAWS = ("particles", "gibbs")
# rows that a network is trained on at most, and is certified on; the cost of both grows with them
_MOST_ROWS, _MOST_CERTIFIED_ROWS = 8000, 2000


class LeftOutPredictions(NamedTuple):
    """Predictions of the best candidate for rows that did not teach it."""

    rows: np.ndarray
    """Indices of the rows that were searched."""
    held: np.ndarray
    """(folds, searched rows), whether a row was held out."""
    predictions: np.ndarray
    """(folds, searched rows) of the first task."""


class MeanField(BaseEstimator):
    """What regressor and classifier share: choice by validation, training, certificate and spread."""

    _loss: str

    def __init__(
        self,
        *,
        amplitude: Any = "auto",
        prior_scale: Any = "auto",
        temperature: Any = "auto",
        particles: int = 256,
        steps: int = 2000,
        posterior: bool = False,
        certificate: bool = True,
        random_state: Any = None,
    ):
        self.amplitude = amplitude
        self.prior_scale = prior_scale
        self.temperature = temperature
        self.particles = particles
        self.steps = steps
        self.posterior = posterior
        self.certificate = certificate
        self.random_state = random_state

    def _fit(self, rows: np.ndarray, labels: np.ndarray, noise_variance: float | None) -> LeftOutPredictions | None:
        """Train on standardised rows (n, d) and labels (tasks, n); what the search held out, if there was one."""
        count = check_whole("particles", self.particles, 2)
        steps = check_whole("steps", self.steps, 100)
        for name in ("posterior", "certificate"):
            check_choice(name, getattr(self, name), (True, False))
        if self.posterior:
            steps *= _LONGER_FOR_POSTERIOR
        random = check_random_state(self.random_state)
        seeds = random.randint(2**31 - 1, size=3)
        self.training_indices_ = np.arange(len(rows))
        if len(rows) > _MOST_ROWS:
            self.training_indices_ = np.sort(random.permutation(len(rows))[:_MOST_ROWS])
            rows, labels = rows[self.training_indices_], labels[:, self.training_indices_]
        check_memory("particles", count, 2.0 * count * len(rows) + 16.0 * count * (rows.shape[1] + 1))
        setting, held_out, left_out = self._choose(rows, labels, random, int(seeds[0]))
        if self.posterior:
            # half the squared error of n rows over 2 variances, or the sum of n logistic losses, is the likelihood
            noise = 1.0 if self._loss == "logistic" else held_out if noise_variance is None else noise_variance
            setting = setting._replace(temperature=count * noise / len(rows))
        self.amplitude_, self.prior_scale_, self.temperature_ = map(float, setting)
        self.confinement_ = float(setting.confinement)
        self.validation_loss_ = held_out
        everything = padded(rows, labels)
        tasks = len(labels)
        trained = train_all(
            int(seeds[1]),
            everything,
            everything.labels,
            np.tile(everything.weights, (tasks, 1)),
            NetworkSetting(*(np.full(tasks, x) for x in setting)),
            loss=self._loss,
            count=count,
            steps=steps,
            whole=True,
        )
        if not np.isfinite(trained.predictions).all():
            raise ConvergenceError(f"the network did not stay finite in {steps} steps with {setting}")
        width = everything.inputs.shape[1]
        self._clouds = trained.clouds.reshape(tasks, -1, width)
        self._gibbs: list[np.ndarray] = []
        self.cloud_ = trained.particles[..., : rows.shape[1] + 1]
        self.losses_ = trained.losses
        self._spreads = [self._spread(everything, task, trained.predictions[task]) for task in range(tasks)]
        if self.certificate:
            self._certify(everything, trained.predictions, int(seeds[2]))
        return left_out

    def _choose(
        self, rows: np.ndarray, labels: np.ndarray, random: np.random.RandomState, seed: int
    ) -> tuple[NetworkSetting, float, LeftOutPredictions | None]:
        """The setting with the lowest held-out loss, and twice that loss in the case of squares: a noise variance."""
        scaling = np.sqrt(max(1.0, _COLUMNS_OF_SCALES / (rows.shape[1] + 1)))
        grids = [
            self._grid("amplitude", _AMPLITUDES),
            self._grid("prior_scale", [float(f"{x * scaling:.3g}") for x in _PRIOR_SCALES]),
            self._grid("temperature", [_SEARCH_TEMPERATURE_OF_POSTERIOR] if self.posterior else _TEMPERATURES),
        ]
        candidates = np.array(list(itertools.product(*grids)))
        if len(candidates) == 1:
            return NetworkSetting(*candidates[0]), float("nan"), None
        kept = random.permutation(len(rows))[:_SEARCH_ROWS]
        some = padded(rows[kept], labels[:, kept])
        folds = self._folds(some, random)
        tasks = len(labels)
        runs = list(itertools.product(range(len(candidates)), range(len(folds)), range(tasks)))
        of_candidate, of_fold, of_task = np.array(runs).T
        predictions = train_all(
            seed,
            some,
            some.labels[of_task],
            folds[of_fold],
            NetworkSetting(*candidates[of_candidate].T),
            loss=self._loss,
            count=min(_SEARCH_PARTICLES, int(self.particles)),
            steps=_SEARCH_STEPS,
            whole=False,
        )
        losses = self._losses(predictions.astype(np.float64), some.labels[of_task])
        held_out = (folds[of_fold] == 0) & (some.weights > 0)
        scores = np.zeros(len(candidates))
        np.add.at(scores, of_candidate, np.sum(losses * held_out, axis=1))
        scores /= np.sum(held_out[of_candidate == 0]) / tasks
        self.candidates_ = [(*map(float, c), float(s)) for c, s in zip(candidates, scores, strict=True)]
        if not np.isfinite(scores).any():
            raise ConvergenceError(f"none of {len(scores)} candidates stayed finite in {_SEARCH_STEPS} steps")
        best = int(np.nanargmin(scores))
        runs_of_best = (of_candidate == best) & (of_task == 0)
        left_out = LeftOutPredictions(kept, held_out[runs_of_best, : some.real], predictions[runs_of_best, : some.real])
        loss = float(scores[best]) * (2 if self._loss == "square" else 1)
        return NetworkSetting(*candidates[best]), loss, left_out

    @staticmethod
    def _folds(rows: PaddedRows, random: np.random.RandomState) -> np.ndarray:
        """Weights of the training rows of each fold: a quarter held out, or each third in turn below 200 rows."""
        order = random.permutation(rows.real)
        held = [order[: rows.real // 4]] if rows.real >= _ROWS_FOR_ONE_FOLD else np.array_split(order, 3)
        weights = np.tile(rows.weights, (len(held), 1))
        for fold, indices in zip(weights, held, strict=True):
            fold[indices] = 0.0
            fold /= fold.sum()
        return weights

    def _grid(self, name: str, default: Any) -> list[float]:
        value = getattr(self, name)
        if isinstance(value, str):
            if value != "auto":
                raise InputError(f"{name} must be 'auto', a number > 0 or a list of such, got {value!r}")
            return list(default)
        return check_array(name, value, above=0).ravel().tolist()

    def _losses(self, predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        from unlazy.models.mean_field import named_loss

        return named_loss(self._loss).value(predictions, labels)

    def _spread(self, rows: PaddedRows, task: int, predictions: np.ndarray) -> WidthSpread:
        from unlazy.models.mean_field import named_loss

        cloud = self._clouds[task]
        draws = cloud[:: max(1, len(cloud) // _SPREAD_DRAWS)]
        curvature = rows.weights * named_loss(self._loss).curvature(predictions.astype(np.float64), rows.labels[task])
        return width_spread(draws, rows.inputs, self.amplitude_, self.temperature_, curvature)

    def _certify(self, rows: PaddedRows, predictions: np.ndarray, seed: int) -> None:
        if rows.real > _MOST_CERTIFIED_ROWS:
            warnings.warn(
                f"optimality_gap_ is nan: certificates are made up to {_MOST_CERTIFIED_ROWS} rows, got {rows.real}; "
                "optimality_certificate makes one for more",
                UserWarning,
                stacklevel=4,
            )
            self.certificates_: list[Any] = []
            self.optimality_gap_: Any = float("nan")
            self.optimality_gap_se_: Any = float("nan")
            return
        warn_of_width(self.mean_.size + 1, stacklevel=4)
        setting = NetworkSetting(self.amplitude_, self.prior_scale_, self.temperature_)
        chains = int(np.clip(_CHAIN_ENTRIES // len(rows.weights), 1024, 8192))
        found = [
            certified(rows, labels, at, setting, CertificateEffort(chains), loss=self._loss, seed=seed + i)
            for i, (labels, at) in enumerate(zip(rows.labels, predictions, strict=True))
        ]
        self.certificates_ = found
        self._gibbs = [one.draws for one in found]
        for task, one in enumerate(found):
            if not one.holds:
                which = f" of class {task}" if len(found) > 1 else ""
                warnings.warn(
                    f"optimality_gap_{which} is nan, because the estimate {one.optimality_gap:.2g} is no certificate: "
                    + "; ".join(one.reasons),
                    UserWarning,
                    stacklevel=4,
                )
        gaps = np.array([one.optimality_gap if one.holds else np.nan for one in found])
        errors = np.array([one.standard_error if one.holds else np.nan for one in found])
        self.optimality_gap_ = float(gaps[0]) if len(gaps) == 1 else gaps
        self.optimality_gap_se_ = float(errors[0]) if len(errors) == 1 else errors

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        return standardised(X, self.mean_, self.scale_)

    def _evaluate(self, rows: np.ndarray, law: str) -> np.ndarray:
        """Predictions of every task, (tasks, n)."""
        if law not in _LAWS:
            raise InputError(f"law must be one of {', '.join(_LAWS)}; got {law!r}")
        if law == "gibbs":
            if not self._gibbs:
                raise InputError(
                    "law='gibbs' needs a certificate, got certificate=False or more rows than are certified"
                )
            failed = [reason for one in self.certificates_ for reason in one.reasons]
            if failed:
                raise InputError(f"law='gibbs' needs a certificate that passed its checks, got: {'; '.join(failed)}")
        clouds = self._clouds if law == "particles" else self._gibbs
        inputs = extended(rows, clouds[0].shape[1])[: len(rows)]
        return np.array([mean_predictions(cloud, inputs, self.amplitude_) for cloud in clouds], np.float64)

    def _deviations(self, rows: np.ndarray) -> np.ndarray:
        inputs = extended(rows, self._clouds.shape[2])[: len(rows)].astype(np.float64)
        return np.array([spread.deviation(inputs, int(self.particles)) for spread in self._spreads])

    def _keep_scaling(self, mean: np.ndarray, log_deviation: np.ndarray) -> None:
        self.mean_ = mean
        self.scale_ = np.where(np.isfinite(log_deviation), np.exp(log_deviation), np.inf)
