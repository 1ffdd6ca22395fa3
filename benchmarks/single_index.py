"""Directions, error and time of `SingleIndexRegressor` next to tuned networks, kernels, trees and feature machines.

The links have mean 0 and variance 1, the noise of the labels a deviation of 0.1 unless said otherwise. The seeds were
not used while the estimator was made. Contestants take turns on every data set, BLAS on one thread. All but the trees
choose their settings on held-out rows; inputs and targets are standardised for all.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks.contest import (
    Comparison,
    against_others,
    compare,
    errors_table,
    real_sets,
    text_table,
    timed,
    times_table,
    tuned,
)
from benchmarks.measure import BEST, Benchmark, Row, against

SEED = 20261201
LINKS = ("He2", "He3", "He4", "relu", "abs", "sin", "tanh")
HIGH_DEGREES = ("He5", "He6")
NOISE = 0.1
TEST_ROWS = 3000
SINGLE_INDEX = "single index"
# d, data sets per link: overlaps at n = 6 d (few, so that all benchmarks take half an hour)
OVERLAPS = ((50, 5), (100, 3), (200, 1))
# d, n / d: against the others
CASES = ((50, 4), (50, 10), (100, 4))
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


def single_index() -> Benchmark:
    from threadpoolctl import threadpool_limits

    missing: list[str] = []
    with threadpool_limits(1), warnings.catch_warnings():
        # networks that did not converge, noise in which nothing is found
        warnings.simplefilter("ignore")
        overlap_rows, overlap_note = overlaps()
        compared = [
            compare(contestants, link, *draw(link, d, per_column * d, NOISE, 2, 0)[:4])
            for d, per_column in CASES
            for link in LINKS
        ]
        real = [compare(contestants, *one) for one in real_sets(REAL, SEED, missing, TEST_ROWS)]
        rows = [
            *against_others(f"{len(compared)} drawn sets", compared, SINGLE_INDEX, clock="wall"),
            *against_others(f"{len(real)} real sets", real, SINGLE_INDEX, clock="wall"),
            *overlap_rows,
            *_comparison_rows(compared),
            *weak_signals(),
            *high_degrees(),
            *timing(),
        ]
    notes = [
        overlap_note,
        "E (prediction - target)^2 / Var(target) without the noise of the labels"
        + errors_table(compared, SINGLE_INDEX),
        "test error on real data over the variance of the test labels" + errors_table(real, SINGLE_INDEX),
        "seconds of one fit with its tuning, one thread, wall / CPU" + times_table([*compared, *real]),
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


def contestants(d: int) -> dict[str, Any]:
    """Unfitted estimators; the kernels' widths are relative to d."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold, ShuffleSplit
    from sklearn.neural_network import MLPRegressor

    from benchmarks._rfm import RecursiveFeatureMachine
    from unlazy.estimators import SingleIndexRegressor

    network = {
        "mlpregressor__hidden_layer_sizes": [(100,), (100, 100)],
        "mlpregressor__alpha": [1e-3, 0.1, 1.0],
        "mlpregressor__early_stopping": [False, True],
    }
    kernel = {"kernelridge__gamma": np.logspace(-1.5, 1, 4) / d, "kernelridge__alpha": np.logspace(-3, 0, 4)}
    return {
        SINGLE_INDEX: SingleIndexRegressor(random_state=0),
        "ridge": tuned(RidgeCV(np.logspace(-6, 5, 23))),
        "kernel ridge": tuned(KernelRidge(kernel="rbf"), cv=KFold(3, shuffle=True, random_state=0), **kernel),
        # one held-out quarter instead of folds: the network's time is most of the benchmark's
        "MLP": tuned(
            MLPRegressor(max_iter=400, random_state=0),
            cv=ShuffleSplit(1, test_size=0.25, random_state=0),
            **network,
        ),
        "hist. boosting": tuned(HistGradientBoostingRegressor(random_state=0)),
        "feature machine": tuned(RecursiveFeatureMachine(0)),
    }


