"""`DiffusionDensity` next to a kernel density, a Gaussian mixture, a normalising flow and the empirical measure.

Judged are the mean log density of fresh rows and the W1 distance of as many draws to fresh rows, in deviations of the
columns, by exact transport. The kernel's bandwidth is cross-validated, the mixture's size chosen by BIC, both on
standardised columns. The flow is RealNVP, for two columns or more, stopped on held-out rows.
W1 between two samples has a floor, that of fresh rows against fresh rows, which is shown. The
seeds were not used while the estimator was made. BLAS on one thread.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks._flow import Flow
from benchmarks.contest import text_table
from benchmarks.measure import Benchmark, Row, against, against_all
from unlazy.observables.transport import wasserstein_distance

SEED = 20261301
TEST_ROWS = 1500
POINTS = 400
OURS, KERNEL, MIXTURE, FLOW = "diffusion", "kernel density", "Gaussian mixture", "normalising flow"
EMPIRICAL, FRESH = "empirical", "fresh rows"
MODELS = (OURS, KERNEL, MIXTURE, FLOW)
REAL_COLUMNS = 12
FOLDS = 5
# where the estimator is recommended, and by how much it must beat the cross-validated kernel density there
EDGES = ("uniform", "exponential", "uniform square")


class Case(NamedTuple):
    label: str
    n: int
    d: int
    draw: Callable[[np.random.Generator, int], np.ndarray]
    repetitions: int
    likelihood: bool = True
    """Whether the law has a density in R^d."""


class Judged(NamedTuple):
    case: Case
    likelihood: dict[str, list[float]]
    distance: dict[str, list[float]]
    fit_seconds: dict[str, list[float]]
    sample_seconds: dict[str, list[float]]


def diffusion() -> Benchmark:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        # mixtures that did not converge
        warnings.simplefilter("ignore")
        judged = [judge(case, index) for index, case in enumerate(cases())]
        gains = real_columns()
        real = [judge(case, 100 + index) for index, case in enumerate(real_cases())]
    return Benchmark(
        [
            *_against_others(f"{len(judged)} drawn sets", judged),
            *_against_others(f"{len(real)} real sets", real),
            *_rows(judged),
            *_column_rows(gains),
        ],
        [
            "mean log density of fresh rows" + likelihood_table([*judged, *real]),
            f"W1 of {POINTS} draws to {POINTS} fresh rows, in deviations of the columns"
            + distance_table([*judged, *real]),
            "median seconds of a fit with its tuning, and of 1000 draws" + times_table([*judged, *real]),
            "perplexity is exp(-mean log density per column), where there is a density in R^d",
            "the network's first fit and first draw of a size compile for about 6 s, which is counted",
            "on a line or plane the kernel's cross-validated bandwidth is the least that is tried, which makes it the "
            "empirical measure: there is no target for W1, and its floor is that of two samples",
        ],
    )


def cases() -> list[Case]:
    line, plane = (np.linalg.qr(np.random.default_rng([SEED, k]).standard_normal((10, k)))[0] for k in (1, 2))

    def modes(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        centers = 1.2 * np.random.default_rng([SEED, 7, d]).standard_normal((4, d))
        return centers[rng.integers(4, size=n)] + 0.5 * rng.standard_normal((n, d))

    def bounded(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        """Uniform columns whose ranks depend on each other as in a Gaussian autoregression."""
        from scipy.special import ndtr

        rows = rng.standard_normal((n, d))
        for column in range(1, d):
            rows[:, column] = 0.6 * rows[:, column - 1] + 0.8 * rows[:, column]
        return ndtr(rows)

    def bimodal(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random((n, 1)) < 0.5, -1.5, 1.5) + 0.6 * rng.standard_normal((n, 1))

    def correlated(rng: np.random.Generator, n: int, correlation: float) -> np.ndarray:
        return rng.multivariate_normal([1.0, 2.0], [[1.0, correlation], [correlation, 1.0]], n)

    def moons(rng: np.random.Generator, n: int) -> np.ndarray:
        from sklearn.datasets import make_moons

        return make_moons(n, noise=0.1, random_state=int(rng.integers(2**31)))[0]

    def edge(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.beta(0.7, 2.0, (n, 2))

    found = [
        Case("uniform", 800, 1, lambda rng, n: rng.random((n, 1)), 5),
        Case("exponential", 800, 1, lambda rng, n: rng.exponential(size=(n, 1)), 5),
        Case("beta(2, 5)", 800, 1, lambda rng, n: rng.beta(2, 5, (n, 1)), 5),
        Case("normal", 800, 1, lambda rng, n: rng.standard_normal((n, 1)), 5),
        Case("two modes", 800, 1, bimodal, 5),
        Case("uniform square", 800, 2, lambda rng, n: rng.random((n, 2)), 3),
        Case("beta(0.7, 2) squared", 800, 2, edge, 3),
        Case("four modes", 800, 2, lambda rng, n: modes(rng, n, 2), 3),
    ]
    for d in (3, 5, 10):
        found += [
            Case("four modes", 1000, d, lambda rng, n, d=d: modes(rng, n, d), 1),
            Case("bounded, dependent", 1000, d, lambda rng, n, d=d: bounded(rng, n, d), 1),
        ]
    return [
        *found,
        Case("line, bounded", 800, 10, lambda rng, n: (2 * rng.random((n, 1)) - 1) @ line.T, 3, likelihood=False),
        Case("plane, bounded", 800, 10, lambda rng, n: (2 * rng.random((n, 2)) - 1) @ plane.T, 3, likelihood=False),
        Case("normal, correlation 0.95", 500, 2, lambda rng, n: correlated(rng, n, 0.95), 3),
        Case("normal, correlation 0.99", 500, 2, lambda rng, n: correlated(rng, n, 0.99), 3),
        Case("two moons", 500, 2, moons, 3),
    ]


def real_cases() -> list[Case]:
    """Real rows, of which each draw takes others: the training rows first, then the fresh ones."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

    cancer, wine, diabetes = (load().data for load in (load_breast_cancer, load_wine, load_diabetes))
    found = []
    for label, rows in (
        ("wine, alcohol and colour", wine[:, [0, 9]]),
        ("cancer, texture and area", cancer[:, [1, 3]]),
        ("diabetes, 5 blood values", diabetes[:, [4, 5, 6, 8, 9]]),
        ("cancer, 10 means", cancer[:, :10]),
    ):
        n = int(0.7 * len(rows))
        found.append(Case(label, n, rows.shape[1], _Shuffled(rows), 3 if rows.shape[1] == 2 else 1))
    return found


