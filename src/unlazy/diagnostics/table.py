"""Tables of a user's own: CSV and Parquet files, with categorical columns and missing values, as arrays."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, suggest
from unlazy.words import first_of

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_FEWEST_ROWS = 10
_MOST_CATEGORIES = 50
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_LINES_TO_GUESS = 20
_LARGEST = 1e100
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_LONGEST_LINE = 100_000_000
# difflib's likeness of file names without their endings
_ALIKE = 0.7
_DECIMAL_COMMA = r"\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*"
# distinct whole numbers up to which a target may be one of classes
_MOST_CLASSES = 20


class PreparedTable(NamedTuple):
    """Numbers ready for a learner, and what was done to get them."""

    inputs: np.ndarray
    """Shape (rows, columns): numeric columns standardised, categories one-hot, gaps filled and marked."""
    targets: np.ndarray
    """Shape (rows, number of targets), in their own units."""
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    """What was left out or filled, in sentences."""


def read_table(path: str | os.PathLike) -> pd.DataFrame:
    """Read a table with one row of column names; the file's ending names the format.

    Text may be separated by commas, semicolons, tabs or bars, be UTF-8 or else Latin-1, and, where commas do not
    separate, have decimal commas. `attrs["notes"]` tells what was not usual.
    """
    file, ending = find_table(path)
    names = read_names(file, ending)
    import pandas as pd

    notes: list[str] = []
    try:
        frame = pd.read_parquet(file) if names is None else _read_text(file, ending, notes)
    except ImportError:
        raise InputError(f"data file {file} is Parquet, which needs pyarrow: pip install 'unlazy[parquet]'") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"data file {file} is empty") from None
    except (pd.errors.ParserError, UnicodeDecodeError, OSError, EOFError, ValueError) as error:
        raise InputError(f"data file {file} cannot be read: {str(error).splitlines()[0]}") from None
    frame.columns = [str(name) for name in frame.columns]
    check_names(list(frame.columns))
    frame.attrs["notes"] = notes
    return frame


def find_table(path: str | os.PathLike) -> tuple[Path, str]:
    """A file that exists, and its ending."""
    file = Path(path)
    if _has_controls(str(file)):
        raise InputError(f"data file must have a name without control characters, got {str(file)!r}")
    ending = next((e for e in sorted(ENDINGS, key=len, reverse=True) if file.name.lower().endswith(e)), None)
    if ending is None:
        raise InputError(f"data file must end in one of {', '.join(ENDINGS)}; got {file.name!r}")
    if not file.is_file():
        raise InputError(f"data file {file} does not exist{_nearest_file(file)}")
    return file, ending


def read_names(file: Path, ending: str) -> list[str] | None:
    """The column names of a text file, from its first lines; None for Parquet, which needs pandas."""
    if ending == ".parquet":
        return None
    lines, _ = _first_lines(file, ending)
    try:
        names = next((row for row in csv.reader(lines, delimiter=_separator(lines, ending)) if row), None)
    except csv.Error as error:
        raise InputError(f"data file {file} cannot be read: {error}") from None
    if names is None:
        raise InputError(f"data file {file} is empty")
    # as pandas calls them
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    check_names(names)
    return names


def _nearest_file(file: Path) -> str:
    """Endings are left out, which make all names alike."""
    if not file.parent.is_dir():
        return ""
    names = [f.name for f in file.parent.iterdir() if f.name.lower().endswith(ENDINGS)]
    stems = {name.split(".")[0]: name for name in names if not _has_controls(name)}
    near = difflib.get_close_matches(file.name.split(".")[0], stems, n=2, cutoff=_ALIKE)
    return f" (did you mean {' or '.join(stems[stem] for stem in near)}?)" if near else ""


def _first_lines(file: Path, ending: str) -> tuple[list[str], str]:
    """Some lines, and the encoding in which they can be read."""
    try:
        with gzip.open(file) if ending.endswith(".gz") else file.open("rb") as opened:
            raw = [opened.readline(_LONGEST_LINE) for _ in range(_LINES_TO_GUESS)]
    except (OSError, EOFError) as error:
        raise InputError(f"data file {file} cannot be read: {str(error).splitlines()[0]}") from None
    head = b"".join(raw)
    if b"\0" in head:
        raise InputError(f"data file {file} cannot be read: it is not text in UTF-8 or Latin-1")
    try:
        text, encoding = head.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = head.decode("latin-1"), "latin-1"
    return list(io.StringIO(text, newline=None)), encoding


def _separator(lines: Sequence[str], ending: str) -> str:
    """The ending's own if it fits; else the one that cuts all first lines into equally many, and most, parts."""
    usual = "\t" if "tsv" in ending else ","
    parts = {}
    for separator in (usual, *_SEPARATORS):
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            rows = []
        # the last line may end inside a quotation
        counts = {len(row) for row in (rows[:-1] if len(lines) >= _LINES_TO_GUESS else rows)}
        parts[separator] = counts.pop() if len(counts) == 1 else 0
    best = max(parts, key=lambda separator: parts[separator])
    return usual if parts[usual] > 1 or parts[best] < 2 else best


