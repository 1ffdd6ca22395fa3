"""The column that is to be predicted: numbers, or classes with their own values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.fitting.candidates import CLASSES, NUMBERS

if TYPE_CHECKING:
    import pandas as pd

# distinct whole numbers up to which a target is one of classes
_MOST_CLASSES = 10
# beyond it not every whole number has a float
_LARGEST_WHOLE = 2.0**53


def kind_of(column: pd.Series, name: str) -> str:
    """Numbers, or classes: texts, switches, and few different whole numbers."""
    from pandas.api import types

    column = _in_its_type(column)
    if types.is_bool_dtype(column) or isinstance(column.dtype, types.CategoricalDtype):
        return CLASSES
    if not types.is_numeric_dtype(column):
        numbers = _parsed(column)
        if 2 * len(numbers) > len(column) and not _are_few_and_whole(numbers):
            raise InputError(_mixed(column, name, numbers, "numbers or classes"))
        return CLASSES
    return CLASSES if _are_few_and_whole(column.to_numpy(np.float64)) else NUMBERS


def number_target(column: pd.Series, name: str) -> np.ndarray:
    """(rows,), finite."""
    try:
        numbers = _in_its_type(column).to_numpy(np.float64)
    except (TypeError, ValueError):
        raise InputError(_mixed(column, name, _parsed(column), "numbers")) from None
    if not np.isfinite(numbers).all():
        raise InputError(f"target column {name!r} must be finite, got {numbers[~np.isfinite(numbers)][0]:g}")
    return numbers


def class_target(column: pd.Series, name: str, gaps: bool, notes: list[str]) -> np.ndarray:
    """(rows,), of the column's own type where scikit-learn takes it for classes; `gaps`: rows without it were dropped.

    A column of whole numbers with gaps is read as one of floats: without the gaps it is of whole numbers again.
    """
    from pandas.api import types

    column = _in_its_type(column)
    if isinstance(column.dtype, types.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if types.is_bool_dtype(column):
        return column.to_numpy(bool)
    if types.is_integer_dtype(column):
        return column.to_numpy(getattr(column.dtype, "numpy_dtype", column.dtype))
    if types.is_float_dtype(column):
        numbers = column.to_numpy(np.float64)
        if np.all(numbers == np.round(numbers)) and np.abs(numbers).max(initial=0) < _LARGEST_WHOLE:
            return numbers.astype(np.int64) if gaps else numbers
    words = column.astype(str).to_numpy(dtype=str)
    if not all(isinstance(value, str) for value in column):
        notes.append(f"classes of {name!r} are neither whole numbers, switches nor text: they are predicted as text")
    return words


def _in_its_type(column: pd.Series) -> pd.Series:
    """Objects that are all numbers or all switches as such."""
    return column.infer_objects()


def _are_few_and_whole(numbers: np.ndarray) -> bool:
    distinct = np.unique(numbers)
    return bool(
        len(distinct) <= _MOST_CLASSES and np.isfinite(distinct).all() and np.all(distinct == np.round(distinct))
    )


def _parsed(column: pd.Series) -> np.ndarray:
    """The cells that can be read as numbers."""
    import pandas as pd

    return pd.to_numeric(column.astype(str), errors="coerce").dropna().to_numpy(np.float64)


def _mixed(column: Any, name: str, numbers: np.ndarray, wanted: str) -> str:
    import pandas as pd

    other = column[pd.to_numeric(column.astype(str), errors="coerce").isna()]
    if not len(other):
        return f"target column {name!r} must hold {wanted}, got numbers as text such as {column.iloc[0]!r:.40}"
    texts = f"{len(other)} text{'s' if len(other) > 1 else ''} such as {str(other.iloc[0])!r:.40}"
    among = f" among {len(numbers)} numbers" if len(numbers) else ": say kind classes"
    return f"target column {name!r} must hold {wanted}, got {texts}{among}"
