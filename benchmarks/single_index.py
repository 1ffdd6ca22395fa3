"""Directions, error and time of `SingleIndexRegressor` next to tuned networks, kernels, trees and feature machines.

The links have mean 0 and variance 1, the noise of the labels a deviation of 0.1 unless said otherwise. The seeds were
not used while the estimator was made. Contestants take turns on every data set, BLAS on one thread. All but the trees
choose their settings on held-out rows; inputs and targets are standardised for all.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import BEST, Benchmark, Row, against, against_all
from benchmarks.shared_metric import _table

SEED = 20261201
LINKS = ("He2", "He3", "He4", "relu", "abs", "sin", "tanh")
HIGH_DEGREES = ("He5", "He6")
NOISE = 0.1
TEST_ROWS = 3000
SINGLE_INDEX = "single index"
# d, data sets per link: overlaps at n = 6 d (few, so that all benchmarks take half an hour)
OVERLAPS = ((50, 5), (100, 3), (200, 1))
# d, n / d, data sets per link: against the others
CASES = ((50, 4, 1), (50, 10, 1), (100, 4, 1))
NOISE_RUNS = 20
# set, column of its targets, training rows
REAL = (
    ("diabetes", 0, 300),
    ("breast_cancer", 0, 380),
    ("wine", 0, 120),
    ("digit_classes", 8, 600),
    ("jacksboro", 0, 800),
    ("topobathy", 0, 800),
)


class Drawn(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    target: np.ndarray
    theta: np.ndarray


class Comparison(NamedTuple):
    """All contestants on the data sets of one case."""

    label: str
    n: int
    d: int
    errors: dict[str, list[np.ndarray]]
    """Squared errors of the test rows over the variance of their targets, an array per data set."""
    seconds: dict[str, list[float]]

    def mean(self, name: str) -> float:
        return float(np.mean([one.mean() for one in self.errors[name]]))

    def best_other(self) -> str:
        return min((name for name in self.errors if name != SINGLE_INDEX), key=self.mean)

    def excess(self) -> float:
        """Error less that of the best other, in standard errors of the paired differences over test rows."""
        pairs = zip(self.errors[SINGLE_INDEX], self.errors[self.best_other()], strict=True)
        differences = np.concatenate([ours - theirs for ours, theirs in pairs])
        return float(differences.mean() / max(differences.std() / np.sqrt(differences.size), 1e-300))


def single_index() -> Benchmark:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        # networks that did not converge, noise in which nothing is found
        warnings.simplefilter("ignore")
        overlap_rows, overlap_note = overlaps()
        compared = [comparison(link, *case) for case in CASES for link in LINKS]
        real, missing = real_data(_take_turns, SEED)
        rows = [
            *against_others(f"{len(compared)} drawn sets", compared),
            *against_others(f"{len(real)} real sets", real),
            *overlap_rows,
            *_comparison_rows(compared),
            *weak_signals(),
            *high_degrees(),
            *timing(),
        ]
    notes = [
        overlap_note,
        "E (prediction - target)^2 / Var(target) without the noise of the labels" + errors_table(compared),
        "test error on real data over the variance of the test labels" + errors_table(real),
        "seconds of one fit with its tuning, one thread, median" + times_table([*compared, *real]),
        "the recursive feature machine is this project's own minimal one, tuned over 4 ridges and 0 to 8 iterations",
        *missing,
    ]
    return Benchmark(rows, notes)


def draw(link: str, d: int, n: int, noise: float, *seed: int) -> Drawn:
    """Normal rows, labels of a link of mean 0 and variance 1, and new rows with their targets."""
    from unlazy.functions.elementwise import as_link as named
    from unlazy.functions.orthogonal import Hermite

    rng = np.random.default_rng([SEED, d, n, *seed])
    theta = rng.standard_normal(d)
    theta /= np.linalg.norm(theta)
    x = rng.standard_normal((n + TEST_ROWS, d))
    points, weights = Hermite().grid(1, (0.0,))
    values = named(link)(points)
    mean = weights @ values
    target = (named(link)(x @ theta) - mean) / np.sqrt(weights @ (values - mean) ** 2)
    return Drawn(x[:n], target[:n] + noise * rng.standard_normal(n), x[n:], target[n:], theta)


def contestants(d: int, seed: int) -> dict[str, Any]:
    """Unfitted estimators; the kernels' widths are relative to d."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from benchmarks._rfm import RecursiveFeatureMachine
    from unlazy.estimators import SingleIndexRegressor

    def tuned(step: Any, cv: Any = None, **grid: Any) -> Any:
        pipeline = make_pipeline(StandardScaler(), step)
        searched = GridSearchCV(pipeline, grid, cv=cv, scoring="neg_mean_squared_error") if grid else pipeline
        return TransformedTargetRegressor(searched, transformer=StandardScaler())

    network = {
        "mlpregressor__hidden_layer_sizes": [(100,), (100, 100)],
        "mlpregressor__alpha": [1e-3, 0.1, 1.0],
        "mlpregressor__early_stopping": [False, True],
    }
    kernel = {"kernelridge__gamma": np.logspace(-1.5, 1, 4) / d, "kernelridge__alpha": np.logspace(-3, 0, 4)}
    return {
        SINGLE_INDEX: SingleIndexRegressor(random_state=seed),
        "ridge": tuned(RidgeCV(np.logspace(-6, 5, 23))),
        "kernel ridge": tuned(KernelRidge(kernel="rbf"), KFold(3, shuffle=True, random_state=seed), **kernel),
        # one held-out quarter instead of folds: the network's time is most of the benchmark's
        "MLP": tuned(
            MLPRegressor(max_iter=400, random_state=seed),
            ShuffleSplit(1, test_size=0.25, random_state=seed),
            **network,
        ),
        "hist. boosting": tuned(HistGradientBoostingRegressor(random_state=seed)),
        "feature machine": tuned(RecursiveFeatureMachine(seed)),
    }


