"""How often the 95% intervals of `LearningCurve` hold the error that training gives, and how wide they are.

From random pools of a table (8% of its rows up to ten times as many, and a quarter, at most 300, up to twice) the error
of ridge and rbf regression is forecast at ridge 1 and at the ridge that leave-one-out chooses. The truth is the mean
error on held-out rows over 16 random splits of the whole table, the ridge being that of the forecast. Tables with one
target are also columns of others, predicted from the rest; some are drawn, most of them with heavy tails. The constants
of `unlazy.diagnostics.curves` were set on TUNED; LOOKED was seen once on the way (it is why the upper end follows the
tail of the errors); FRESH was not looked at before the constants were final, and COLUMNS not before `reliable` asked
that the rows vouch for the error. Pools of fewer than 20 rows, which are never called reliable, are left out.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Benchmark, Row

FACTORS = (1.0, 2.0, 5.0, 10.0)
POOLS = 24
SPLITS = 16
KERNELS = ("linear", "rbf")
TUNED = (
    "diabetes", "wine", "digits", "topobathy", "china", "wine:12", "wine:0", "diabetes:4", "diabetes:2",
    "t3", "lognormal", "wide", "price",
)  # fmt: skip
LOOKED = (
    "breast_cancer", "iris", "digit_classes", "jacksboro", "flower", "breast_cancer:13", "breast_cancer:8",
    "breast_cancer:24", "iris:3", "hetero", "t2.5", "wide t6",
)  # fmt: skip
FRESH = (
    "breast_cancer:1", "breast_cancer:15", "breast_cancer:27", "breast_cancer:23", "iris:0", "mixed", "laplace",
    "counts", "step",
)  # fmt: skip
COLUMNS = (
    "breast_cancer:3", "breast_cancer:5", "breast_cancer:10", "breast_cancer:12", "breast_cancer:18",
    "breast_cancer:20", "breast_cancer:25", "breast_cancer:28", "diabetes:0", "diabetes:3", "diabetes:6", "diabetes:8",
    "wine:1", "wine:6", "wine:9", "iris:1", "iris:2",
)  # fmt: skip
_PENALTIES = np.geomspace(1e-3, 1e4, 22)
_DRAWN_ROWS = 1500
_FEWEST = 20


class Case(NamedTuple):
    table: str
    kernel: str
    factor: float
    covered: bool
    ratio: float
    """Of the interval's ends."""
    reliable: bool


