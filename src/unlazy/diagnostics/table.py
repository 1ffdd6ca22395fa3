"""Tables of a user's own: CSV and Parquet files, with categorical columns and missing values, as arrays."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.errors import InputError, suggest

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_FEWEST_ROWS = 10
_MOST_CATEGORIES = 50


class Table(NamedTuple):
    """Numbers ready for a learner, and what was done to get them."""

    inputs: np.ndarray
    """Shape (rows, columns): numeric columns standardised, categories one-hot, gaps filled and marked."""
    targets: np.ndarray
    """Shape (rows, number of targets), in their own units."""
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    """What was left out or filled, in sentences."""


def read_table(path: str | os.PathLike) -> pd.DataFrame:
    """Read a table with one row of column names; the file's ending names the format."""
    import pandas as pd

    file = Path(path)
    ending = next((e for e in sorted(ENDINGS, key=len, reverse=True) if file.name.lower().endswith(e)), None)
    if ending is None:
        raise InputError(f"data file must end in one of {', '.join(ENDINGS)}; got {file.name!r}")
    if not file.is_file():
        near = suggest(file.name, (f.name for f in file.parent.glob("*"))) if file.parent.is_dir() else ""
        raise InputError(f"data file {file} does not exist{near}")
    try:
        if ending == ".parquet":
            frame = pd.read_parquet(file)
        else:
            separator = "\t" if "tsv" in ending else ","
            header = pd.read_csv(file, sep=separator, header=None, nrows=1, dtype=str)
            _refuse_repeated(header.iloc[0].tolist())
            frame = pd.read_csv(file, sep=separator)
    except ImportError:
        raise InputError(f"data file {file} is Parquet, which needs pyarrow: pip install 'unlazy[parquet]'") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"data file {file} is empty") from None
    except (pd.errors.ParserError, UnicodeDecodeError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"data file {file} cannot be read: {str(error).splitlines()[0]}") from None
    frame.columns = [str(name) for name in frame.columns]
    _refuse_repeated(list(frame.columns))
    return frame


def prepare(frame: pd.DataFrame, target: str | Sequence[str]) -> Table:
    """Split a table into inputs and targets and make numbers of both.

    Numeric columns are standardised, their gaps filled with the median and marked by a column of their own; text,
    categories and switches become one column per value (gaps are a value). Columns that are empty, constant or have a
    different text in most rows say nothing and are left out. Rows without a target are left out.
    """
    names = [target] if isinstance(target, str) else list(target)
    if not names:
        raise InputError("target must name at least one column")
    _refuse_repeated(names)
    for name in names:
        if name not in frame.columns:
            listed = ", ".join(map(str, list(frame.columns)[:12])) + (", ..." if frame.shape[1] > 12 else "")
            raise InputError(f"there is no column {name!r}{suggest(name, frame.columns)}; there are {listed}")
    notes = []
    known = frame[names].notna().all(axis=1)
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without a target are left out")
        frame = frame[known]
    targets = np.column_stack([_target(frame[name], name) for name in names]) if len(frame) else np.empty((0, 1))
    if len(frame) < _FEWEST_ROWS:
        raise InputError(f"the table must have at least {_FEWEST_ROWS} rows with a target, got {len(frame)}")
    for name, values in zip(names, targets.T, strict=True):
        if np.ptp(values) == 0:
            raise InputError(f"target column {name!r} is constant: {values[0]:g} in every row")
    inputs, columns = _inputs(frame.drop(columns=names), notes)
    return Table(inputs, targets, tuple(columns), tuple(notes))


def _inputs(frame: pd.DataFrame, notes: list[str]) -> tuple[np.ndarray, list[str]]:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric: list[str] = []
    categorical: list[str] = []
    left_out: dict[str, list[str]] = {}
    for name in frame.columns:
        column = frame[name]
        distinct = column.nunique(dropna=True)
        if distinct == 0:
            left_out.setdefault("have no values", []).append(name)
        elif distinct == 1 and column.notna().all():
            left_out.setdefault("are constant", []).append(name)
        elif _is_number(column):
            numeric.append(name)
        elif distinct > max(_MOST_CATEGORIES, len(frame) // 2) or distinct == len(frame):
            left_out.setdefault("hold a different text in most rows", []).append(name)
        else:
            categorical.append(name)
    for reason, names in left_out.items():
        notes.append(f"columns that {reason} are left out: {', '.join(names)}")
    if not numeric and not categorical:
        raise InputError("the table has no column to learn from besides the target")
    gaps = [name for name in numeric if frame[name].isna().any()]
    if gaps:
        notes.append(f"gaps are filled with the median and marked: {', '.join(gaps)}")
    if categorical:
        notes.append(f"one column per value: {', '.join(categorical)}")
    frame = frame.copy()
    for name in numeric:
        frame[name] = frame[name].astype(float).replace([np.inf, -np.inf], np.nan)
    for name in categorical:
        frame[name] = frame[name].astype(object).where(frame[name].notna(), "(missing)").astype(str)
    encoder = ColumnTransformer(
        [
            ("numeric", make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), numeric),
            ("categorical", OneHotEncoder(sparse_output=False), categorical),
        ],
        verbose_feature_names_out=False,
    )
    return np.asarray(encoder.fit_transform(frame), dtype=np.float64), list(encoder.get_feature_names_out())


def _target(column: pd.Series, name: str) -> np.ndarray:
    if not _is_number(column):
        example = column.iloc[0]
        raise InputError(f"target column {name!r} must hold numbers for regression, got {example!r}")
    values = column.astype(float).to_numpy()
    if not np.isfinite(values).all():
        raise InputError(f"target column {name!r} must be finite, got {values[~np.isfinite(values)][0]:g}")
    return values


def _is_number(column: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column))


def _refuse_repeated(names: Sequence[Any]) -> None:
    repeated = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if repeated:
        raise InputError(f"column names must differ, got {repeated[0]!r} more than once")
