"""What more rows of a table would bring to ridge, kernels, random features and metric machines, from the rows at hand.

Nothing is trained at the larger sizes: `LearningCurve` reads the expected error off the kernel matrix of the rows.

What a forecast takes for granted, and where it ends:

- New rows come from where these came from, at random. Rows of a later time, another place or other customers are not
  forecast; nor are groups (several rows of one patient), repeated rows, or a series in time. Repeated rows and rows
  whose neighbours in the file have alike residuals are told in a note; groups are not recognised.
- Range. A kernel's eigenvalues below the penalty say what is still to be learned, and the rows at hand know only as
  many eigenvalues as there are rows. So what they tell has an end, at ten times the rows that were used or earlier.
  From there to ten times the rows of the table the interval is between no further gain and a gain with the last slope
  kept all the way, the error the geometric mean of the two: on logarithmic axes most learning curves flatten, and what
  steepens leaves it. "Doubtful" where the ends of an interval differ by more than a factor of 4, leverages are uneven
  or there are fewer than 20 rows; beyond ten times the table's rows "out of range". Forecasts of targets with little
  noise may be too high: for the digits from 143 rows by half at 2x and by a factor of 2.5 at 10x, because the theory
  falls too slowly there.
- Intervals are those of `LearningCurve`, which says how often they hold; choosing gamma and drawing features is not in
  them. A few rows with enormous errors that the table has not shown yet are in no interval.
- Intercept. Every learner has one that no penalty shrinks; leave-one-out estimates it from the other rows.
- Penalty. For kernels the largest one within 1% of the least leave-one-out error now, kept for all sizes. Choosing it
  anew for each size from the forecast itself was no better on two data sets, and had no reliable answer on two others:
  the least forecast lies at the end of the range. Tuned again by leave-one-out with ten times the rows, errors were 0
  to 10% lower, more where it had been set from fewer than 20 rows.
- Length scale. gamma is the best of 1/16, 1/4, 1, 4 and 16 over the number of columns by leave-one-out, from 50 rows
  on (fewer choose interpolation by chance: then 1/columns), and is kept too. More rows may allow a larger gamma.
- Random features: one draw of Fourier features of that kernel, twice as many until leave-one-out is within 5% of the
  kernel's (at most 3200, and 1000 if there are more than 1200 rows), and the same ones at all sizes. Drawn, because the
  theory of undrawn ones promised too much in few dimensions. Another draw has another error: for the digits with 1000
  features three others were 9 to 15% better than the one that is taken.
- Metric machine: `MetricMachineRegressor`, by the kernel of its best stage, cross-fitted (see `metric_machine`). Its
  metric is held fixed as a half of the rows taught it; low ends of intervals allow for a better one. It chooses its own
  penalty, and uses at most 600 rows. Left out, with a note, for fewer than 100 rows, more than 500 columns or several
  targets. From 200 rows of six drawn kinds, four of which had no say in any rule, 12 draws of each, forecasts were
  within a factor of 1.14, 1.16 and 1.19 of the machine trained on 1, 2 and 5 times the rows in half of the cases, and
  all intervals held it; their ends differed by a factor of 3.0, 5.2 and 9.7 (medians), so that most are doubtful. From
  100 rows, 23 of 26 intervals held one training on 3.5 to 10 times the rows for 15 columns of three real tables, with
  forecasts off by a factor of 1.7 (ridge and kernel ridge: 23 too, 1.2), and 7 of 11 for drawn tables with heavy tails
  or hundreds of columns (ridge and kernel ridge: 8 and 9). Where half of the rows teach too poor a metric, forecasts
  are too high, for the digits up to threefold. The same real tables, with 40 to 80 rows, were looked at when 100 rows
  and the slope of low ends were set. Choosing a method by these forecasts was no better than by its error
  now, with the machine among the methods or without.
- The check keeps the learner: penalty, gamma and the drawn features are those that the table got, in forecasts from
  parts and in training. They were set with the held-out rows among others, so that it does not show what setting them
  costs. A metric machine learns all anew from each part, and is trained whole: the check shows what that costs.
- Columns are encoded by `TableEncoder`, which sees the whole table; a target with outliers is scaled by its variance:
  where few rows carry the error the forecast says so, and nothing is trimmed. A target of two texts is 0 and 1, and
  works as least squares; the error is not the share of wrong answers.
- A column that determines the target is told in a note if a line does it (R2 above 0.9999 by that column alone).
- Many rows. Ridge uses all rows up to 20 million numbers. Kernels use 1200 rows at random; random features up to 1000
  features on 20,000 rows. Of a table with eight times as many rows, kernel ridge is trained on 2400 and 4800, the error
  on 3000 others is where the interval starts, and the slope between the two, with what chance adds and 0.15 more, the
  steepest that it allows. With pools of 120 rows and tables of 4000 of eight drawn kinds and two noises, the error of
  training on 3600 rows was inside 15 of 16 intervals without those 0.15, and with them inside 32 of 32 of other draws;
  errors were off by 8% (median), and the ends differed by a factor of 2.4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.curves import Curve
from unlazy.diagnostics.forecasting import pages
from unlazy.diagnostics.forecasting.request import SIZES, check_request
from unlazy.diagnostics.forecasting.words import MULTIPLES, sentence
from unlazy.diagnostics.pages import EXACT
from unlazy.diagnostics.table import LearningTable, learning_table, read_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from unlazy.diagnostics.forecasting.check import Checked
    from unlazy.diagnostics.forecasting.columns import WithoutColumns
    from unlazy.diagnostics.forecasting.method import Method

# of neighbouring residuals; also four standard deviations of chance
_ALIKE = 0.15
_ROWS_IN_ORDER = 20_000
# one column alone leaves less than this of the target's variance
_LEAK = 1e-4


@dataclass(frozen=True)
class MethodForecast:
    """Errors of one method with the numbers of rows asked for."""

    method: Method
    points: Curve
    """In units of the target's variance (its mean over several targets)."""
    reach: float
    """The largest multiple of the rows, at most 10, up to which the forecast is reliable; 0 if it is nowhere."""
    growth: Curve
    """With once, twice, five and ten times the rows at hand."""
    end: Curve | None
    """At the end of the reach, if no size that was asked for is in range."""

    @property
    def name(self) -> str:
        return self.method.name