def intervals() -> Benchmark:
    from threadpoolctl import threadpool_limits

    rows, notes = [], []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, tables in (("set with", TUNED), ("looked at", LOOKED), ("fresh", FRESH), ("columns", COLUMNS)):
            cases = [case for name in tables for case in cases_of(name)]
            for kind, kept in (("all", cases), ("reliable", [case for case in cases if case.reliable])):
                for factor in FACTORS:
                    here = [case for case in kept if case.factor == factor]
                    of = sum(case.factor == factor for case in cases)
                    if not here:
                        continue
                    about = f"{what}, {factor:.0f}x, {kind} ({len(here)} of {of})"
                    rows.append(Row(f"{about}: coverage", [float(np.mean([case.covered for case in here]))], ""))
                    rows.append(Row(f"{about}: high/low", [float(np.median([case.ratio for case in here]))], ""))
            for name in tables:
                told = [
                    f"{factor:.0f}x {np.mean(held):.2f}"
                    for factor in FACTORS
                    if (held := [case.covered for case in cases if (case.table, case.factor) == (name, factor)])
                ]
                notes.append(f"{name} ({what}): coverage {', '.join(told)}")
    return Benchmark(rows, notes)


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns and targets of total variance 1; NAME:J predicts column J of NAME from the others."""
    from unlazy.data.real import load, names

    source, _, column = name.partition(":")
    if source not in names():
        return _standardised(*_drawn(name))
    data = load(source)
    if column:
        return _standardised(np.delete(data.inputs, int(column), 1), data.inputs[:, [int(column)]])
    if data.same_unit and data.inputs.shape[1] > 20:
        return data.standardised()
    return _standardised(data.inputs, data.targets)


def _standardised(inputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    inputs, targets = inputs[:, np.ptp(inputs, axis=0) > 0], targets - targets.mean(axis=0)
    return (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), targets / np.sqrt(targets.var(axis=0).sum())


def _drawn(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows with tails that real ones have: of the noise, of the columns, or of the target."""
    n = _DRAWN_ROWS
    rng = np.random.default_rng(list(name.encode()))
    normal = rng.standard_normal

    def law(columns: int, decay: float = 0.0) -> np.ndarray:
        return normal((columns, 1)) * np.arange(1.0, columns + 1)[:, None] ** -decay

    def with_columns(x: np.ndarray, noise: np.ndarray, decay: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        return x, x @ law(x.shape[1], decay) + noise

    match name:
        case "t3":
            return with_columns(normal((n, 15)) @ (normal((15, 15)) / 4 + np.eye(15)), 2 * rng.standard_t(3, (n, 1)))
        case "lognormal":
            return with_columns(np.exp(normal((n, 12))), 2 * np.exp(normal((n, 1))))
        case "wide":
            return with_columns(normal((n, 200)) * np.arange(1, 201) ** -0.5, normal((n, 1)))
        case "price":
            x = normal((n, 10))
            return x, np.exp(0.8 * x @ law(10) / 3 + 0.4 * normal((n, 1)))
        case "hetero":
            x = rng.standard_t(5, (n, 20))
            return with_columns(x, normal((n, 1)) * np.exp(x[:, :1].clip(-4, 4) / 2), 0.7)
        case "t2.5":
            x = normal((n, 8))
            return x, np.tanh(x @ law(8)) + 0.4 * rng.standard_t(2.5, (n, 1))
        case "wide t6":
            return with_columns(rng.standard_t(6, (n, 300)) * np.arange(1, 301) ** -0.8, 0.5 * normal((n, 1)))
        case "mixed":
            x = np.hstack([np.exp(normal((n, 6))), rng.random((n, 14)) < 0.1])
            signal = np.log1p(x[:, :3]).sum(axis=1, keepdims=True) + 2 * x[:, 6:] @ law(14)
            return x, signal + rng.laplace(size=(n, 1))
        case "laplace":
            return with_columns(rng.laplace(size=(n, 25)), 3 * rng.laplace(size=(n, 1)), 0.5)
        case "counts":
            x = normal((n, 10))
            return x, rng.poisson(np.exp(0.5 + x @ law(10) / 4)).astype(float)
        case "step":
            x = rng.random((n, 5))
            return x, (x[:, :1] > 0.5) + np.sin(6 * x[:, 1:2]) + 0.3 * normal((n, 1))
    raise ValueError(f"no table {name!r}")


def cases_of(name: str, pools: int = POOLS, kernels: tuple[str, ...] = KERNELS) -> list[Case]:
    inputs, targets = table(name)
    rows = len(inputs)
    found = []
    for size, factors in ((int(0.08 * rows), FACTORS), (min(rows // 4, 300), FACTORS[:2])):
        if size < _FEWEST:
            continue
        for kernel in kernels:
            truth = _truth(inputs, targets, kernel, [int(factor * size) for factor in factors])
            for pool in range(pools):
                part = np.random.default_rng([2, pool]).permutation(rows)[:size]
                found += _forecasts(name, inputs[part], targets[part], kernel, np.array(factors), truth)
    return found


def _forecasts(
    name: str, inputs: np.ndarray, targets: np.ndarray, kernel: str, factors: np.ndarray, truth: np.ndarray
) -> list[Case]:
    from unlazy.diagnostics.forecasting.methods import largest_near_least
    from unlazy.diagnostics.learning_curve import LearningCurve

    curve = LearningCurve(kernel, gamma=1 / inputs.shape[1]).fit(inputs, targets)
    path = curve.penalty_path()
    found = []
    for penalty in (
        1.0,
        float(np.clip(largest_near_least(path.penalty, path.loo_error), _PENALTIES[0], _PENALTIES[-1])),
    ):
        points = curve.predict(np.floor(factors * len(inputs)), penalty)
        for i in np.flatnonzero(points.in_range):
            measured = np.exp(np.interp(np.log(penalty), np.log(_PENALTIES), np.log(truth[i])))
            low, high = points.low[i], points.high[i]
            found.append(
                Case(name, kernel, factors[i], bool(low <= measured <= high), high / low, bool(points.reliable[i]))
            )
    return found


def _truth(inputs: np.ndarray, targets: np.ndarray, kernel: str, sizes: list[int]) -> np.ndarray:
    """Mean errors on held-out rows, (sizes, penalties), of fits with an intercept."""
    from sklearn.metrics.pairwise import pairwise_kernels

    rows = len(inputs)
    options: dict[str, Any] = {"filter_params": True, "gamma": 1 / inputs.shape[1]}
    matrix = pairwise_kernels(inputs, metric=kernel, **options)
    errors = np.zeros((len(sizes), _PENALTIES.size))
    for split in range(SPLITS):
        order = np.random.default_rng([0, split]).permutation(rows)
        new = order[int(0.8 * rows) :]
        for i, size in enumerate(sizes):
            part = order[:size]
            own, other = matrix[np.ix_(part, part)], matrix[np.ix_(new, part)]
            means, mean = own.mean(axis=0), targets[part].mean(axis=0)
            values, vectors = np.linalg.eigh(own - means - means[:, None] + means.mean())
            left = (other - other.mean(axis=1, keepdims=True) - means + means.mean()) @ vectors
            right, values = vectors.T @ (targets[part] - mean), np.maximum(values, 0.0)
            for j, penalty in enumerate(_PENALTIES):
                missed = targets[new] - mean - left @ (right / (values + penalty)[:, None])
                errors[i, j] += np.mean(np.sum(missed**2, axis=1)) / SPLITS
    return errors
