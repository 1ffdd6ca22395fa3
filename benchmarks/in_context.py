"""Error and time of `InContextRegressor` on many small related regressions, drawn and real, next to simpler ways.

All contestants get the same pretraining tasks and, for each new task, the same few context rows; features are
standardised with the rows of the pretraining tasks. Ours are told how many context rows there will be. In the real sets
rows of the new tasks come from the half of the table that no pretraining task has seen, and their targets are other
columns, or the tiles other ones. The mixed model is statsmodels' MixedLM, where it is installed: random intercepts, and
random slopes where there are at most 5 features, since its covariances are dense. Wins and losses are printed alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.contest import BAYES, Comparison, Fit, against_others, errors_table, timed, times_table
from benchmarks.measure import Benchmark, Row, against

SEED = 20261118
NEW_TASKS, NEW_ROWS = 100, 40
OWN = "ridge of the task"
MODES = ("empirical_bayes", "linear_attention", "subspace_kernel")
# d, pretraining tasks, context rows
HEADS = ("d", "tasks", "context")
# name, kind of tasks, d, pretraining tasks, their rows, context rows
DRAWN = (
    ("rank 4", "rank 4", 30, 400, 15, 15),
    ("rank 4, 20 tasks", "rank 4", 30, 20, 15, 15),
    ("rank 4, 20 tasks of 150 rows", "rank 4", 30, 20, 150, 15),
    ("power law i^-1.5", "power law", 30, 400, 15, 15),
    ("isotropic", "isotropic", 30, 400, 15, 15),
    ("rank 4, 60 rows", "rank 4", 30, 100, 60, 60),
    ("mean and intercepts", "mean", 30, 100, 15, 8),
    ("heavy-tailed slopes", "heavy tails", 30, 200, 15, 15),
    ("He2, He3 of a plane", "nonlinear", 16, 200, 60, 32),
    ("unrelated sines", "unrelated", 5, 100, 30, 30),
)
MOST_SLOPES = 5

Task = tuple[np.ndarray, np.ndarray]
Predictor = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class NewTask(NamedTuple):
    """Context rows of a new task and rows to predict."""

    X: np.ndarray
    y: np.ndarray
    places: np.ndarray
    labels: np.ndarray


class Case(NamedTuple):
    tasks: list[Task]
    new: list[NewTask]
    oracle: Predictor | None = None


def in_context() -> Benchmark:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        # few tasks, iterations that did not converge, variances at their boundary
        warnings.simplefilter("ignore")
        drawn = [
            _compare(label, lambda rng, case=case: draw(rng, *case), index)
            for index, (label, *case) in enumerate(DRAWN)
        ]
        real, missing = _real()
    rows = [
        against(
            OWN, f"{label}, {mode}", [found.mean(OWN) / found.mean(mode)], kind="error", at_least=1 / most, detail=True
        )
        for found, label, mode, most in (
            (drawn[0], "rank 4", "empirical_bayes", 0.35),
            (drawn[3], "power law", "empirical_bayes", 0.7),
            (drawn[4], "isotropic", "empirical_bayes", 1.0),
            (drawn[5], "rank 4, 60 rows", "empirical_bayes", 0.75),
            (drawn[8], "He2, He3 of a plane", "subspace_kernel", 0.2),
        )
    ]
    rows += [
        *against_others(f"{len(drawn)} drawn kinds of tasks, auto", drawn, "auto", (*MODES, "MetaMetric")),
        *against_others(f"{len(real)} real sets of tasks, auto", real, "auto", (*MODES, "MetaMetric")),
        *_time_of_pretraining(),
    ]
    notes = [
        "mean squared error of new labels over their variance; signal and noise are 1 and .1, Bayes knows the law of "
        "the tasks" + errors_table(drawn, "auto", heads=HEADS, left_out=MODES),
        "the same on real data" + errors_table(real, "auto", heads=HEADS, left_out=MODES),
        "seconds of pretraining and of all new tasks, wall / CPU; those of auto are with the three before it"
        + times_table([*drawn, *real], HEADS),
        *missing,
    ]
    if "mixed model" not in contestants():
        notes.append("left out the mixed model: statsmodels is not installed")
    return Benchmark(rows, notes)


def contestants(context: int = 0) -> dict[str, Callable[[list[Task]], Predictor]]:
    """Ways to learn from related tasks: each takes them and returns a predictor from a context."""
    known: dict[str, Any] = {}
    found: dict[str, Callable[[list[Task]], Predictor]] = {
        **{mode: _ours(mode, context, known) for mode in (*MODES, "auto")},
        "MetaMetric": _meta_metric,
        OWN: lambda tasks: lambda X, y, places: _ridge(X, y).predict(places),
        "pooled ridge": _pooled,
        "ridge on pooled residuals": _residual,
    }
    try:
        import statsmodels  # noqa: F401
    except ImportError:
        return found
    return found | {"mixed model": _mixed}


def draw(rng: np.random.Generator, kind: str, d: int, tasks: int, rows: int, context: int) -> Case:
    """Tokens N(0, I/d), so that slopes of variance 1 give labels of signal variance 1."""
    mean, deviation = np.zeros(d), 0.0
    if kind in ("nonlinear", "unrelated"):
        pretraining = [_nonlinear(rng, kind, d, rows) for _ in range(tasks)]
        new = [_nonlinear(rng, kind, d, context + NEW_ROWS) for _ in range(NEW_TASKS)]
        return Case(pretraining, [_split(task, context) for task in new])
    if kind == "rank 4":
        root = np.linalg.qr(rng.standard_normal((d, 4)))[0] * np.sqrt(d / 4)
    elif kind == "power law":
        values = np.arange(1.0, d + 1) ** -1.5
        root = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.sqrt(d * values / values.sum())
    else:
        root = np.eye(d)
    if kind == "mean":
        mean, root, deviation = (
            rng.standard_normal(d),
            np.linalg.qr(rng.standard_normal((d, 3)))[0] * np.sqrt(d / 9),
            1.0,
        )

    def one(n: int) -> Task:
        weights = rng.standard_normal(root.shape[1])
        if kind == "heavy tails":
            weights = rng.standard_t(3, root.shape[1]) / np.sqrt(3)
        X = rng.standard_normal((n, d)) / np.sqrt(d)
        intercept = 1.0 + rng.standard_normal() if deviation else 0.0
        return X, X @ (mean + root @ weights) + intercept + np.sqrt(0.1) * rng.standard_normal(n)

    prior = root @ root.T

    def bayes(X: np.ndarray, y: np.ndarray, places: np.ndarray) -> np.ndarray:
        gram = X @ prior @ X.T + deviation**2 + 0.1 * np.eye(len(X))
        dual = np.linalg.solve(gram, y - X @ mean - deviation)
        return places @ mean + deviation + (places @ prior @ X.T + deviation**2) @ dual

    pretraining = [one(rows) for _ in range(tasks)]
    new = [_split(one(context + NEW_ROWS), context) for _ in range(NEW_TASKS)]
    return Case(pretraining, new, None if kind == "heavy tails" else bayes)


def _nonlinear(rng: np.random.Generator, kind: str, d: int, n: int) -> Task:
    X = rng.standard_normal((n, d))
    if kind == "unrelated":
        direction = rng.standard_normal(d)
        signal = np.sqrt(2) * np.sin(3 * X @ direction / np.linalg.norm(direction))
    else:
        direction, share = rng.standard_normal(2), rng.standard_normal(2)
        s = X[:, :2] @ direction / np.linalg.norm(direction)
        share /= np.linalg.norm(share)
        signal = share[0] * (s**2 - 1) / np.sqrt(factorial(2)) + share[1] * (s**3 - 3 * s) / np.sqrt(factorial(3))
    return X, signal + np.sqrt(0.1) * rng.standard_normal(n)


def _split(task: Task, context: int) -> NewTask:
    X, y = task
    return NewTask(X[:context], y[:context], X[context:], y[context:])


def _compare(label: str, make: Callable[[np.random.Generator], Case], index: int) -> Comparison:
    case = make(np.random.default_rng([SEED, index, 0]))
    sizes = case.tasks[0][0].shape[1], len(case.tasks), len(case.new[0].y)
    labels = np.concatenate([new.labels for new in case.new])
    fits: dict[str, list[Fit]] = {}

    def run(name: str, pretrain: Callable[[list[Task]], Predictor]) -> None:
        found: list[np.ndarray] = []

        def predict() -> None:
            predictor = pretrain(case.tasks)
            found.extend(predictor(new.X, new.y, new.places) for new in case.new)

        seconds = timed(predict)
        misses = np.mean([np.mean((a - new.labels) ** 2) for a, new in zip(found, case.new, strict=True)])
        fits[name] = [Fit(misses / np.var(labels), *seconds)]

    for name, pretrain in contestants(sizes[2]).items():
        run(name, pretrain)
    if case.oracle is not None:
        run(BAYES, lambda tasks: case.oracle)
    # auto chooses among the three before it; that each of them also predicted the new tasks counts against it
    tried = [fits[name][0] for name in (*MODES, "auto")]
    fits["auto"] = [Fit(fits["auto"][0].errors, sum(fit.wall for fit in tried), sum(fit.cpu for fit in tried))]
    return Comparison(label, sizes, fits)


def _real() -> tuple[list[Comparison], list[str]]:
    from unlazy.checks import InputError

    found, missing = [], []
    sets = {
        "digits: pixel and digit": lambda rng: _digits(rng, 12),
        "digits: pixel": lambda rng: _columns(rng, "digits", slice(None), 20),
        "electricity: half hour": lambda rng: _columns(rng, "electricity", slice(288, 336), 20),
        "corn: channel": lambda rng: _columns(rng, "corn", slice(None, None, 14), 12),
        "tissues: gene": lambda rng: _columns(rng, "tissues", slice(None, 40), 20),
        "china: pixel": lambda rng: _columns(rng, "china", slice(None, None, 16), 20),
        "jacksboro: tile": lambda rng: _tiles(rng, 12),
    }
    for index, (label, make) in enumerate(sets.items()):
        try:
            found.append(_compare(label, make, 100 + index))
        except InputError as error:
            missing.append(f"left out {label}: {error}")
    return found, missing


def _columns(rng: np.random.Generator, name: str, inputs: slice, context: int) -> Case:
    """A task is a target column; a quarter of the columns are new tasks, on the other half of the rows."""
    from unlazy.data import real

    data = real.load(name)
    X = data.inputs[:, inputs]
    rows, columns = rng.permutation(len(X)), rng.permutation(data.targets.shape[1])
    half, quarter = len(rows) // 2, len(columns) // 4
    seen, unseen = rows[:half], rows[half:]
    size = min(half, 40)
    pretraining = [_sample(rng, X, data.targets[:, c], seen, size) for c in columns[quarter:]]
    most = min(len(unseen), context + NEW_ROWS)
    new = [_split(_sample(rng, X, data.targets[:, c], unseen, most), context) for c in columns[:quarter]]
    return Case(pretraining, new)


def _digits(rng: np.random.Generator, context: int) -> Case:
    """A task is a pixel of the lower half in images of one digit; a quarter of the pixels are new."""
    from unlazy.data import real

    data, digit = real.load("digits"), real.load("digit_classes").targets.argmax(axis=1)
    columns, rows = rng.permutation(data.targets.shape[1]), rng.permutation(len(digit))
    half = len(rows) // 2
    pretraining, new = [], []
    for column in columns.tolist():
        for kind in range(10):
            own = rows[:half] if column in columns[8:] else rows[half:]
            own = own[digit[own] == kind]
            if np.ptp(data.targets[own, column]) == 0:
                continue
            if column in columns[8:]:
                pretraining.append(_sample(rng, data.inputs, data.targets[:, column], own, 20))
            else:
                most = min(len(own), context + NEW_ROWS)
                new.append(_split(_sample(rng, data.inputs, data.targets[:, column], own, most), context))
    return Case(pretraining, new)


def _tiles(rng: np.random.Generator, context: int) -> Case:
    """A task is the relief of a square of 7 x 7 places, from the place in the square."""
    from unlazy.data import real

    data = real.load("jacksboro")
    place = data.inputs.astype(int)
    square = place // 7
    whole = [np.flatnonzero((square == corner).all(axis=1)) for corner in np.unique(square, axis=0)]
    whole = [whole[i] for i in rng.permutation(len(whole)) if len(whole[i]) == 49]
    X, y = (place % 7).astype(float), data.targets[:, 0]
    quarter = len(whole) // 4
    pretraining = [_sample(rng, X, y, rows, 49) for rows in whole[quarter:]]
    return Case(pretraining, [_split(_sample(rng, X, y, rows, 49), context) for rows in whole[:quarter]])


def _sample(rng: np.random.Generator, X: np.ndarray, y: np.ndarray, rows: np.ndarray, count: int) -> Task:
    chosen = rng.choice(rows, min(count, len(rows)), replace=False)
    return X[chosen], y[chosen]


def _ours(mode: str, context: int, known: dict[str, Any]) -> Callable[[list[Task]], Predictor]:
    from unlazy.estimators import InContextRegressor

    def pretrain(tasks: list[Task]) -> Predictor:
        if mode == "auto":
            # mode "auto" pretrains all three in the same way and takes the one with the least held-out error
            model = min(known.values(), key=lambda model: model.cv_mse_)
        else:
            model = known[mode] = InContextRegressor(mode, context=context).pretrain(tasks)
        return lambda X, y, places: model.fit(X, y).predict(places)

    return pretrain


def _meta_metric(tasks: list[Task]) -> Predictor:
    from unlazy.estimators import MetaMetricRegressor

    scaler = _scaler(tasks)
    model = MetaMetricRegressor().fit([(scaler.transform(X), y) for X, y in tasks])
    return lambda X, y, places: model.adapt(scaler.transform(X), y).predict(scaler.transform(places))


def _pooled(tasks: list[Task]) -> Predictor:
    scaler = _scaler(tasks)
    model = _ridge(scaler.transform(np.concatenate([X for X, _ in tasks])), np.concatenate([y for _, y in tasks]))
    return lambda X, y, places: model.predict(scaler.transform(places))


def _residual(tasks: list[Task]) -> Predictor:
    pooled = _pooled(tasks)

    def predict(X: np.ndarray, y: np.ndarray, places: np.ndarray) -> np.ndarray:
        rest = _ridge(X, y - pooled(X, y, X))
        return pooled(X, y, places) + rest.predict(places)

    return predict


def _mixed(tasks: list[Task]) -> Predictor:
    """Random intercepts and, with few features, random slopes; a new task's effects are their best prediction."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    scaler = _scaler(tasks)
    X = _with_constant(scaler.transform(np.concatenate([X for X, _ in tasks])))
    y = np.concatenate([y for _, y in tasks])
    groups = np.repeat(np.arange(len(tasks)), [len(target) for _, target in tasks])
    random = X.shape[1] if X.shape[1] - 1 <= MOST_SLOPES else 1
    try:
        fit = MixedLM(y, X, groups, exog_re=X[:, :random]).fit(reml=True)
    except (np.linalg.LinAlgError, ValueError):
        # collinear features
        return lambda rows, labels, places: np.full(len(places), np.nan)
    effects, spread, noise = np.asarray(fit.fe_params), np.asarray(fit.cov_re), float(fit.scale)

    def predict(rows: np.ndarray, labels: np.ndarray, places: np.ndarray) -> np.ndarray:
        rows, places = _with_constant(scaler.transform(rows)), _with_constant(scaler.transform(places))
        own = rows[:, :random]
        dual = np.linalg.solve(own @ spread @ own.T + noise * np.eye(len(rows)), labels - rows @ effects)
        return places @ effects + places[:, :random] @ (spread @ own.T @ dual)

    return predict


def _with_constant(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def _scaler(tasks: list[Task]) -> Any:
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit(np.concatenate([X for X, _ in tasks]))


def _ridge(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 25))).fit(X, y)


def _time_of_pretraining() -> list[Row]:
    from unlazy.estimators import InContextRegressor

    case = draw(np.random.default_rng(SEED), "rank 4", 30, 400, 15, 15)
    seconds: dict[str, list[float]] = {}
    for _ in range(2):
        for mode in MODES:
            model = InContextRegressor(mode)
            seconds.setdefault(mode, []).append(timed(lambda model=model: model.pretrain(case.tasks))[1])

        def answer(model: Any = model) -> None:
            for new in case.new:
                model.fit(new.X, new.y).predict(new.places)

        seconds.setdefault("context", []).append(timed(answer)[1] / len(case.new))
    rows = [Row(f"pretrain on 400 tasks of 15 rows, d = 30: {mode}", seconds[mode], "s") for mode in MODES]
    return [*rows, Row("fit and predict one new task", [1000 * t for t in seconds["context"]], "ms")]
