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

    from unlazy.data.table_encoder import TableEncoder

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_FEWEST_ROWS = 10
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_LINES_TO_GUESS = 20
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_LONGEST_LINE = 100_000_000
# difflib's likeness of file names without their endings
_ALIKE = 0.7
_DECIMAL_COMMA = r"\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*"
# distinct whole numbers up to which a target may be one of classes
_MOST_CLASSES = 20


class LearningTable(NamedTuple):
    """Numbers ready for a learner, and what was done to get them."""

    inputs: np.ndarray
    """Shape (rows, columns), encoded by `TableEncoder`."""
    targets: np.ndarray
    """Shape (rows, number of targets), in their own units, or 0 and 1 for two classes."""
    columns: tuple[str, ...]
    sources: tuple[str, ...]
    """The table's column that each column comes from."""
    classes: dict[str, tuple[str, str]]
    """Of targets that are text: which is 0, which is 1."""
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


def learning_table(frame: pd.DataFrame, target: str | Sequence[str]) -> LearningTable:
    """Split a table into inputs, which `TableEncoder` encodes, and targets: numbers, or two texts as 0 and 1.

    Rows without a target are left out.
    """
    names = [target] if isinstance(target, str) else list(target)
    check_names(list(frame.columns))
    check_target_names(names, list(frame.columns))
    notes = list(frame.attrs.get("notes", ()))
    known = frame[names].notna().all(axis=1)
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without a target are left out")
        frame = frame[known]
    found = [_target(frame[name], name) for name in names] if len(frame) else []
    targets = np.column_stack([values for values, _ in found]) if found else np.empty((0, 1))
    classes = {name: two for name, (_, two) in zip(names, found, strict=False) if two is not None}
    if len(frame) < _FEWEST_ROWS:
        raise InputError(f"the table must have at least {_FEWEST_ROWS} rows with a target, got {len(frame)}")
    for name, values in zip(names, targets.T, strict=True):
        if np.ptp(values) == 0:
            raise InputError(f"target column {name!r} is constant: {_shown(frame[name].iloc[0])} in every row")
        notes += _class_notes(name, values, classes.get(name))
    inputs = frame.drop(columns=names)
    encoder = input_encoder(inputs)
    columns = tuple(encoder.get_feature_names_out())
    sources = tuple(str(inputs.columns[place]) for place in encoder.sources_)
    notes += encoder.notes()
    return LearningTable(encoder.transform(inputs), targets, columns, sources, classes, tuple(notes))


def input_encoder(inputs: pd.DataFrame) -> TableEncoder:
    """The encoder of the columns to learn from, of which there must be one."""
    from unlazy.data.table_encoder import TableEncoder

    encoder = TableEncoder()
    try:
        return encoder.fit(inputs)
    except ValueError:
        if inputs.shape[1] and len(encoder.left_out_) < inputs.shape[1]:
            raise
        raise InputError("the table has no column to learn from besides the target") from None


def _class_notes(name: str, values: np.ndarray, classes: tuple[str, str] | None) -> list[str]:
    if classes is not None:
        return [
            f"target {name!r} is 0 for {classes[0]!r} and 1 for {classes[1]!r}: the error is that of least squares, "
            "not the share of wrong classes"
        ]
    distinct = np.unique(values)
    if len(distinct) > _MOST_CLASSES or (distinct != np.round(distinct)).any():
        return []
    return [
        f"target {name!r} has {len(distinct)} distinct whole numbers: they are taken as numbers, and the error "
        "is not the share of wrong classes"
    ]


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


def _target(column: pd.Series, name: str) -> tuple[np.ndarray, tuple[str, str] | None]:
    """Numbers, and the texts that are 0 and 1 if there are two."""
    if not _is_number(column):
        words = column.astype(str)
        values = sorted(set(words))
        if len(values) > 2:
            raise InputError(
                f"target column {name!r} must hold numbers, or two classes, got {len(values)} texts such as "
                f"{column.iloc[0]!r}"
            )
        return (words == values[-1]).to_numpy(np.float64), (values[0], values[-1])
    numbers = column.astype(float).to_numpy()
    if not np.isfinite(numbers).all():
        raise InputError(f"target column {name!r} must be finite, got {numbers[~np.isfinite(numbers)][0]:g}")
    return numbers, None


def _is_number(column: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column))


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"


def _has_controls(text: str) -> bool:
    """Escapes, line breaks and the like, and marks that turn the direction of writing."""
    return any(unicodedata.category(letter) == "Cc" or letter in _TURNS for letter in text)


def _refuse_repeated(names: Sequence[Any]) -> None:
    repeated = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if repeated:
        raise InputError(f"column names must differ, got {repeated[0]!r} more than once")