@dataclass(frozen=True)
class Forecast:
    """Errors of several methods on a table, with the rows it has and with more."""

    table: LearningTable
    target_names: tuple[str, ...]
    n: np.ndarray
    methods: tuple[MethodForecast, ...]
    checked: tuple[Checked, ...] = ()
    without: WithoutColumns | None = None
    """What leaving out columns would do, if that was asked."""

    @property
    def rows(self) -> int:
        return len(self.table.inputs)

    @property
    def unit(self) -> float | None:
        """The standard deviation of the target, by which the root of an error becomes one in its own units."""
        return float(self.table.targets.std()) if len(self.target_names) == 1 else None

    def __getitem__(self, name: str) -> MethodForecast:
        for method in self.methods:
            if method.name == name:
                return method
        raise InputError(f"there is no method {name!r}; there are {', '.join(m.name for m in self.methods)}")

    @cached_property
    def noise_variance(self) -> float:
        """The least, over methods, of what is noise or out of reach with the rows at hand, of the target's variance."""
        return min(min(found.method.noise_variance, 1.0) for found in self.methods)

    def sentence(self) -> str:
        """Which method will do how well, whether rows or methods pay more, and how much is noise."""
        return sentence(self)

    def verdict(self) -> str:
        """What `check` found, empty without it."""
        from unlazy.diagnostics.forecasting.check import verdict

        return verdict(self.checked) if self.checked else ""

    def as_json(self) -> dict[str, Any]:
        return pages.as_json(self)

    def __str__(self) -> str:
        return pages.text(self)

    def figure(self) -> Figure:
        """All methods with their intervals; what was measured if the forecast was checked."""
        return pages.figure_of(self)


