"""What users would fit to a table instead, each with the search that it is usually given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import loguniform, randint
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from unlazy.data.table_encoder import TableEncoder
from unlazy.estimators import MetricMachineClassifier, MetricMachineRegressor

OURS, SEARCHED, BOOSTING = "metric machine", "boosting, searched", "boosting"
_TREES = 300
_BOOSTING = {
    "learning_rate": loguniform(0.02, 0.3),
    "max_leaf_nodes": randint(4, 64),
    "min_samples_leaf": randint(3, 40),
    "l2_regularization": loguniform(1e-4, 10),
    "max_features": [0.4, 0.7, 1.0],
    "max_iter": [100, 200, 400],
}
_BOOSTING_TRIES, _MACHINE_TRIES = 20, 15
_WIDTHS = np.logspace(-2.5, 0, 6)
"""gamma of a Gaussian kernel, times the number of columns."""


def peers(regression: bool) -> dict[str, Callable[[], Any]]:
    """Builders of estimators that take a DataFrame as it is; all but boosting get encoded columns."""
    forest, extra = (
        (RandomForestRegressor, ExtraTreesRegressor) if regression else (RandomForestClassifier, ExtraTreesClassifier)
    )
    found: dict[str, Callable[[], Any]] = {
        OURS: lambda: (MetricMachineRegressor if regression else MetricMachineClassifier)(random_state=0),
        SEARCHED: lambda: _Boosting(regression, _BOOSTING_TRIES),
        BOOSTING: lambda: _Boosting(regression, 0),
        "xRFM, searched": lambda: _encoded(_RecursiveMachine(regression)),
        "extra trees": lambda: _encoded(extra(_TREES, random_state=0)),
        "random forest": lambda: _encoded(forest(_TREES, random_state=0)),
        "kernel ridge": lambda: _encoded(_KernelSearch(KernelRidge(kernel="rbf"), "alpha", np.logspace(-4, 1, 6))),
        "SVM": lambda: _encoded(
            _KernelSearch(SVR(), "C", [0.3, 3, 30])
            if regression
            else _KernelSearch(SVC(probability=True), "C", [1, 10, 100])
        ),
        "network": lambda: _encoded(
            _scaled(MLPRegressor(hidden_layer_sizes=(128, 128), early_stopping=True, max_iter=500, random_state=0))
            if regression
            else MLPClassifier(hidden_layer_sizes=(128, 128), early_stopping=True, max_iter=500, random_state=0)
        ),
        "linear": lambda: _encoded(
            RidgeCV(np.logspace(-3, 4, 22))
            if regression
            else LogisticRegressionCV(Cs=8, cv=5, max_iter=500, scoring="neg_log_loss")
        ),
    }
    if not regression:
        del found["kernel ridge"]
    return found


def _encoded(model: Any) -> Any:
    return make_pipeline(TableEncoder(), model)


def _scaled(model: Any) -> Any:
    return TransformedTargetRegressor(model, transformer=StandardScaler())


class _KernelSearch(BaseEstimator):
    """Five-fold search over widths of a Gaussian kernel and one more parameter; numbers are standardised first."""

    def __init__(self, model: Any, name: str, values: Any):
        self.model, self.name, self.values = model, name, values

    def fit(self, x: np.ndarray, y: np.ndarray) -> _KernelSearch:
        grid = {self.name: self.values, "gamma": _WIDTHS / x.shape[1]}
        search = GridSearchCV(self.model, grid, cv=5)
        self.found = (search if isinstance(self.model, SVC) else _scaled(search)).fit(x, y)
        self.classes_ = getattr(self.found, "classes_", None)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.found.predict(x)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.found.predict_proba(x)


class _Boosting(BaseEstimator):
    """Histogram boosting with text as categories and gaps as they are; three-fold random search if there are tries."""

    def __init__(self, regression: bool, tries: int):
        self.regression = regression
        kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
        self.model = kind(categorical_features="from_dtype", random_state=0)
        self.tries = tries

    def fit(self, x: pd.DataFrame, y: np.ndarray) -> _Boosting:
        self.levels = {}
        for name in x.columns:
            if not (pd.api.types.is_numeric_dtype(x[name]) or pd.api.types.is_datetime64_any_dtype(x[name])):
                # at most 255 levels are taken, the commonest
                self.levels[name] = x[name].astype(str).value_counts().index[:250]
        model = self.model
        if self.tries:
            scoring = None if isinstance(model, HistGradientBoostingRegressor) else "neg_log_loss"
            model = RandomizedSearchCV(model, _BOOSTING, n_iter=self.tries, cv=3, scoring=scoring, random_state=0)
        self.found = model.fit(self._read(x), y)
        self.classes_ = getattr(self.found, "classes_", None)
        return self

    def _read(self, x: pd.DataFrame) -> pd.DataFrame:
        x = x.copy()
        for name in x.columns:
            if name in self.levels:
                x[name] = pd.Categorical(x[name].astype(str), self.levels[name])
            elif pd.api.types.is_datetime64_any_dtype(x[name]):
                x[name] = x[name].astype("int64") / 1e18
        return x

    def predict(self, x: pd.DataFrame) -> np.ndarray:
        return self.found.predict(self._read(x))

    def predict_proba(self, x: pd.DataFrame) -> np.ndarray:
        return self.found.predict_proba(self._read(x))


class _RecursiveMachine(BaseEstimator):
    """xRFM with a random search on a held-out fifth, and that fifth as its validation rows."""

    def __init__(self, regression: bool):
        self.regression = regression

    def fit(self, x: np.ndarray, y: np.ndarray) -> _RecursiveMachine:
        import torch
        from xrfm import xRFM

        if self.regression:
            self.mean, self.unit = y.mean(), y.std()
            targets = ((y - self.mean) / self.unit)[:, None].astype(np.float32)
        else:
            self.classes_, codes = np.unique(y, return_inverse=True)
            targets = codes
        parts = train_test_split(
            x.astype(np.float32), targets, test_size=0.2, random_state=0, stratify=None if self.regression else targets
        )
        rows, held_out, row_targets, held_targets = (torch.as_tensor(part) for part in parts)
        random, best = np.random.default_rng(0), np.inf
        for _ in range(_MACHINE_TRIES):
            kernel = random.choice(["l2", "l1", "lpq"])
            model = {
                "kernel": str(kernel),
                "bandwidth": float(np.exp(random.uniform(np.log(1), np.log(200)))),
                "exponent": float(random.uniform(0.7, 1.4) if kernel == "l2" else random.uniform(0.7, 1.0)),
                "diag": bool(kernel != "l2" or random.random() < 0.5),
                "bandwidth_mode": "constant",
            }
            if kernel == "lpq":
                model["norm_p"] = float(random.uniform(model["exponent"], 2.0))
            settings = {
                "reg": float(10 ** random.uniform(-6, 1)),
                "iters": 5,
                "early_stop_rfm": True,
                "return_best_params": True,
            }
            metric = "mse" if self.regression else "logloss"
            machine = xRFM(
                {"model": model, "fit": settings | {"verbose": False, "M_batch_size": 1000}},
                device=torch.device("cpu"),
                tuning_metric=metric,
                verbose=False,
                n_threads=1,
                random_state=0,
            )
            machine.fit(rows, row_targets, held_out, held_targets)
            loss = self._loss(machine, held_out, held_targets)
            if loss < best:
                best, self.machine_ = loss, machine
        return self

    def _loss(self, machine: Any, rows: Any, targets: Any) -> float:
        if self.regression:
            return float(np.mean((np.asarray(machine.predict(rows)) - targets.numpy()) ** 2))
        shares = np.asarray(machine.predict_proba(rows))[np.arange(len(rows)), targets.numpy()]
        return float(-np.mean(np.log(np.maximum(shares, 1e-7))))

    def predict(self, x: np.ndarray) -> np.ndarray:
        import torch

        if self.regression:
            found = np.asarray(self.machine_.predict(torch.as_tensor(x.astype(np.float32))))
            return self.mean + self.unit * found.ravel()
        return self.classes_[self.predict_proba(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        import torch

        return np.asarray(self.machine_.predict_proba(torch.as_tensor(x.astype(np.float32))))
