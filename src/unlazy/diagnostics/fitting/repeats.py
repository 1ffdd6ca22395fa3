"""Rows that repeat the inputs of others: a copy of a row that a method has learned from is no unseen row."""

from __future__ import annotations

from typing import Any

import numpy as np

# different inputs that folds need, and of which share of the rows equal inputs are copies whatever their targets
_FEWEST_INPUTS, _SHARE_OF_COPIES = 30, 0.2


def equal_rows(inputs: np.ndarray) -> np.ndarray:
    """(rows,), a number for each row, which rows with equal inputs share."""
    import pandas as pd

    # 0 and -0 are equal
    hashes = pd.util.hash_pandas_object(pd.DataFrame(inputs + 0.0), index=False)
    return np.unique(hashes.to_numpy(), return_inverse=True)[1]


def held_together(same: np.ndarray, target: np.ndarray, least_of_class: int) -> tuple[np.ndarray, list[str]]:
    """The numbers of rows that are to be held out together, and a note if rows repeat others.

    In a table of few columns with few values each, equal inputs are no copies but further draws: where rows are five
    times as many as different inputs, and some of these have different targets, or where different inputs are too few
    for folds, rows are held out one by one. `least_of_class` is how many different inputs each class needs, 0 for
    numbers.
    """
    import pandas as pd

    first = np.unique(same, return_index=True)[1]
    inputs, n = len(first), len(same)
    if inputs == n:
        return same, []
    start = f"{n - inputs} of {n} rows repeat the inputs of another one"
    agree = len(pd.DataFrame({"same": same, "target": target}).drop_duplicates()) == inputs
    levels, places = np.unique(target, return_inverse=True)
    rarest = np.bincount(places[first], minlength=len(levels)).min() if least_of_class else 0
    copies = agree or inputs >= _SHARE_OF_COPIES * n
    if copies and inputs >= _FEWEST_INPUTS and rarest >= least_of_class:
        return same, [f"{start}: rows with equal inputs are held out together, and one of them is judged"]
    return np.arange(n), [
        f"{start}: with {inputs} different inputs they are taken for separate rows, and scores are too high if they "
        "are copies"
    ]


def judged_rows(same: np.ndarray) -> np.ndarray:
    """The first of the rows that share a number."""
    return np.sort(np.unique(same, return_index=True)[1])


def with_copies(rows: Any, same: np.ndarray) -> np.ndarray:
    """The rows, and all that share a number with one of them."""
    return np.flatnonzero(np.isin(same, same[rows]))