def overlaps(cases: tuple[tuple[int, int], ...] = OVERLAPS, per_column: int = 6) -> tuple[list[Row], str]:
    """The share of runs with a cosine of 0.99 and more, per d, and a table of all links."""
    from unlazy.estimators import SingleIndexRegressor

    rows, lines = [], [("link", *(f"d = {d}" for d, _ in cases))]
    found = {}
    for d, repetitions in cases:
        for link in LINKS:
            cosines = []
            for repetition in range(repetitions):
                data = draw(link, d, per_column * d, NOISE, 1, repetition)
                model = SingleIndexRegressor(random_state=repetition).fit(data.x, data.y)
                cosines.append(abs(float(model.coef_ @ data.theta)))
            found[d, link] = np.array(cosines)
        runs = np.concatenate([found[d, link] for link in LINKS])
        what = f"share of {runs.size} runs with cosine >= 0.99, n = {per_column} d, d = {d}"
        rows.append(Row(what, [float(np.mean(runs >= 0.99))], "", at_least=0.95))
    for link in LINKS:
        lines.append((link, *(f"{found[d, link].min():.4f} of {found[d, link].size}" for d, _ in cases)))
    return rows, f"least cosine at n = {per_column} d" + _table(lines)


def comparison(link: str, d: int, per_column: int, repetitions: int) -> Comparison:
    found = Comparison(link, per_column * d, d, {}, {})
    for repetition in range(repetitions):
        data = draw(link, d, per_column * d, NOISE, 2, repetition)
        _take_turns(found, data.x, data.y, data.x_test, data.target, repetition)
    return found


def real_data(
    take_turns: Callable[..., None], seed: int, sets: tuple[tuple[str, int, int], ...] = REAL, repetitions: int = 1
) -> tuple[list[Comparison], list[str]]:
    """The contestants of `take_turns` on random splits of real sets, and which sets are not installed."""
    from unlazy.checks import InputError
    from unlazy.data import real

    found, missing = [], []
    for index, (name, column, n) in enumerate(sets):
        try:
            data = real.load(name)
        except InputError as error:
            missing.append(f"left out {name}: {error}")
            continue
        one = Comparison(f"{name}: {data.target_names[column]}", n, data.inputs.shape[1], {}, {})
        for repetition in range(repetitions):
            order = np.random.default_rng([seed, index, repetition]).permutation(len(data.inputs))
            train, test, y = order[:n], order[n : n + TEST_ROWS], data.targets[:, column]
            take_turns(one, data.inputs[train], y[train], data.inputs[test], y[test], repetition)
        found.append(one)
    return found, missing


def weak_signals(runs: int = NOISE_RUNS) -> list[Row]:
    """Pure noise, and tanh with as much noise as signal, at d = 50, n = 4 d."""
    from sklearn.linear_model import RidgeCV

    from unlazy.estimators import SingleIndexRegressor

    excess, scores, ridge = [], [], []
    for run in range(runs):
        rng = np.random.default_rng([SEED, 4, run])
        x, y = rng.standard_normal((200, 50)), rng.standard_normal(200)
        model = SingleIndexRegressor(random_state=run).fit(x, y)
        excess.append(float(np.mean(model.predict(rng.standard_normal((TEST_ROWS, 50))) ** 2)))
        data = draw("tanh", 50, 200, 1.0, 5, run)
        for kept, one in ((scores, SingleIndexRegressor(random_state=run)), (ridge, RidgeCV(np.logspace(-2, 4, 25)))):
            error = np.mean((one.fit(data.x, data.y).predict(data.x_test) - data.target) ** 2)
            kept.append(1 - float(error / np.var(data.target)))
    return [
        Row(
            f"share of {runs} runs on noise with excess risk < 0.05, d = 50, n = 4 d",
            [float(np.mean(np.array(excess) < 0.05))],
            "",
            at_least=0.95,
        ),
        Row("excess risk on noise", excess, ""),
        Row("R2, tanh, noise as large as the signal, d = 50, n = 4 d", scores, "", at_least=0.45),
        Row("R2 of ridge regression there", ridge, ""),
    ]


