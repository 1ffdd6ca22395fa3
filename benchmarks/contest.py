"""Contestants on the same rows: fits in turns, errors and seconds, ratios to all others, and tables in plain text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Row, against_all

BAYES = "Bayes"
"""Who knows the law that data are drawn from: stands in tables of errors, and is nobody's rival."""


class Fit(NamedTuple):
    """What one contestant did on one data set; `errors` is a number, or one of each test row."""

    errors: Any
    wall: float = np.nan
    cpu: float = np.nan


class Comparison(NamedTuple):
    """All contestants on the data sets of one case, a list for each, in the order of the data sets."""

    label: str
    sizes: tuple[int, ...]
    """Rows, columns, and what else the benchmark's tables name."""
    fits: dict[str, list[Fit]]

    @property
    def names(self) -> list[str]:
        return [name for name in self.fits if name != BAYES]

    def errors(self, name: str) -> np.ndarray:
        return np.array([np.mean(fit.errors) for fit in self.fits[name]])

    def mean(self, name: str) -> float:
        return float(self.errors(name).mean())

    def seconds(self, name: str, clock: str) -> float:
        return float(np.median([getattr(fit, clock) for fit in self.fits[name]]))

    def best(self, names: Sequence[str]) -> str:
        """The one of least error; one that failed has none."""
        return min(names, key=lambda name: np.nan_to_num(self.mean(name), nan=np.inf))

    def race(self, models: Mapping[str, Any], x: Any, y: Any, judge: Callable[[Any], Any]) -> None:
        """Fit all to one data set, and keep what `judge` says of each."""
        for name, model in models.items():
            wall, cpu = timed(lambda model=model: model.fit(x, y))
            self.fits.setdefault(name, []).append(Fit(judge(model), wall, cpu))


def compare(
    models: Callable[[int], Mapping[str, Any]],
    label: str,
    x: np.ndarray,
    y: np.ndarray,
    x_test: np.ndarray,
    target: np.ndarray,
) -> Comparison:
    """The contestants for so many columns on one data set, by squared errors over the variance of the targets."""
    found = Comparison(label, x.shape, {})
    found.race(models(x.shape[1]), x, y, lambda model: (model.predict(x_test) - target) ** 2 / np.var(target))
    return found


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the clock and of the processor."""
    begin = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def tuned(*steps: Any, cv: Any = None, **grid: Any) -> Any:
    """A regressor on standardised inputs and targets, searched over a grid if there is one."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), *steps)
    searched = GridSearchCV(pipeline, grid, cv=cv, scoring="neg_mean_squared_error") if grid else pipeline
    return TransformedTargetRegressor(searched, transformer=StandardScaler())


class RealSet(NamedTuple):
    """One target of a real data set, split at random."""

    label: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    target: np.ndarray


def real_sets(
    sets: Sequence[tuple[str, int, int]], seed: int, missing: list[str], most: int, *, first: int = 0
) -> Iterator[RealSet]:
    """Sets by name, column of the targets and training rows; those whose package is not installed go to `missing`."""
    for index, (name, column, n) in enumerate(sets):
        data = loaded(name, missing)
        if data is not None:
            order = np.random.default_rng([seed, first + index, 0]).permutation(len(data.inputs))
            train, test, y = order[:n], order[n : n + most], data.targets[:, column]
            label = f"{name}: {data.target_names[column]}"
            yield RealSet(label, data.inputs[train], y[train], data.inputs[test], y[test])


def loaded(name: str, missing: list[str]) -> Any:
    """A real data set; None, and a sentence in `missing`, if its package is not installed."""
    from unlazy.checks import InputError
    from unlazy.data import real

    try:
        return real.load(name)
    except InputError as error:
        missing.append(f"left out {name}: {error}")
        return None


def against_others(
    what: str, compared: Sequence[Comparison], ours: str, left_out: Sequence[str] = (), *, clock: str = "cpu"
) -> list[Row]:
    """Ratios of errors and times in each case; `left_out` are other ways of unlazy, the clock is cpu or wall."""
    if not compared:
        return []
    names = [name for name in compared[0].names if name not in left_out]
    errors = {name: [one.mean(name) for one in compared] for name in names}
    seconds = {name: [one.seconds(name, clock) for one in compared] for name in names}
    return against_all(what, ours, errors, seconds)


def errors_table(
    compared: Sequence[Comparison],
    *ours: str,
    heads: Sequence[str] = ("n", "d"),
    left_out: Sequence[str] = (),
) -> str:
    """Mean errors, with standard errors of several data sets, and the best of ours over the best of the others."""
    if not compared:
        return ": none"
    names = list(dict.fromkeys(name for one in compared for name in one.names))
    bayes = [BAYES] if any(BAYES in one.fits for one in compared) else []
    lines = [("data", *heads, *names, *bayes, "ours / best other", "")]
    for one in compared:
        best = one.best(ours)
        other = one.best([name for name in one.names if name not in (*ours, *left_out)])
        ratio = np.log(one.errors(best) / one.errors(other))
        typical = float(np.exp(ratio.mean()))
        spread = f" (x/ {np.exp(_standard_error(ratio)):.2f})" if len(ratio) > 1 else ""
        verdict = "win" if typical < 0.95 else "loss" if typical > 1.05 else "tie"
        cells = [_mean_and_error(one.errors(name)) if name in one.fits else "" for name in (*names, *bayes)]
        lines.append((one.label, *map(str, one.sizes), *cells, f"{typical:.2f}{spread} {best} / {other}", verdict))
    return text_table(lines)


def times_table(compared: Sequence[Comparison], heads: Sequence[str] = ("n", "d")) -> str:
    """Median seconds of one fit, wall / CPU."""
    if not compared:
        return ": none"
    names = compared[0].names
    lines = [("data", *heads, *names)]
    for one in compared:
        seconds = (f"{one.seconds(name, 'wall'):.2f} / {one.seconds(name, 'cpu'):.2f}" for name in names)
        lines.append((one.label, *map(str, one.sizes), *seconds))
    return text_table(lines)


def text_table(lines: Sequence[tuple[str, ...]]) -> str:
    """Lines of left-aligned columns under a head and a rule, to follow a sentence."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = tuple("-" * width for width in widths)
    return "".join(
        "\n  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (lines[0], rule, *lines[1:])
    )


def _mean_and_error(errors: np.ndarray) -> str:
    mean = f"{errors.mean():.4f}".replace("nan", "failed")
    return mean if len(errors) == 1 else f"{mean} ({_standard_error(errors):.4f})"


def _standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