class _Shuffled:
    """Rows in an order that every other call draws: it takes the training rows, the next call the others."""

    def __init__(self, rows: np.ndarray):
        self.rows, self.rest = rows, rows[:0]

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        if not len(self.rest):
            order = rng.permutation(len(self.rows))
            self.rest = self.rows[order[n:]]
            return self.rows[order[:n]]
        fresh, self.rest = self.rest, self.rows[:0]
        return fresh


class Empirical:
    """The training rows themselves."""

    def fit(self, rows: np.ndarray) -> Empirical:
        self.rows = rows
        return self

    def sample(self, n: int, random_state: int) -> np.ndarray:
        return self.rows[np.random.default_rng(random_state).integers(len(self.rows), size=n)]


class Mixture:
    """The Gaussian mixture of least BIC among 1 to 8 components."""

    def fit(self, rows: np.ndarray) -> Mixture:
        from sklearn.mixture import GaussianMixture

        tried = [GaussianMixture(k, reg_covar=1e-6, random_state=0, n_init=2).fit(rows) for k in range(1, 9)]
        self.best = min(tried, key=lambda model: model.bic(rows))
        return self

    def score_samples(self, rows: np.ndarray) -> np.ndarray:
        return self.best.score_samples(rows)

    def sample(self, n: int, random_state: int) -> np.ndarray:
        # it draws component by component, and a part of the draws would be of some components only
        drawn = self.best.set_params(random_state=random_state).sample(n)[0]
        return np.random.default_rng(random_state).permutation(drawn)


class Kernel:
    """The Gaussian kernel density with a cross-validated bandwidth."""

    def fit(self, rows: np.ndarray) -> Kernel:
        from sklearn.model_selection import GridSearchCV, KFold
        from sklearn.neighbors import KernelDensity

        grid = {"bandwidth": np.geomspace(0.02, 1.5, 18)}
        folds = KFold(FOLDS, shuffle=True, random_state=0)
        self.best = GridSearchCV(KernelDensity(), grid, cv=folds).fit(rows).best_estimator_
        return self

    def score_samples(self, rows: np.ndarray) -> np.ndarray:
        return self.best.score_samples(rows)

    def sample(self, n: int, random_state: int) -> np.ndarray:
        return self.best.sample(n, random_state=random_state)


