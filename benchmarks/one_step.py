"""Error and time of `OneStepRegressor` next to ridge, random features, kernels, networks and trees, on the same rows.

Two tables, drawn data whose target is known and real data, and the time of one larger fit. The seeds were not used
while the estimator was designed. Contestants take turns on every data set, BLAS on one thread. All but the trees choose
their settings on held-out rows; inputs and targets are standardised for all.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Benchmark, Row, against_all
from benchmarks.shared_metric import Measured, _table

ONE_STEP = "one step"
SEED = 20261117
REPETITIONS = 1
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


class Comparison(NamedTuple):
    """All contestants on the repetitions of one data set."""

    label: str
    n: int
    d: int
    runs: dict[str, list[Measured]]


def one_step() -> Benchmark:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        # iterations that did not converge, signals that are not there
        warnings.simplefilter("ignore")
        drawn = [_drawn(index, *case) for index, case in enumerate(DRAWN)]
        real, missing = _real()
    notes = [
        "E (prediction - target)^2 / Var(target) without the noise (deviation 0.2) of the labels, median of "
        f"{REPETITIONS} data sets; s, t are directions of x, of covariance I or (C) of eigenvalues 1/j"
        + _errors(drawn),
        f"test error on real data over the variance of the test labels, median of {REPETITIONS} splits" + _errors(real),
        "seconds of one fit with its tuning, one thread, median" + _times([*drawn, *real]),
        "median over data sets of the error over that of the best other: "
        + ", ".join(f"{what} {np.median([_ratio(c) for c in cases]):.2f}" for what, cases in _groups(drawn, real)),
        *missing,
    ]
    rows = [
        *_against_others(f"{len(drawn)} drawn sets", drawn),
        *_against_others(f"{len(real)} real sets", real),
        *_large(),
    ]
    return Benchmark(rows, notes)


def _against_others(what: str, compared: list[Comparison]) -> list[Row]:
    if not compared:
        return []
    names = list(compared[0].runs)
    errors = {name: [_median(one, name) for one in compared] for name in names}
    seconds = {name: [float(np.median([run.cpu for run in one.runs[name]])) for one in compared] for name in names}
    return against_all(what, ONE_STEP, errors, seconds)


def contestants(d: int, seed: int) -> dict[str, Any]:
    """Unfitted estimators; the kernels' widths are relative to d."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from unlazy.estimators import OneStepRegressor

    folds = KFold(3, shuffle=True, random_state=seed)
    gammas = np.logspace(-1.5, 2.5, 5) / d

    def tuned(*steps: Any, cv: Any = folds, **grid: Any) -> Any:
        pipeline = make_pipeline(StandardScaler(), *steps)
        searched = GridSearchCV(pipeline, grid, cv=cv, scoring="neg_mean_squared_error") if grid else pipeline
        return TransformedTargetRegressor(searched, transformer=StandardScaler())

    ridge = RidgeCV(np.logspace(-6, 5, 23))
    network = MLPRegressor(hidden_layer_sizes=(100,), max_iter=400, random_state=seed)
    settings = {"mlpregressor__solver": ["lbfgs", "adam"], "mlpregressor__alpha": [0.01, 1.0, 10.0]}
    return {
        ONE_STEP: OneStepRegressor(random_state=seed),
        "ridge": tuned(ridge),
        "RBF sampler": tuned(RBFSampler(n_components=400, random_state=seed), ridge, rbfsampler__gamma=gammas),
        "kernel ridge": tuned(
            KernelRidge(kernel="rbf"), kernelridge__gamma=gammas, kernelridge__alpha=np.logspace(-4, 0.5, 4)
        ),
        # one held-out quarter instead of folds: the network's time is most of the benchmark's
        "MLP": tuned(network, cv=ShuffleSplit(1, test_size=0.25, random_state=seed), **settings),
        "hist. boosting": tuned(HistGradientBoostingRegressor(random_state=seed)),
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
    runs: dict[str, list[Measured]] = {}
    for repetition in range(REPETITIONS):
        data = draw(link, correlated, d, n, np.random.default_rng([SEED, index, repetition]))
        _take_turns(runs, *data, seed=repetition)
    return Comparison(link + " (C)" * correlated, n, d, runs)


def _real() -> tuple[list[Comparison], list[str]]:
    from unlazy.checks import InputError
    from unlazy.data import real

    found, missing = [], []
    for index, (name, column, n) in enumerate(REAL):
        try:
            data = real.load(name)
        except InputError as error:
            missing.append(f"left out {name}: {error}")
            continue
        runs: dict[str, list[Measured]] = {}
        for repetition in range(REPETITIONS):
            rows = np.random.default_rng([SEED, 100 + index, repetition]).permutation(len(data.inputs))
            train, test = rows[:n], rows[n : n + TEST_ROWS]
            y = data.targets[:, column]
            _take_turns(runs, data.inputs[train], y[train], data.inputs[test], y[test], seed=repetition)
        found.append(Comparison(f"{name}: {data.target_names[column]}", n, data.inputs.shape[1], runs))
    return found, missing


def _take_turns(
    runs: dict[str, list[Measured]],
    x: np.ndarray,
    y: np.ndarray,
    x_test: np.ndarray,
    target: np.ndarray,
    seed: int,
) -> None:
    for name, model in contestants(x.shape[1], seed).items():
        begin = time.perf_counter(), time.process_time()
        model.fit(x, y)
        seconds = time.perf_counter() - begin[0], time.process_time() - begin[1]
        error = np.mean((model.predict(x_test) - target) ** 2) / np.var(target)
        runs.setdefault(name, []).append(Measured(float(error), *seconds))


def _large() -> list[Row]:
    from unlazy.estimators import OneStepRegressor

    x, y, _, _ = draw("tanh 3s", False, 200, 5000, np.random.default_rng(SEED))
    wall, cpu = [], []
    for repetition in range(3):
        begin = time.perf_counter(), time.process_time()
        OneStepRegressor(random_state=repetition).fit(x, y)
        wall.append(time.perf_counter() - begin[0])
        cpu.append(time.process_time() - begin[1])
    size = "OneStepRegressor, n = 5000, d = 200"
    return [Row(size, wall, "s", at_most=5), Row(f"{size}: processor time of all threads", cpu, "s")]


def _median(found: Comparison, name: str) -> float:
    return float(np.median([run.error for run in found.runs[name]]))


def _ratio(found: Comparison) -> float:
    return _median(found, ONE_STEP) / min(_median(found, name) for name in found.runs if name != ONE_STEP)


def _groups(drawn: list[Comparison], real: list[Comparison]) -> list[tuple[str, list[Comparison]]]:
    return [("drawn", drawn), *([("real", real)] if real else [])]


def _errors(comparisons: list[Comparison]) -> str:
    if not comparisons:
        return ": none"
    names = list(comparisons[0].runs)
    lines = [("data", "n", "d", *names, f"{ONE_STEP} / best other", "")]
    for found in comparisons:
        best = min((name for name in names if name != ONE_STEP), key=lambda name: _median(found, name))
        ratio = _ratio(found)
        verdict = "win" if ratio < 0.95 else "loss" if ratio > 1.05 else "tie"
        errors = [f"{_median(found, name):.4f}" for name in names]
        lines.append((found.label, str(found.n), str(found.d), *errors, f"{ratio:.2f} {best}", verdict))
    return _table(lines)


def _times(comparisons: list[Comparison]) -> str:
    names = list(comparisons[0].runs)
    lines = [("data", "n", "d", *(f"{name}" for name in names))]
    for found in comparisons:
        medians = [np.median([(run.wall, run.cpu) for run in found.runs[name]], axis=0) for name in names]
        lines.append((found.label, str(found.n), str(found.d), *(f"{wall:.2f} / {cpu:.2f}" for wall, cpu in medians)))
    return _table(lines)
