"""Tables as they are, with text, dates and gaps, as columns of numbers."""

from __future__ import annotations

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
_MOST_LEVELS = 50
_DAY = 86_400.0
_CYCLES = {"year": 365.2425, "week": 7.0}


class _NumberColumn(NamedTuple):
    """A column of numbers, or of dates in days."""

    name: Any
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
    levels: tuple[str, ...]

    def names(self) -> list[str]:
        return [f"{self.name} = {level}" for level in self.levels]


class TableEncoder(TransformerMixin, BaseEstimator):
    """Columns of numbers of a table as it is: a DataFrame with numbers, switches, dates, text and gaps, or an array.

    - Numbers, switches (0 and 1) and dates (days) are centred and scaled. Gaps and infinite values are filled with the
      median, and a column that has some gets a second one that marks them. Dates also have sine and cosine of the time
      of the year and of the week, where they span two of them.
    - Text and categories become a column of 0 and 1 for each level of at least `least_count` rows; a gap is a level.
      Rarer levels, and levels that `fit` has not seen, are 0 in all of them.
    - Columns without values, with one value only, or with another text in most rows are left out (`left_out_`).

    Parameters
    ----------
    scaling : "standard" or "robust"
        Mean and deviation; or median and quartiles, and a smooth bound at three deviations, so that no row is far away.
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
        check_choice("scaling", self.scaling, ("standard", "robust"))
        check_whole("least_count", self.least_count, 1)
        frame = self._frame(X, reset=True)
        found: list[_NumberColumn | _LevelColumn] = []
        sources: list[int] = []
        self.left_out_: dict[Any, str] = {}
        for place, name in enumerate(frame.columns):
            column = frame.iloc[:, place]
            for known in self._learned(name, column):
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
        places = {name: place for place, name in enumerate(frame.columns)}
        parts: list[np.ndarray] = []
        for known in self._columns:
            column = frame.iloc[:, places[known.name]]
            if isinstance(known, _LevelColumn):
                parts.append((_words(column)[:, None] == np.array(known.levels, dtype=object)).astype(np.float64))
            else:
                parts.append(self._numbers(known, column))
        return np.concatenate(parts, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns out: 'age', 'age is missing', 'city = Rome'."""
        check_is_fitted(self)
        return np.array([name for known in self._columns for name in known.names()], dtype=object)

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

    def _learned(self, name: Any, column: pd.Series) -> list[_NumberColumn | _LevelColumn]:
        from pandas.api import types

        if types.is_numeric_dtype(column) or types.is_bool_dtype(column) or types.is_datetime64_any_dtype(column):
            dates = types.is_datetime64_any_dtype(column)
            values = _values(name, column, dates)
            known = np.isfinite(values)
            if not known.any():
                return self._leave_out(name, "it has no values")
            if np.ptp(values[known]) == 0 and known.all():
                return self._leave_out(name, "it is constant")
            span = float(np.ptp(values[known]))
            cycles = tuple(cycle for cycle, days in _CYCLES.items() if dates and span >= 2 * days)
            return [_NumberColumn(name, dates, *self._scales(values[known]), not known.all(), cycles)]
        words = _words(column)
        levels, counts = np.unique(words, return_counts=True)
        if set(levels) == {MISSING}:
            return self._leave_out(name, "it has no values")
        if len(levels) == 1:
            return self._leave_out(name, "it is constant")
        if len(levels) > max(_MOST_LEVELS, len(words) // 2) or len(levels) == len(words):
            return self._leave_out(name, "it has another text in most rows")
        kept = tuple(levels[counts >= self.least_count].tolist())
        # of two levels one column says all
        kept = kept[1:] if len(kept) == len(levels) == 2 else kept
        return [_LevelColumn(name, kept)] if kept else self._leave_out(name, "its levels are rare")

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
        if self.scaling == "robust":
            scaled = _CLIP * np.tanh(scaled / _CLIP)
        parts = [scaled]
        for cycle in known.cycles:
            angle = 2 * np.pi * np.where(gaps, 0.0, values) / _CYCLES[cycle]
            parts += [np.where(gaps, 0.0, turn(angle)) for turn in (np.sin, np.cos)]
        return np.column_stack([*parts, gaps] if known.gaps else parts).astype(np.float64)


def _values(name: Any, column: pd.Series, dates: bool) -> np.ndarray:
    """Numbers, days for dates; gaps and infinite values are NaN."""
    import pandas as pd

    if dates:
        stamps = pd.to_datetime(column, utc=True)
        days = (stamps - pd.Timestamp(0, tz="UTC")).dt.total_seconds() / _DAY
        return days.to_numpy(np.float64)
    try:
        values = column.astype("Float64").to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise InputError(f"column {name!r} must hold numbers as in fit, got {column.iloc[0]!r:.40}") from None
    values = np.where(np.isinf(values), np.nan, values)
    largest = np.nanmax(np.abs(values), initial=0.0)
    if largest > _LARGEST:
        raise InputError(f"column {name!r} must be between -{_LARGEST:g} and {_LARGEST:g}, got {largest:g}")
    return values


def _words(column: pd.Series) -> np.ndarray:
    return column.astype(object).where(column.notna(), MISSING).astype(str).to_numpy(dtype=object)