def judge(case: Case, index: int) -> Judged:
    from unlazy.estimators import DiffusionDensity

    found = Judged(case, {}, {}, {}, {})
    for repetition in range(case.repetitions):
        rng = np.random.default_rng([SEED, index, repetition])
        rows, fresh = case.draw(rng, case.n), case.draw(rng, TEST_ROWS)
        unit = rows.std(axis=0)
        others = fresh[POINTS:] if len(fresh) >= 2 * POINTS else fresh[: len(fresh) // 2]
        target = fresh[:POINTS] if len(fresh) >= 2 * POINTS else fresh[len(fresh) // 2 :]
        found.distance.setdefault(FRESH, []).append(wasserstein_distance(others[: len(target)] / unit, target / unit))
        models = {
            OURS: DiffusionDensity(random_state=repetition),
            KERNEL: Kernel(),
            MIXTURE: Mixture(),
            FLOW: Flow(random_state=repetition) if case.d > 1 and case.likelihood else None,
            EMPIRICAL: Empirical(),
        }
        for name, model in models.items():
            if model is None:
                for part in found[1:]:
                    part.setdefault(name, []).append(np.nan)
                continue
            begin = time.perf_counter()
            model.fit(rows / unit)
            fitted = time.perf_counter()
            drawn = model.sample(1000, random_state=repetition)
            found.fit_seconds.setdefault(name, []).append(fitted - begin)
            found.sample_seconds.setdefault(name, []).append(time.perf_counter() - fitted)
            found.distance.setdefault(name, []).append(wasserstein_distance(drawn[: len(target)], target / unit))
            if case.likelihood and name != EMPIRICAL:
                density = model.score_samples(fresh / unit) - np.log(unit).sum()
                found.likelihood.setdefault(name, []).append(float(density.mean()))
    return found


def real_columns() -> np.ndarray:
    """Held-out log density less that of the kernel density for single columns of the breast-cancer set, five folds."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import KFold

    from unlazy.estimators import DiffusionDensity

    data = load_breast_cancer().data
    columns = np.random.default_rng([SEED, 3]).choice(data.shape[1], REAL_COLUMNS, replace=False)
    gains = np.zeros((REAL_COLUMNS, FOLDS))
    for i, column in enumerate(columns):
        rows = data[:, [column]]
        for j, (train, test) in enumerate(KFold(FOLDS, shuffle=True, random_state=i).split(rows)):
            unit = rows[train].std()
            ours, kernel = DiffusionDensity().fit(rows[train] / unit), Kernel().fit(rows[train] / unit)
            gains[i, j] = np.mean(ours.score_samples(rows[test] / unit) - kernel.score_samples(rows[test] / unit))
    return gains


def _against_others(what: str, judged: list[Judged]) -> list[Row]:
    names = MODELS
    with_density = [one for one in judged if one.case.likelihood]
    perplexity = {n: [float(np.exp(-np.mean(one.likelihood[n]) / one.case.d)) for one in with_density] for n in names}
    distance = {n: [float(np.mean(one.distance[n])) for one in judged] for n in names}
    seconds = {n: [float(np.median(one.fit_seconds[n])) for one in judged] for n in names}
    return [
        *against_all(what, OURS, perplexity, kind="perplexity"),
        *against_all(what, OURS, distance, seconds, kind="W1 distance"),
    ]


def _rows(judged: list[Judged]) -> list[Row]:
    rows = []
    for one in judged:
        if one.case.label in EDGES:
            gains = np.subtract(one.likelihood[OURS], one.likelihood[KERNEL]).tolist()
            rows.append(Row(f"{one.case.label}: log density less the kernel's", gains, "", at_least=0.01))
        if not one.case.likelihood:
            shares = np.divide(one.distance[KERNEL], one.distance[OURS]).tolist()
            rows.append(against(KERNEL, f"{one.case.label} in R^10", shares, kind="W1 distance", detail=True))
    return rows


def _column_rows(gains: np.ndarray) -> list[Row]:
    means = gains.mean(axis=1)
    what = f"{len(means)} cancer columns, 5 folds: log density less the kernel's"
    return [
        Row(what, means.tolist(), "", at_least=0.0),
        Row("share of those columns on which it is better", [float(np.mean(means > 0))], ""),
    ]


def likelihood_table(judged: list[Judged]) -> str:
    lines = [("data", "d", "n", *MODELS, "less the best other", "")]
    for one in judged:
        if not one.case.likelihood:
            continue
        means = {name: float(np.mean(values)) for name, values in one.likelihood.items()}
        best = np.nanmax([value for name, value in means.items() if name != OURS])
        gain = means[OURS] - best
        verdict = "win" if gain > 0.005 else "loss" if gain < -0.005 else "tie"
        shown = (f"{means[name]:.3f}" for name in MODELS)
        lines.append((one.case.label, str(one.case.d), str(one.case.n), *shown, f"{gain:+.3f}", verdict))
    return text_table(lines)


def distance_table(judged: list[Judged]) -> str:
    names = (*MODELS, EMPIRICAL, FRESH)
    lines = [("data", "d", "n", *names)]
    for one in judged:
        means = (f"{np.mean(one.distance[name]):.3f}" for name in names)
        lines.append((one.case.label, str(one.case.d), str(one.case.n), *means))
    return text_table(lines)


def times_table(judged: list[Judged]) -> str:
    names = MODELS
    lines: list[tuple[Any, ...]] = [("data", "d", *(f"{name}: {what}" for name in names for what in ("fit", "draw")))]
    for one in judged:
        seconds = (f"{np.median(part[name]):.2f}" for name in names for part in (one.fit_seconds, one.sample_seconds))
        lines.append((one.case.label, str(one.case.d), *seconds))
    return text_table(lines)
