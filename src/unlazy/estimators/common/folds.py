"""Which rows are held out together."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, check_cv
from sklearn.utils import check_random_state

from unlazy.checks import InputError

_HELD_OUT_ROWS = 60
# share of the rows that are far
_FAR, _FEWEST_FAR = 0.05, 4


def make_splits(cv: Any, random_state: Any, X: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Indices of training and held-out rows of every fold: `cv` shuffled folds, or those of a splitter.

    Below 60 rows the folds are shuffled and held out again until 60 rows have been, since one division of so few
    decides too much.
    """
    n = len(X)
    if isinstance(cv, Integral):
        if int(cv) < 2 or n < 2 * int(cv):
            raise InputError(
                f"cv must be >= 2 and leave at least two rows in each fold, got cv={cv} with n_samples={n}"
            )
        repeats = -(-_HELD_OUT_ROWS // n)
        folds = RepeatedKFold(n_splits=int(cv), n_repeats=repeats, random_state=check_random_state(random_state))
    else:
        folds = check_cv(cv)
    try:
        pairs = list(folds.split(X, y))
    except TypeError:
        raise InputError(f"cv must give pairs of training and held-out rows, got cv={cv!r}") from None
    splits = [(_indices(train, n), _indices(held, n)) for train, held in pairs]
    if not splits or min(min(len(train) - 1, len(held)) for train, held in splits) < 1:
        raise InputError(f"cv must give folds with two training rows and a held-out one, got cv={cv!r}")
    return splits


def far_splits(rows: np.ndarray, predictions: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """All rows but 5%, and these: the longest, and those whose predictions by a simple model are the most unusual.

    The second are the rows on which a bounded fit and a straight one differ most, whatever the other columns do.
    """
    far = max(int(_FAR * len(rows)), _FEWEST_FAR)
    lengths = np.einsum("ij,ij->i", rows, rows), np.abs(predictions - np.median(predictions))
    orders = [np.argsort(one, kind="stable") for one in lengths]
    return [(order[:-far], order[-far:]) for order in orders]


def some_rows(
    rows: np.ndarray, labels: np.ndarray, most: int, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """All rows, or `most` of them drawn at random."""
    if len(rows) <= most:
        return rows, labels
    part = random.permutation(len(rows))[:most]
    return rows[part], labels[part]


def parted_halves(strata: np.ndarray, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Two halves with like shares of every class; of numbers, neighbours in their order are parted."""
    order = np.lexsort((random.random_sample(len(strata)), strata))
    first = random.randint(2, size=-(-len(order) // 2))
    side = np.column_stack([first, 1 - first]).ravel()[: len(order)]
    return order[side == 0], order[side == 1]


def _indices(rows: Any, n: int) -> np.ndarray:
    indices = np.asarray(rows)
    if indices.dtype == bool and indices.shape == (n,):
        return np.flatnonzero(indices)
    if not indices.size:
        return np.array([], dtype=int)
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer) or indices.min() < 0 or indices.max() >= n:
        raise InputError(f"cv must give rows as integers from 0 to {n - 1}, got {indices.tolist()!s:.60}")
    return indices