def overlaps() -> tuple[list[Row], str]:
    """The share of runs with a cosine of 0.99 and more at n = 6 d, per d, and a table of all links."""
    from unlazy.estimators import SingleIndexRegressor

    rows, lines = [], [("link", *(f"d = {d}" for d, _ in OVERLAPS))]
    found = {}
    for d, repetitions in OVERLAPS:
        for link in LINKS:
            cosines = []
            for repetition in range(repetitions):
                data = draw(link, d, 6 * d, NOISE, 1, repetition)
                model = SingleIndexRegressor(random_state=repetition).fit(data.x, data.y)
                cosines.append(abs(float(model.coef_ @ data.theta)))
            found[d, link] = np.array(cosines)
        runs = np.concatenate([found[d, link] for link in LINKS])
        what = f"share of {runs.size} runs with cosine >= 0.99, n = 6 d, d = {d}"
        rows.append(Row(what, [float(np.mean(runs >= 0.99))], "", at_least=0.95))
    for link in LINKS:
        lines.append((link, *(f"{found[d, link].min():.4f} of {found[d, link].size}" for d, _ in OVERLAPS)))
    return rows, "least cosine at n = 6 d" + text_table(lines)


def weak_signals() -> list[Row]:
    """Pure noise, and tanh with as much noise as signal, at d = 50, n = 4 d."""
    from sklearn.linear_model import RidgeCV

    from unlazy.estimators import SingleIndexRegressor

    excess, scores, ridge = [], [], []
    for run in range(NOISE_RUNS):
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
            f"share of {NOISE_RUNS} runs on noise with excess risk < 0.05, d = 50, n = 4 d",
            [float(np.mean(np.array(excess) < 0.05))],
            "",
            at_least=0.95,
        ),
        Row("excess risk on noise", excess, ""),
        Row("R2, tanh, noise as large as the signal, d = 50, n = 4 d", scores, "", at_least=0.45),
        Row("R2 of ridge regression there", ridge, ""),
    ]


def high_degrees() -> list[Row]:
    """R2 for links whose tails hold most of their variance."""
    from unlazy.estimators import SingleIndexRegressor

    rows = []
    for link in HIGH_DEGREES:
        scores = []
        for repetition in range(4):
            data = draw(link, 50, 500, NOISE, 6, repetition)
            found = SingleIndexRegressor(random_state=repetition).fit(data.x, data.y).predict(data.x_test)
            scores.append(1 - float(np.mean((found - data.target) ** 2) / np.var(data.target)))
        rows.append(Row(f"R2, {link}, d = 50, n = 10 d", scores, "", at_least=0.9))
    return rows


def timing() -> list[Row]:
    from unlazy.estimators import SingleIndexRegressor

    rows = []
    for n, d, repetitions, most in ((1000, 100, 5, 1.0), (2000, 200, 3, 3.0), (20_000, 500, 1, 20.0)):
        seconds = []
        for repetition in range(repetitions):
            data = draw(("relu", "He3")[repetition % 2], d, n, NOISE, 7, repetition)
            model = SingleIndexRegressor(random_state=repetition)
            seconds.append(timed(lambda model=model, data=data: model.fit(data.x, data.y)))
        wall, cpu = zip(*seconds, strict=True)
        what = f"SingleIndexRegressor, n = {n}, d = {d}"
        rows += [Row(what, wall, "s", at_most=most), Row(f"{what}: processor time", cpu, "s")]
    return rows


def _comparison_rows(compared: list[Comparison]) -> list[Row]:
    rows = []
    for per_column in sorted({n // d for n, d in (one.sizes for one in compared)}):
        cases = [one for one in compared if one.sizes[0] == per_column * one.sizes[1]]
        if per_column < 10:
            ratios = [one.mean(_best_other(one)) / one.mean(SINGLE_INDEX) for one in cases]
            what = f"least of {len(cases)} sets, n = {per_column} d"
            rows.append(against(BEST, what, [min(ratios)], kind="error", at_least=1 / 0.8, detail=True))
        else:
            what = f"largest of {len(cases)} excesses over the best other in standard errors, n = {per_column} d"
            rows.append(Row(what, [max(map(_excess, cases))], "", at_most=1))
    return rows


def _best_other(one: Comparison) -> str:
    return one.best([name for name in one.names if name != SINGLE_INDEX])


def _excess(one: Comparison) -> float:
    """Error less that of the best other, in standard errors of the paired differences over test rows."""
    (ours,), (theirs,) = one.fits[SINGLE_INDEX], one.fits[_best_other(one)]
    differences = ours.errors - theirs.errors
    return float(differences.mean() / max(differences.std() / np.sqrt(differences.size), 1e-300))
