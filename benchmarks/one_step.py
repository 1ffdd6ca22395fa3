"""Error and time of `OneStepRegressor` next to ridge, random features, kernels, networks and trees, on the same rows.

Two tables, drawn data whose target is known and real data, and the time of one larger fit. The seeds were not used
while the estimator was designed. Contestants take turns on every data set, BLAS on one thread. All but the trees choose
their settings on held-out rows; inputs and targets are standardised for all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contest import (
    Comparison,
    against_others,
    compare,
    errors_table,
    real_sets,
    timed,
    times_table,
    tuned,
)
from benchmarks.measure import Benchmark, Row

ONE_STEP = "one step"
SEED = 20261117
NOISE = 0.2
TEST_ROWS = 2000
# name, correlated, d, n
DRAWN = (
    *((link, correlated, 30, 300) for correlated in (False, True) for link in ("tanh 3s", "relu", "s/2 + sin 3s")),
    *((link, False, 60, 1000) for link in ("tanh 3s", "relu", "s/2 + sin 3s")),
    *((link, False, 30, 600) for link in ("tanh 3s", "s", "s + t^2", "2|s|", "8 directions")),
)
# set, column of its targets, training rows
REAL = (
    ("diabetes", 0, 300),
    ("jacksboro", 0, 800),
    ("topobathy", 0, 800),
    ("meats", 1, 130),
    ("electricity", 24, 250),
    ("tissues", 0, 120),
    ("corn", 25, 50),
    ("breast_cancer", 0, 380),
)


def one_step() -> Benchmark:
    from threadpoolctl import threadpool_limits

    missing: list[str] = []
    with threadpool_limits(1), warnings.catch_warnings():
        # iterations that did not converge, signals that are not there
        warnings.simplefilter("ignore")
        drawn = [_drawn(index, *case) for index, case in enumerate(DRAWN)]
        real = [compare(contestants, *one) for one in real_sets(REAL, SEED, missing, TEST_ROWS, first=100)]
    notes = [
        "E (prediction - target)^2 / Var(target) without the noise (deviation 0.2) of the labels; s, t are directions "
        "of x, of covariance I or (C) of eigenvalues 1/j" + errors_table(drawn, ONE_STEP),
        "test error on real data over the variance of the test labels" + errors_table(real, ONE_STEP),
        "seconds of one fit with its tuning, one thread, wall / CPU" + times_table([*drawn, *real]),
        *missing,
    ]
    rows = [
        *against_others(f"{len(drawn)} drawn sets", drawn, ONE_STEP),
        *against_others(f"{len(real)} real sets", real, ONE_STEP),
        *_large(),
    ]
    return Benchmark(rows, notes)


def contestants(d: int) -> dict[str, Any]:
    """Unfitted estimators; the kernels' widths are relative to d."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold, ShuffleSplit
    from sklearn.neural_network import MLPRegressor

    from unlazy.estimators import OneStepRegressor

    folds = KFold(3, shuffle=True, random_state=0)
    gammas = np.logspace(-1.5, 2.5, 5) / d
    ridge = RidgeCV(np.logspace(-6, 5, 23))
    network = MLPRegressor(hidden_layer_sizes=(100,), max_iter=400, random_state=0)
    settings = {"mlpregressor__solver": ["lbfgs", "adam"], "mlpregressor__alpha": [0.01, 1.0, 10.0]}
    return {
        ONE_STEP: OneStepRegressor(random_state=0),
        "ridge": tuned(ridge),
        "RBF sampler": tuned(RBFSampler(n_components=400, random_state=0), ridge, cv=folds, rbfsampler__gamma=gammas),
        "kernel ridge": tuned(
            KernelRidge(kernel="rbf"), cv=folds, kernelridge__gamma=gammas, kernelridge__alpha=np.logspace(-4, 0.5, 4)
        ),
        # one held-out quarter instead of folds: the network's time is most of the benchmark's
        "MLP": tuned(network, cv=ShuffleSplit(1, test_size=0.25, random_state=0), **settings),
        "hist. boosting": tuned(HistGradientBoostingRegressor(random_state=0)),
    }


def draw(
    link: str, correlated: bool, d: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and noisy labels for training, new inputs and their targets."""
    spectrum = 1 / np.arange(1, d + 1) if correlated else np.ones(d)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = np.sqrt(spectrum)[:, None] * rotation.T
    x = rng.standard_normal((n + TEST_ROWS, d)) @ root
    # directions whose indices are uncorrelated and of variance 1
    indices = x @ np.linalg.solve(root, np.linalg.qr(rng.standard_normal((d, 8)))[0])
    s, t = indices[:, 0], indices[:, 1]
    functions: dict[str, Callable[[], np.ndarray]] = {
        "tanh 3s": lambda: np.tanh(3 * s),
        "relu": lambda: 1.5 * np.maximum(s, 0),
        "s/2 + sin 3s": lambda: s / 2 + np.sin(3 * s),
        "s": lambda: s,
        "s + t^2": lambda: s + t**2,
        "2|s|": lambda: 2 * np.abs(s),
        "8 directions": lambda: np.tanh(2 * indices).sum(axis=1) / 2,
    }
    target = functions[link]()
    labels = target[:n] + NOISE * rng.standard_normal(n)
    return x[:n], labels, x[n:], target[n:]


def _drawn(index: int, link: str, correlated: bool, d: int, n: int) -> Comparison:
    data = draw(link, correlated, d, n, np.random.default_rng([SEED, index, 0]))
    return compare(contestants, link + " (C)" * correlated, *data)


def _large() -> list[Row]:
    from unlazy.estimators import OneStepRegressor

    x, y, _, _ = draw("tanh 3s", False, 200, 5000, np.random.default_rng(SEED))
    seconds = [timed(lambda seed=seed: OneStepRegressor(random_state=seed).fit(x, y)) for seed in range(3)]
    wall, cpu = zip(*seconds, strict=True)
    size = "OneStepRegressor, n = 5000, d = 200"
    return [Row(size, wall, "s", at_most=5), Row(f"{size}: processor time of all threads", cpu, "s")]
