"""Directions, error and time of `AdditiveIndexRegressor` and `MultiIndexRegressor` next to tuned competitors.

The noise of the labels has a deviation of 0.1 of a signal of variance 1. The seeds were not used while the estimators
were made. Contestants and their tuning are those of the benchmark `single_index`, the single index among them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contest import against_others, compare, errors_table, real_sets, timed, times_table
from benchmarks.measure import Benchmark, Row
from benchmarks.single_index import NOISE, REAL, SINGLE_INDEX, TEST_ROWS, Drawn, contestants

SEED = 20261202
ADDITIVE, MULTI = "additive", "multi-index"
OURS = (ADDITIVE, MULTI, SINGLE_INDEX)
LINKS = ("He3", "abs", "tanh", "He2")
# terms, d, n / d, data sets
SUMS = ((2, 50, 10, 5), (4, 50, 20, 3), (2, 100, 10, 2))
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "z1 z2": lambda t: t[:, 0] * t[:, 1],
    "(z1^2 - 1)/2 + z1 z2": lambda t: (t[:, 0] ** 2 - 1) / 2 + t[:, 0] * t[:, 1],
    "relu(z1) tanh(z2)": lambda t: np.maximum(t[:, 0], 0) * np.tanh(t[:, 1]),
    "|(z1, z2)|": lambda t: np.hypot(t[:, 0], t[:, 1]),
    "He3(z1) + tanh(2 z2)": lambda t: (t[:, 0] ** 3 - 3 * t[:, 0]) / np.sqrt(6) + np.tanh(2 * t[:, 1]),
}
# d, n / d, data sets per function
SURFACES = ((50, 10, 2), (100, 10, 1))
NOISE_CASES = ((50, 4, 4), (50, 10, 4), (20, 10, 4))
_MOMENTS = 200_000


def multi_index() -> Benchmark:
    from threadpoolctl import threadpool_limits

    missing: list[str] = []
    with threadpool_limits(1), warnings.catch_warnings():
        # the rule n >= 10 M d is not kept on purpose; networks that did not converge
        warnings.simplefilter("ignore")
        rows = [*sums(), *surfaces(), *noise()]
        drawn = {"He3 + abs": draw_sum(2, 50, 500, 3, 0)}
        drawn |= {name: draw_surface(name, 50, 500, 4, 0) for name in FUNCTIONS}
        compared = [compare(partial(_contestants, 2), label, *data[:4]) for label, data in drawn.items()]
        real = [compare(partial(_contestants, "auto"), *one) for one in real_sets(REAL, SEED, missing, TEST_ROWS)]
    for name in (MULTI, ADDITIVE):
        others = [one for one in OURS if one != name]
        rows += against_others(f"{len(compared)} drawn sets, {name}", compared, name, others, clock="wall")
        rows += against_others(f"{len(real)} real sets, {name}", real, name, others, clock="wall")
    notes = [
        "E (prediction - target)^2 / Var(target) without the noise of the labels, 2 terms or components"
        + errors_table(compared, *OURS),
        "test error on real data over the variance of the test labels, both with 'auto'" + errors_table(real, *OURS),
        "seconds of one fit with its tuning, one thread, wall / CPU" + times_table([*compared, *real]),
        *missing,
    ]
    return Benchmark(rows, notes)


def draw_sum(count: int, d: int, n: int, *seed: int) -> Drawn:
    """y = M^(-1/2) sum of links of variance 1 of orthogonal directions, plus noise."""
    from unlazy.functions.elementwise import as_link
    from unlazy.functions.orthogonal import Hermite

    points, weights = Hermite().grid(1, (0.0,))

    def function(t: np.ndarray) -> np.ndarray:
        total = np.zeros(len(t))
        for name, one in zip(LINKS[:count], t.T, strict=True):
            values = as_link(name)(points)
            mean = weights @ values
            total += (as_link(name)(one) - mean) / np.sqrt(count * (weights @ (values - mean) ** 2))
        return total

    return _draw(function, count, d, n, *seed)


def draw_surface(name: str, d: int, n: int, *seed: int) -> Drawn:
    """A function of two indices, to mean 0 and variance 1 by chance moments."""
    sample = FUNCTIONS[name](np.random.default_rng(SEED).standard_normal((_MOMENTS, 2)))
    mean, deviation = sample.mean(), sample.std()
    return _draw(lambda t: (FUNCTIONS[name](t) - mean) / deviation, 2, d, n, *seed)


def _draw(function: Callable[[np.ndarray], np.ndarray], count: int, d: int, n: int, *seed: int) -> Drawn:
    rng = np.random.default_rng([SEED, d, n, *seed])
    directions = np.linalg.qr(rng.standard_normal((d, count)))[0]
    x = rng.standard_normal((n + TEST_ROWS, d))
    target = function(x @ directions)
    return Drawn(x[:n], target[:n] + NOISE * rng.standard_normal(n), x[n:], target[n:], directions)


def sums() -> list[Row]:
    """R2 and directions of sums, where the note's greedy fits failed in some runs."""
    from unlazy.estimators import AdditiveIndexRegressor

    rows = []
    for count, d, per_column, repetitions in SUMS:
        scores, overlaps, seconds = [], [], []
        for repetition in range(repetitions):
            data = draw_sum(count, d, per_column * d, 1, repetition)
            model = AdditiveIndexRegressor(count, random_state=repetition)
            seconds.append(timed(lambda model=model, data=data: model.fit(data.x, data.y))[1])
            scores.append(_score(model, data))
            overlaps.append(float(np.abs(model.directions_ @ data.theta).max(axis=0).min()))
        what = f"{count} terms, d = {d}, n = {per_column} d"
        rows.append(
            Row(
                f"share of {repetitions} runs with R2 > 0.95, {what}",
                [float(np.mean(np.array(scores) > 0.95))],
                "",
                at_least=0.9,
            )
        )
        rows += [Row(f"R2, {what}", scores, ""), Row(f"least overlap, {what}", overlaps, "")]
        rows.append(Row(f"processor time, {what}", seconds, "s"))
    return rows


