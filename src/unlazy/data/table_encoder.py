"""Tables as they are, with text, dates and gaps, as columns of numbers."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unlazy.checks import InputError, check_choice, check_whole

if TYPE_CHECKING:
    import pandas as pd

MISSING = "(missing)"
_CLIP = 3.0
# of a normal distribution, the distance of its quartiles in deviations
_QUARTILES = 1.349
_LARGEST = 1e100
# beyond so many different texts, and as many as half of the rows, a column names its rows
_MOST_TEXTS = 50
_MOST_LEVELS = 100
_DATE = r"\s*\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?\s*"
_DAY = 86_400.0
_CYCLES = {"year": 365.2425, "week": 7.0}
_EMPTY, _CONSTANT = "it has no values", "it is constant"
_NAMES, _RARE = "it has another text in most rows", "its levels are rare"
_PLURALS = {
    _EMPTY: "have no values",
    _CONSTANT: "are constant",
    _NAMES: "hold a different text in most rows",
    _RARE: "have rare levels only",
}


class _NumberColumn(NamedTuple):
    """A column of numbers, or of dates in days."""

    name: Any
    place: int
    """Of the column in X."""
    dates: bool
    center: float
    spread: float
    gaps: bool
    cycles: tuple[str, ...]
    """Of which dates have the time: sine and cosine."""

    def names(self) -> list[str]:
        turns = [
            f"{turn} of the time of the {cycle} of {self.name}" for cycle in self.cycles for turn in ("sine", "cosine")
        ]
        return [str(self.name), *turns, *([f"{self.name} is missing"] if self.gaps else [])]


class _LevelColumn(NamedTuple):
    """A column of text, and its levels that are common enough."""

    name: Any
    place: int
    levels: tuple[str, ...]

    def names(self) -> list[str]:
        return [f"{self.name} = {level}" for level in self.levels]


class TableEncoder(TransformerMixin, BaseEstimator):
    """Columns of numbers of a table as it is: a DataFrame with numbers, switches, dates, text and gaps, or an array.

    - Numbers, switches (0 and 1) and dates (days) are centred and scaled. Gaps and infinite values become the centre,
      0, and a column that has some in `fit` gets a second one that marks them. Dates, also as text like 2024-01-31,
      have sine and cosine of the time of the year and of the week too, where they span two of them.
    - Text and categories become a column of 0 and 1 for each level of at least `least_count` rows, at most the 100 most
      common ones; a gap is a level; of two levels one has a column. Rarer levels, and levels that `fit` has not seen,
      are 0 in all of them.
    - Columns without values, with one value only, or with another text in most rows are left out (`left_out_`).
    - Rows in `transform` are found by the names of their columns, in any order, with further columns or without.

    Parameters
    ----------
    scaling : "standard", "quartiles" or "robust"
        Centre and unit are mean and deviation; or median and quartiles; or these with a smooth bound at three
        deviations, so that no row is far away (`bound`).
    least_count : int
        Rows that a level needs for a column of its own.

    Attributes
    ----------
    sources_ : (columns out,), the index of the column in X that each comes from
    left_out_ : dict from names of columns to why they are left out
    """

    def __init__(self, scaling: str = "standard", *, least_count: int = 3):
        self.scaling = scaling
        self.least_count = least_count

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn levels, centres and scales."""
        check_choice("scaling", self.scaling, ("standard", "quartiles", "robust"))
        check_whole("least_count", self.least_count, 1)
        frame = self._frame(X, reset=True)
        found: list[_NumberColumn | _LevelColumn] = []
        sources: list[int] = []
        self.left_out_: dict[Any, str] = {}
        self._infinite: list[Any] = []
        for place, name in enumerate(frame.columns):
            column = frame.iloc[:, place]
            for known in self._learned(name, place, column):
                found.append(known)
                sources += [place] * len(known.names())
        if not found:
            raise InputError(f"X must have a column with different values, got {frame.shape[1]} without")
        self._columns, self.sources_ = tuple(found), np.array(sources)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(n, columns out)"""
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        parts: list[np.ndarray] = []
        for known in self._columns:
            column = frame.iloc[:, known.place]
            parts.append(_one_hot(known, column) if isinstance(known, _LevelColumn) else self._numbers(known, column))
        rows = np.concatenate(parts, axis=1)
        return self.bound(rows) if self.scaling == "robust" else rows

    def bound(self, rows: np.ndarray) -> np.ndarray:
        """Encoded rows with numbers and dates x as 3 tanh(x/3)."""
        check_is_fitted(self)
        # the first column of each that is no text
        starts = np.cumsum([0, *(len(known.names()) for known in self._columns)])[:-1]
        numbers = [
            start for start, known in zip(starts, self._columns, strict=True) if isinstance(known, _NumberColumn)
        ]
        bounded = np.array(rows, dtype=np.float64)
        bounded[:, numbers] = _CLIP * np.tanh(bounded[:, numbers] / _CLIP)
        return bounded

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns out: 'age', 'age is missing', 'city = Rome'."""
        check_is_fitted(self)
        return np.array([name for known in self._columns for name in known.names()], dtype=object)

    def notes(self) -> list[str]:
        """What was left out, filled or encoded, in sentences."""
        check_is_fitted(self)
        numbers = [known for known in self._columns if isinstance(known, _NumberColumn)]
        center = "mean" if self.scaling == "standard" else "median"
        lists: dict[str, list[Any]] = {"infinite values count as gaps": self._infinite}
        for reason, plural in _PLURALS.items():
            lists[f"columns that {plural} are left out"] = [
                name for name, why in self.left_out_.items() if why == reason
            ]
        lists[f"gaps are filled with the {center} and marked"] = [known.name for known in numbers if known.gaps]
        lists["dates are taken as days"] = [known.name for known in numbers if known.dates]
        lists["one column per value"] = [known.name for known in self._columns if isinstance(known, _LevelColumn)]
        return [f"{what}: {', '.join(map(str, names))}" for what, names in lists.items() if names]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _frame(self, X: Any, reset: bool) -> pd.DataFrame:
        import pandas as pd

        if isinstance(X, pd.DataFrame):
            if not reset and hasattr(self, "feature_names_in_"):
                missing = [name for name in self.feature_names_in_ if name not in X.columns]
                if missing:
                    raise InputError(f"X must have the columns that fit has seen, got none called {missing[0]!r}")
                X = X[list(self.feature_names_in_)]
            repeated = [name for name, count in Counter(X.columns).items() if count > 1]
            if repeated:
                raise InputError(f"column names of X must differ, got {repeated[0]!r} more than once")
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X):
                raise InputError("X must have at least one row, got none")
            return X
        array = validate_data(
            self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=1 if not reset else 2
        )
        if array.dtype.kind == "c":
            raise InputError("X must be real, got complex numbers")
        names = getattr(self, "feature_names_in_", range(array.shape[1]))
        return pd.DataFrame(array, columns=list(names)).infer_objects()

    def _learned(self, name: Any, place: int, column: pd.Series) -> list[_NumberColumn | _LevelColumn]:
        from pandas.api import types

        column = _in_its_type(name, column)
        dates = types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column)
        if types.is_numeric_dtype(column) or types.is_bool_dtype(column) or dates:
            values = _values(name, column, dates)
            known = np.isfinite(values)
            if not dates and np.isinf(_floats(name, column)).any():
                self._infinite.append(name)
            if not known.any():
                return self._leave_out(name, _EMPTY)
            span = float(np.ptp(values[known]))
            if span == 0 and known.all():
                return self._leave_out(name, _CONSTANT)
            times = types.is_datetime64_any_dtype(column)
            cycles = tuple(cycle for cycle, days in _CYCLES.items() if times and span >= 2 * days)
            return [_NumberColumn(name, place, dates, *self._scales(values[known]), not known.all(), cycles)]
        words = _words(column)
        levels, counts = np.unique(words, return_counts=True)
        if set(levels) == {MISSING}:
            return self._leave_out(name, _EMPTY)
        if len(levels) == 1:
            return self._leave_out(name, _CONSTANT)
        if len(levels) > max(_MOST_TEXTS, len(words) // 2) or len(levels) == len(words):
            return self._leave_out(name, _NAMES)
        least = max(self.least_count, np.sort(counts)[-_MOST_LEVELS:][0])
        kept = tuple(levels[counts >= least][:_MOST_LEVELS].tolist())
        # of two levels one column says all
        kept = kept[1:] if len(kept) == len(levels) == 2 else kept
        return [_LevelColumn(name, place, kept)] if kept else self._leave_out(name, _RARE)

    def _leave_out(self, name: Any, why: str) -> list[_NumberColumn | _LevelColumn]:
        self.left_out_[name] = why
        return []

    def _scales(self, values: np.ndarray) -> tuple[float, float]:
        deviation = float(values.std())
        if self.scaling == "standard":
            return float(values.mean()), deviation or 1.0
        low, center, high = np.percentile(values, (25, 50, 75))
        return float(center), float(high - low) / _QUARTILES or deviation or 1.0

    def _numbers(self, known: _NumberColumn, column: pd.Series) -> np.ndarray:
        values = _values(known.name, column, known.dates)
        gaps = ~np.isfinite(values)
        scaled = (np.where(gaps, known.center, values) - known.center) / known.spread
        parts = [scaled]
        for cycle in known.cycles:
            angle = 2 * np.pi * np.where(gaps, 0.0, values) / _CYCLES[cycle]
            parts += [np.where(gaps, 0.0, turn(angle)) for turn in (np.sin, np.cos)]
        return np.column_stack([*parts, gaps] if known.gaps else parts).astype(np.float64)


def _in_its_type(name: Any, column: pd.Series) -> pd.Series:
    """Objects that are all numbers or all dates as such, and text that is all dates."""
    import pandas as pd
    from pandas.api import types

    if types.is_object_dtype(column):
        known = column[column.notna()]
        kinds = set(map(type, known))
        wrong = next((kind for kind in kinds if issubclass(kind, list | dict | set | tuple | np.ndarray)), None)
        if wrong is not None:
            raise InputError(f"column {name!r} must hold numbers or text, got a {wrong.__name__} in a cell")
        if kinds and all(issubclass(kind, Real | Decimal | np.bool_) for kind in kinds):
            return column.where(column.notna(), np.nan).astype(np.float64)
        if kinds and all(issubclass(kind, datetime.date) for kind in kinds):
            return pd.to_datetime(column, utc=True)
    if types.is_object_dtype(column) or types.is_string_dtype(column):
        known = column[column.notna()]
        if len(known) and known.astype(str).str.fullmatch(_DATE).all():
            try:
                return pd.to_datetime(column, utc=True, format="ISO8601")
            except ValueError:
                # the thirtieth of February and the like
                return column
    return column


def _values(name: Any, column: pd.Series, dates: bool) -> np.ndarray:
    """Numbers, days for dates; gaps and infinite values are NaN."""
    import pandas as pd

    if dates:
        if pd.api.types.is_timedelta64_dtype(column):
            return (column.dt.total_seconds() / _DAY).to_numpy(np.float64)
        try:
            stamps = pd.to_datetime(column, utc=True)
        except (TypeError, ValueError):
            raise InputError(f"column {name!r} must hold dates as in fit, got {column.iloc[0]!r:.40}") from None
        days = (stamps - pd.Timestamp(0, tz="UTC")).dt.total_seconds() / _DAY
        return days.to_numpy(np.float64)
    values = _floats(name, column)
    values = np.where(np.isinf(values), np.nan, values)
    largest = np.nanmax(np.abs(values), initial=0.0)
    if largest > _LARGEST:
        raise InputError(f"column {name!r} must be between -{_LARGEST:g} and {_LARGEST:g}, got {largest:g}")
    return values


def _floats(name: Any, column: pd.Series) -> np.ndarray:
    try:
        return _in_its_type(name, column).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise InputError(f"column {name!r} must hold numbers as in fit, got {column.iloc[0]!r:.40}") from None


def _one_hot(known: _LevelColumn, column: pd.Series) -> np.ndarray:
    import pandas as pd

    codes = pd.Index(known.levels, dtype=object).get_indexer(_words(column))
    return (codes[:, None] == np.arange(len(known.levels))).astype(np.float64)


def _words(column: pd.Series) -> np.ndarray:
    return column.astype(object).where(column.notna(), MISSING).astype(str).to_numpy(dtype=object)