def forecast(
    table: str | os.PathLike | pd.DataFrame | tuple[Any, Any],
    target: str | Sequence[str] | None = None,
    *,
    kernel: str | Sequence[str] | None = None,
    n: str | Sequence[float] = SIZES,
    width: int | None = None,
    penalty: float | None = None,
    gamma: float | None = None,
    check: bool | int = False,
    columns: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Forecast:
    """Forecast the errors of ridge, kernel ridge, random features and metric machines with more rows of a table.

    `table` is a CSV, TSV or Parquet file or a DataFrame, of which `target` names one or more columns; or a pair (X, y),
    without `target`. Targets are scaled to variance 1, so that an error of 0.3 is 30% of what the mean leaves
    unexplained. `kernel` chooses among ridge, kernel-ridge (rbf), random-features, metric-machine, one-step and
    scikit-learn's kernels; what the rows do not allow is left out with a note. `n` are numbers of rows, or multiples
    like "2x" of the table's. The `width`, the number of random features, is chosen to be within 5% of the kernel,
    `penalty` (scikit-learn's alpha) and `gamma` by leave-one-out unless given; a metric machine chooses its own.
    `check` forecasts from parts of the table and trains on larger ones, as many times as it says (True: three).
    `columns` asks which of them would not be missed: the error without each, by ridge or kernel ridge. What to know
    before trusting it stands at the head of this module.
    """
    asked = check_request(table, target, penalty=penalty, gamma=gamma, width=width, n=n, check=check)
    # mistakes are told before the heavy imports
    from unlazy.diagnostics.forecasting.check import SPLITS, check_methods
    from unlazy.diagnostics.forecasting.columns import without_columns
    from unlazy.diagnostics.forecasting.methods import fit_methods, method_names, possible

    asked_methods = method_names(kernel)
    frame, names = _frame(table, target)
    prepared = learning_table(frame, names)
    wanted = np.unique(np.maximum(np.round([size.rows(len(prepared.inputs)) for size in asked]), 2))
    with np.errstate(over="ignore"):
        spread = prepared.targets.std(axis=0)
    if not (np.isfinite(spread).all() and (spread > 0).all()):
        raise InputError(f"target column {names[int(np.argmin(np.isfinite(spread)))]!r} has no finite variance")
    scaled = (prepared.targets - prepared.targets.mean(axis=0)) / spread / np.sqrt(len(names))
    chosen, refused = possible(asked_methods, prepared.inputs, scaled)
    if not chosen:
        raise InputError(refused[0])
    options: dict[str, Any] = {"penalty": penalty, "gamma": gamma, "width": width, "progress": progress}
    methods = [
        _answer(method, len(scaled), wanted) for method in fit_methods(chosen, prepared.inputs, scaled, **options)
    ]
    checked: tuple[Checked, ...] = ()
    if check:
        splits = SPLITS if check is True else check
        checked = check_methods([m.method for m in methods], prepared.inputs, scaled, splits=splits, progress=progress)
    notes = (*prepared.notes, *refused, *_leaks(prepared, scaled, names, methods), *_cautions(prepared, scaled))
    without = without_columns([m.method for m in methods], prepared, scaled) if columns else None
    return Forecast(prepared._replace(notes=notes), names, wanted, tuple(methods), checked, without)


def _frame(table: Any, target: str | Sequence[str] | None) -> tuple[pd.DataFrame, tuple[str, ...]]:
    import pandas as pd

    if isinstance(table, tuple):
        if len(table) != 2 or target is not None:
            raise InputError("table must be a file, a DataFrame with `target`, or a pair (X, y) without `target`")
        for name, part in zip(("X", "y"), table, strict=True):
            if np.ndim(part) not in (1, 2):
                raise InputError(f"{name} must have 1 or 2 dimensions, got shape {np.shape(part)}")
        inputs = table[0] if isinstance(table[0], pd.DataFrame) else pd.DataFrame(np.asarray(table[0]))
        outputs = pd.DataFrame(np.asarray(table[1]))
        if len(inputs) != len(outputs):
            raise InputError(f"X and y must have as many rows as each other, got {len(inputs)} and {len(outputs)}")
        if isinstance(table[0], pd.DataFrame):
            inputs = inputs.reset_index(drop=True)
        else:
            inputs.columns = [f"x{i}" for i in range(inputs.shape[1])]
        names = ("y",) if outputs.shape[1] == 1 else tuple(f"y{i}" for i in range(outputs.shape[1]))
        clash = [name for name in names if name in set(map(str, inputs.columns))]
        if clash:
            raise InputError(f"X must not have a column called {clash[0]!r}: pass one DataFrame and name the target")
        outputs.columns = list(names)
        table, target = pd.concat([inputs, outputs], axis=1), names
    if target is None:
        raise InputError("target must name at least one column")
    names = (target,) if isinstance(target, str) else tuple(target)
    if isinstance(table, pd.DataFrame):
        table = table.copy(deep=False)
        table.columns = [str(name) for name in table.columns]
        return table, names
    if not isinstance(table, str | os.PathLike):
        raise InputError(f"table must be a file, a DataFrame or a pair (X, y), got a {type(table).__name__}")
    return read_table(table), names


def _answer(method: Method, rows: int, sizes: np.ndarray) -> MethodForecast:
    points = method.at(sizes)
    reach = _reach(method, rows, points)
    growth, end = method.at(rows * np.array(MULTIPLES)), None
    if not points.in_range.any():
        end = method.at(np.array([round(reach * rows) or method.pool], dtype=float))
    return MethodForecast(method, points, reach, growth, end)


def _reach(method: Method, rows: int, points: Curve) -> float:
    """Up to which multiple of the rows the forecast is reliable, to 5%."""

    def reliable(n: float) -> bool:
        return bool(method.at(np.array([n])).reliable[0])

    farthest = MULTIPLES[-1]
    most = farthest * rows
    if points.reliable[points.n == most].any() or reliable(most):
        return farthest
    low, high = float(min(rows, method.pool)), float(most)
    if not reliable(low):
        return 0.0
    while high / low > 1.1:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if reliable(middle) else (low, middle)
    return low / rows


def _leaks(
    table: LearningTable, scaled: np.ndarray, names: Sequence[str], methods: Sequence[MethodForecast]
) -> list[str]:
    """Columns of which the target is a linear function, or that no error is left."""
    columns = table.inputs - table.inputs.mean(axis=0)
    energies = np.sum(columns**2, axis=0)
    notes = []
    for name, target in zip(names, scaled.T, strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = (columns.T @ target) ** 2 / (energies * np.sum(target**2))
        notes += [
            f"column {table.columns[i]!r} determines the target {name!r} (a line has R2 above {1 - _LEAK:g}): is it "
            "known beforehand?"
            for i in np.flatnonzero(shares > 1 - _LEAK)
        ]
    exact = [found.name for found in methods if (found.points.test_error[found.points.in_range] < EXACT).any()]
    if exact and not notes:
        notes.append(
            f"{exact[0]} leaves an error below {EXACT:g}: the inputs determine the target; are they known beforehand?"
        )
    return notes


def _cautions(table: LearningTable, scaled: np.ndarray) -> list[str]:
    """Signs that rows are not independent: repeats, and residuals alike in neighbouring rows."""
    import pandas as pd

    notes = []
    repeated = int(pd.DataFrame(np.column_stack([table.inputs, table.targets])).duplicated().sum())
    if repeated:
        notes.append(
            f"{repeated} of {len(scaled)} rows repeat another one: errors are forecast too low if new rows will not"
        )
    rows = min(len(scaled), _ROWS_IN_ORDER)
    inputs = np.column_stack([table.inputs[:rows], np.ones(rows)])
    if rows >= 4 * inputs.shape[1]:
        residuals = scaled[:rows] - inputs @ np.linalg.lstsq(inputs, scaled[:rows], rcond=None)[0]
        energy = np.sum(residuals**2)
        alike = float(np.sum(residuals[1:] * residuals[:-1]) / energy) if energy > 1e-20 else 0.0
        if alike > max(_ALIKE, 4 / np.sqrt(rows)):
            notes.append(
                f"neighbouring rows are alike (their residuals correlate by {alike:.2f}): this is a forecast for rows "
                "at random among these, not for later ones"
            )
    return notes