def surfaces() -> list[Row]:
    from unlazy.estimators import MultiIndexRegressor

    rows = []
    for d, per_column, repetitions in SURFACES:
        for name in FUNCTIONS:
            scores, cosines, seconds = [], [], []
            for repetition in range(repetitions):
                data = draw_surface(name, d, per_column * d, 2, repetition)
                model = MultiIndexRegressor(2, random_state=repetition)
                seconds.append(timed(lambda model=model, data=data: model.fit(data.x, data.y))[1])
                scores.append(_score(model, data))
                overlap = np.linalg.qr(model.directions_.T)[0].T @ data.theta
                cosines.append(float(np.linalg.svd(overlap)[1].min()) if len(overlap) == 2 else 0.0)
            what = f"{name}, d = {d}, n = {per_column} d"
            rows += [
                Row(f"R2, {what}", scores, "", at_least=0.95),
                Row(f"least cosine, {what}", cosines, "", at_least=0.99),
            ]
            rows.append(Row(f"processor time, {what}", seconds, "s"))
    return rows


def noise() -> list[Row]:
    from unlazy.estimators import AdditiveIndexRegressor, MultiIndexRegressor

    rows = []
    for name, kind in ((ADDITIVE, AdditiveIndexRegressor), (MULTI, MultiIndexRegressor)):
        excess = []
        for d, per_column, repetitions in NOISE_CASES:
            for repetition in range(repetitions):
                rng = np.random.default_rng([SEED, 5, d, per_column, repetition])
                x, y = rng.standard_normal((per_column * d, d)), rng.standard_normal(per_column * d)
                model = kind(2, random_state=repetition).fit(x, y)
                excess.append(float(np.mean(model.predict(rng.standard_normal((TEST_ROWS, d))) ** 2)))
        share = float(np.mean(np.array(excess) < 0.05))
        rows.append(
            Row(f"{name}: share of {len(excess)} runs on noise with excess risk < 0.05", [share], "", at_least=0.95)
        )
        rows.append(Row(f"{name}: excess risk on noise", excess, ""))
    return rows


def _contestants(count: Any, d: int) -> dict[str, Any]:
    from unlazy.estimators import AdditiveIndexRegressor, MultiIndexRegressor

    return {
        ADDITIVE: AdditiveIndexRegressor(count, random_state=0),
        MULTI: MultiIndexRegressor(count, random_state=0),
        **contestants(d),
    }


def _score(model: Any, data: Drawn) -> float:
    return 1 - float(np.mean((model.predict(data.x_test) - data.target) ** 2) / np.var(data.target))
