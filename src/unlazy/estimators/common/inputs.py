"""What estimators ask of their settings, of tasks, and of new rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from unlazy.checks import InputError, check_array
from unlazy.data.encoding import encode_table, is_table
from unlazy.data.table_encoder import TableEncoder
from unlazy.functions.elementwise import Link, as_activation
from unlazy.words import first_of

# columns that a message names
_MOST_NAMED = 5

Pairs = list[tuple[np.ndarray, np.ndarray]]
"""Tasks: rows (n, d) and targets (n,) of each, n may differ."""


def check_table(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    *,
    encoder: TableEncoder | None = None,
    encode: bool = True,
    **options: Any,
) -> Any:
    """scikit-learn's `validate_data`: X, or X and y, in double precision; says which columns have texts or gaps.

    A DataFrame with text, dates or gaps becomes the columns of a `TableEncoder`, which `fit` learns, unless one is
    given, and keeps as `encoder_`; the columns in X are still those that scikit-learn counts. Arrays, and DataFrames of
    numbers, are taken as they are, with `encoder_` None; gaps in new rows of such a DataFrame become the medians. With
    `encode` False texts and gaps are refused.
    """
    from sklearn.utils import check_array as checked_array
    from sklearn.utils import check_X_y
    from sklearn.utils.validation import validate_data

    if options.get("reset", True):
        X, estimator.encoder_ = encode_table(X, encoder) if encode else (X, None)
        estimator._medians = X.astype(np.float64).median() if encode and is_table(X) else None
    elif estimator.encoder_ is not None:
        return estimator.encoder_.transform(X)
    elif estimator._medians is not None and is_table(X):
        X = X.fillna(estimator._medians)
    try:
        if estimator.encoder_ is None:
            found = validate_data(estimator, X, y, dtype=np.float64, **options)
        else:
            columns = {name: value for name, value in vars(estimator.encoder_).items() if name.endswith("_in_")}
            vars(estimator).update(columns)
            labelled = not isinstance(y, str)
            options |= {"dtype": np.float64, "estimator": estimator}
            found = check_X_y(X, y, **options) if labelled else checked_array(X, **options)
        if options.get("y_numeric"):
            # texts of one length, unlike objects, are let through
            np.asarray(found[1], dtype=np.float64)
        return found
    except (TypeError, ValueError):
        check_columns("X", X)
        if options.get("y_numeric"):
            check_columns("y", y)
        raise


def check_columns(name: str, X: Any) -> None:
    """Refuse texts and gaps in X (n, d) or (n,); names their columns and what helps."""
    if getattr(X, "ndim", 2) > 2 or hasattr(X, "toarray"):
        return
    names, columns = _columns_of(X)
    texts, gaps, example = [], [], ""
    for column, values in zip(names, columns, strict=True):
        text = next((v for v in values if isinstance(v, str) and not _is_number(v)), None)
        if text is not None:
            example = example or text
            texts.append(column)
        elif any(v is None or v != v for v in values if not isinstance(v, dict | list)):
            gaps.append(column)
    plain = len(names) == 1 and name == "y"
    if texts:
        where = "" if plain else f" in column {first_of(texts, _MOST_NAMED)}"
        helps = (
            "use a classifier, or numbers for the classes"
            if plain
            else "give a DataFrame, or encode them first, as in make_pipeline(TableEncoder(), estimator)"
        )
        raise InputError(f"{name} must be numeric, got the text {example!r:.40}{where}: {helps}") from None
    if gaps:
        where = "" if plain else f" in column {first_of(gaps, _MOST_NAMED)}"
        first = "give a DataFrame, or fill them first, as in make_pipeline(TableEncoder(), estimator)"
        helps = "drop these rows" if plain else first
        raise InputError(f"{name} must not have gaps, got NaN{where}: {helps}") from None


def _columns_of(X: Any) -> tuple[list[str], list[np.ndarray]]:
    """Names and values of the columns of a table; nothing of what is none."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        frame = X.astype(object)
        values = frame.where(frame.notna(), None).to_numpy()
        return [repr(column) for column in X.columns], list(values.T)
    try:
        array = np.asarray(X, dtype=object)
    except ValueError:
        return [], []
    array = array.reshape(-1, 1) if array.ndim == 1 else array
    return ([str(j) for j in range(array.shape[1])], list(array.T)) if array.ndim == 2 else ([], [])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_pair(
    X_name: str, X: Any, y_name: str, y: Any, *, rows: int = 1, size: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and y (n,) of at least so many rows, and of numbers up to `size`."""
    low = None if size is None else -size
    try:
        design = check_array(X_name, X, low=low, high=size, ndim=2)
    except InputError:
        check_columns(X_name, X)
        raise
    target = check_array(y_name, y, low=low, high=size, ndim=1)
    if len(design) != len(target):
        raise InputError(f"{y_name} must have {len(design)} entries like the rows of X, got {len(target)}")
    if len(design) < rows:
        raise InputError(f"{X_name} must have at least {rows} rows, got {len(design)}")
    return design, target


def check_pairs(
    tasks: Iterable[Any], wanted: str, *, rows: int = 1, size: float | None = None
) -> tuple[Pairs, TableEncoder | None]:
    """`check_pair` of every task, all with the same features, or what is `wanted` instead.

    Tasks whose rows are DataFrames with text, dates or gaps are encoded alike, by the encoder that is returned.
    """
    given: list[tuple[Any, Any]] = []
    for i, task in enumerate(tasks):
        parts: Any = () if isinstance(task, str | bytes | dict) else task
        try:
            X, y = parts
        except (TypeError, ValueError):
            raise InputError(f"{wanted}, got {type(task).__name__} as task {i}") from None
        given.append((X, y))
    encoder = None
    if given and all(is_table(X) for X, _ in given):
        import pandas as pd

        encoder = encode_table(pd.concat([X for X, _ in given], ignore_index=True))[1]
    pairs: Pairs = []
    for i, (X, y) in enumerate(given):
        rows_of_task = X if encoder is None else encoder.transform(X)
        pair = check_pair(f"X of task {i}", rows_of_task, f"y of task {i}", y, rows=rows, size=size)
        width = (pairs or [pair])[0][0].shape[1]
        if pair[0].shape[1] != width:
            raise InputError(f"X of task {i} must have {width} features like task 0, got {pair[0].shape[1]}")
        pairs.append(pair)
    return pairs, encoder


def guarded(activation: Any) -> Link:
    """The activation, of which every value is a finite real number; it works on copies, so it may work in place."""
    function = as_activation(activation)

    def value(x: Any) -> np.ndarray:
        places = np.array(x, dtype=np.float64)
        with np.errstate(all="ignore"):
            values = function.value(places.copy())
        try:
            values = np.asarray(values)
            if not np.iscomplexobj(values):
                values = values.astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise InputError("activation must return an array of numbers, got something else") from None
        if np.iscomplexobj(values):
            raise InputError("activation must be real, got complex numbers")
        if values.shape != places.shape:
            raise InputError(
                f"activation must return one number per point, got shape {values.shape} for {places.shape}"
            )
        bad = ~np.isfinite(values)
        if bad.any():
            raise InputError(f"activation must be finite, got {values[bad][0]:g} at {places[bad][0]:g}")
        return values

    return function._replace(value=value)


def check_numbers(name: str, value: Any, **bounds: Any) -> np.ndarray:
    """`check_array` that takes neither texts nor truth values for numbers."""
    try:
        kind = np.asarray(value).dtype.kind
    except ValueError:
        kind = "O"
    if kind not in "iufc":
        raise InputError(f"{name} must be numeric, got {value!r:.80}")
    return check_array(name, value, **bounds)


def check_memory(name: str, value: int, numbers: float) -> None:
    """Refuse a setting that needs so many numbers in double precision that this machine cannot hold them."""
    import psutil

    needed, there = 8 * numbers / 2**30, psutil.virtual_memory().total / 2**30
    if needed > there:
        raise InputError(f"{name} must fit into {there:.3g} GiB of memory, got {value}, which needs {needed:.3g} GiB")


def standardised(X: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(X - mean) / scale, or a refusal that names the value that lies too far out for that."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = (X - mean) / scale
    bad = ~np.isfinite(rows)
    if bad.any():
        raise InputError(
            f"X must be a finite number of training standard deviations from the training mean, got {X[bad][0]:g} "
            f"where the deviation was {np.broadcast_to(scale, X.shape)[bad][0]:g}"
        )
    return rows


def finite_or_refused(values: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The values computed from X, or a refusal where they overflow."""
    if not np.isfinite(values).all():
        raise InputError(
            f"X must be nearer to the training rows: sizes up to {np.abs(X).max():g} overflow the features"
        )
    return values