def _read_text(file: Path, ending: str, notes: list[str]) -> pd.DataFrame:
    import pandas as pd

    lines, encoding = _first_lines(file, ending)
    separator = _separator(lines, ending)
    if separator != ("\t" if "tsv" in ending else ","):
        notes.append(f"columns are separated by a {_SEPARATORS[separator]}")
    try:
        frame = pd.read_csv(file, sep=separator, encoding=encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"
        frame = pd.read_csv(file, sep=separator, encoding=encoding)
    if encoding != "utf-8":
        notes.append("the file is not UTF-8 and was read as Latin-1: letters with accents may be wrong")
    if separator != ",":
        commas = [name for name in frame.columns if _has_decimal_commas(frame[name])]
        for name in commas:
            frame[name] = pd.to_numeric(frame[name].str.strip().str.replace(",", "."))
        if commas:
            notes.append(f"a comma is taken as the decimal sign (1,5 is 1.5) in: {', '.join(map(str, commas))}")
    return frame


def _has_decimal_commas(column: pd.Series) -> bool:
    if _is_number(column):
        return False
    words = column.dropna().astype(str)
    return bool(words.str.fullmatch(_DECIMAL_COMMA).all() and words.str.contains(",").any())


def prepare(frame: pd.DataFrame, target: str | Sequence[str]) -> PreparedTable:
    """Split a table into inputs and targets and make numbers of both.

    Numeric columns are standardised, their gaps filled with the median and marked by a column of their own; text,
    categories and switches become one column per value (gaps are a value). Columns that are empty, constant or have a
    different text in most rows say nothing and are left out. Rows without a target are left out.
    """
    names = [target] if isinstance(target, str) else list(target)
    check_names(list(frame.columns))
    check_target_names(names, list(frame.columns))
    notes = list(frame.attrs.get("notes", ()))
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
        distinct = np.unique(values)
        if len(distinct) <= _MOST_CLASSES and (distinct == np.round(distinct)).all():
            notes.append(
                f"target {name!r} has {len(distinct)} distinct whole numbers: they are taken as numbers, and the error "
                "is not the share of wrong classes"
            )
    inputs, columns = _inputs(frame.drop(columns=names), notes)
    return PreparedTable(inputs, targets, tuple(columns), tuple(notes))


def check_names(names: Sequence[str]) -> None:
    """Refuse columns with one name, and names that would move or colour what stands beside them on a terminal."""
    _refuse_repeated(names)
    for name in names:
        if _has_controls(name):
            raise InputError(f"column names must have no control characters, got {name!r}: rename it in the table")


def check_target_names(names: Sequence[str], columns: Sequence[str]) -> None:
    if not names:
        raise InputError("target must name at least one column")
    _refuse_repeated(names)
    for name in names:
        if name not in columns:
            raise InputError(f"there is no column {name!r}{suggest(name, columns)}; there are {first_of(columns, 12)}")


def _inputs(frame: pd.DataFrame, notes: list[str]) -> tuple[np.ndarray, list[str]]:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric: list[str] = []
    categorical: list[str] = []
    left_out: dict[str, list[str]] = {}
    frame, infinite = frame.copy(), []
    for name in frame.columns:
        if _is_number(frame[name]):
            frame[name] = frame[name].astype(float)
            if np.isinf(frame[name]).any():
                infinite.append(name)
                frame[name] = frame[name].replace([np.inf, -np.inf], np.nan)
            largest = float(frame[name].abs().max())
            if largest > _LARGEST:
                raise InputError(f"column {name!r} must be between -{_LARGEST:g} and {_LARGEST:g}, got {largest:g}")
    if infinite:
        notes.append(f"infinite values count as gaps: {', '.join(infinite)}")
    for name in frame.columns:
        column = frame[name]
        try:
            distinct = column.nunique(dropna=True)
        except TypeError:
            kind = type(column.dropna().iloc[0]).__name__
            raise InputError(f"column {name!r} must hold numbers or text, got a {kind} in a cell") from None
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
        values = sorted(set(map(str, column)))
        hint = f"; make it a column of 0 ({values[0]!r}) and 1 ({values[1]!r})" if len(values) == 2 else ""
        raise InputError(f"target column {name!r} must hold numbers for regression, got {example!r}{hint}")
    values = column.astype(float).to_numpy()
    if not np.isfinite(values).all():
        raise InputError(f"target column {name!r} must be finite, got {values[~np.isfinite(values)][0]:g}")
    return values


def _is_number(column: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column))


def _has_controls(text: str) -> bool:
    """Escapes, line breaks and the like, and marks that turn the direction of writing."""
    return any(unicodedata.category(letter) == "Cc" or letter in _TURNS for letter in text)


def _refuse_repeated(names: Sequence[Any]) -> None:
    repeated = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if repeated:
        raise InputError(f"column names must differ, got {repeated[0]!r} more than once")