def high_degrees(repetitions: int = 4) -> list[Row]:
    """R2 for links whose tails hold most of their variance."""
    from unlazy.estimators import SingleIndexRegressor

    rows = []
    for link in HIGH_DEGREES:
        scores = []
        for repetition in range(repetitions):
            data = draw(link, 50, 500, NOISE, 6, repetition)
            found = SingleIndexRegressor(random_state=repetition).fit(data.x, data.y).predict(data.x_test)
            scores.append(1 - float(np.mean((found - data.target) ** 2) / np.var(data.target)))
        rows.append(Row(f"R2, {link}, d = 50, n = 10 d", scores, "", at_least=0.9))
    return rows


def timing() -> list[Row]:
    from unlazy.estimators import SingleIndexRegressor

    rows = []
    for n, d, repetitions, most in ((1000, 100, 5, 1.0), (2000, 200, 3, 3.0), (20_000, 500, 1, 20.0)):
        wall, cpu = [], []
        for repetition in range(repetitions):
            data = draw(("relu", "He3")[repetition % 2], d, n, NOISE, 7, repetition)
            begin = time.perf_counter(), time.process_time()
            SingleIndexRegressor(random_state=repetition).fit(data.x, data.y)
            wall.append(time.perf_counter() - begin[0])
            cpu.append(time.process_time() - begin[1])
        what = f"SingleIndexRegressor, n = {n}, d = {d}"
        rows += [Row(what, wall, "s", at_most=most), Row(f"{what}: processor time", cpu, "s")]
    return rows


def _take_turns(
    found: Comparison, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, target: np.ndarray, seed: int
) -> None:
    race(found, contestants(x.shape[1], seed), x, y, x_test, target)


def race(
    found: Comparison, models: dict[str, Any], x: np.ndarray, y: np.ndarray, x_test: np.ndarray, target: np.ndarray
) -> None:
    """Fit all on one data set, and add their errors and times to the comparison."""
    for name, model in models.items():
        begin = time.perf_counter()
        model.fit(x, y)
        found.seconds.setdefault(name, []).append(time.perf_counter() - begin)
        found.errors.setdefault(name, []).append((model.predict(x_test) - target) ** 2 / np.var(target))


def _comparison_rows(compared: list[Comparison]) -> list[Row]:
    rows = []
    for per_column in sorted({one.n // one.d for one in compared}):
        cases = [one for one in compared if one.n == per_column * one.d]
        if per_column < 10:
            ratios = [one.mean(one.best_other()) / one.mean(SINGLE_INDEX) for one in cases]
            what = f"least of {len(cases)} sets, n = {per_column} d"
            rows.append(against(BEST, what, [min(ratios)], kind="error", at_least=1 / 0.8, detail=True))
        else:
            what = f"largest of {len(cases)} excesses over the best other in standard errors, n = {per_column} d"
            rows.append(Row(what, [max(one.excess() for one in cases)], "", at_most=1))
    return rows


def against_others(what: str, compared: list[Comparison], ours: str = SINGLE_INDEX, left_out: Any = ()) -> list[Row]:
    """Ratios of errors and times on each set; `left_out` are other estimators of unlazy."""
    if not compared:
        return []
    names = [name for name in compared[0].errors if name not in left_out]
    errors = {name: [one.mean(name) for one in compared] for name in names}
    seconds = {name: [float(np.median(one.seconds[name])) for one in compared] for name in names}
    return against_all(what, ours, errors, seconds)


def errors_table(compared: list[Comparison]) -> str:
    if not compared:
        return ": none"
    names = list(compared[0].errors)
    lines = [("data", "n", "d", *names, "ratio to the best other", "")]
    for one in compared:
        best = one.best_other()
        ratio = one.mean(SINGLE_INDEX) / one.mean(best)
        verdict = "win" if ratio < 0.95 else "loss" if ratio > 1.05 else "tie"
        errors = [f"{one.mean(name):.4f}" for name in names]
        lines.append((one.label, str(one.n), str(one.d), *errors, f"{ratio:.2f} {best}", verdict))
    return _table(lines)


def times_table(compared: list[Comparison]) -> str:
    if not compared:
        return ": none"
    names = list(compared[0].errors)
    lines = [("data", "n", "d", *names)]
    for one in compared:
        seconds = (f"{np.median(one.seconds[name]):.2f}" for name in names)
        lines.append((one.label, str(one.n), str(one.d), *seconds))
    return _table(lines)
