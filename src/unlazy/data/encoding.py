"""Whether a table needs to be encoded before numbers can be computed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from unlazy.data.table_encoder import TableEncoder


def encode_table(X: Any, encoder: TableEncoder | None = None) -> tuple[Any, TableEncoder | None]:
    """The columns that a `TableEncoder` makes of a DataFrame with text, dates or gaps, and the encoder.

    Arrays, and DataFrames of finite numbers, come back as they are, with None. A given `encoder`, which an earlier call
    has fitted, is used whatever X holds.
    """
    if encoder is not None:
        return encoder.transform(X), encoder
    if not is_table(X) or _holds_numbers(X):
        return X, None
    from unlazy.data.table_encoder import TableEncoder

    found = TableEncoder().fit(X)
    return found.transform(X), found


def is_table(X: Any) -> bool:
    """Whether X is a pandas DataFrame; pandas is not loaded to find out."""
    return hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2


def _holds_numbers(frame: pd.DataFrame) -> bool:
    if any(kind.kind in "mM" for kind in frame.dtypes):
        return False
    try:
        return bool(np.isfinite(frame.to_numpy(np.float64)).all())
    except (TypeError, ValueError):
        return False
