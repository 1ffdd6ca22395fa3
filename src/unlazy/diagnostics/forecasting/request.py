"""What can be refused before anything heavy is imported or read: sizes, numbers, a missing file, a wrong column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from unlazy.checks import InputError, check_array, check_whole
from unlazy.diagnostics.table import check_target_names, find_table, read_names

SIZES = "1x,2x,5x,10x"


class Size:
    """A number of rows, or a multiple of those in the table."""

    def __init__(self, word: str):
        self.is_multiple = word.endswith("x")
        try:
            number = float(word[:-1] if self.is_multiple else word)
        except ValueError:
            raise InputError(f"sizes must be numbers of rows or multiples like 2x, got {word!r}") from None
        self.number = float(check_array("sizes", number, above=0, high=1e15, ndim=0))

    def rows(self, rows: int) -> float:
        return self.number * rows if self.is_multiple else self.number


def parse_sizes(sizes: str | Sequence[float]) -> list[Size]:
    words = sizes.split(",") if isinstance(sizes, str) else [str(size) for size in sizes]
    if not words:
        raise InputError("sizes must name at least one number of rows, got none")
    return [Size(word.strip()) for word in words]


def check_request(
    data: Any,
    target: str | Sequence[str] | None,
    *,
    ridge: float | None = None,
    gamma: float | None = None,
    features: int | None = None,
    sizes: str | Sequence[float] = SIZES,
    check: bool | int = False,
) -> None:
    """Refuse what is wrong whatever the rows hold; of a text file only the first lines are read."""
    parse_sizes(sizes)
    if ridge is not None:
        check_array("ridge", ridge, low=0, ndim=0)
    if gamma is not None:
        check_array("gamma", gamma, above=0, ndim=0)
    if features is not None:
        check_whole("features", features, 1, 100_000)
    if check is not True and check is not False:
        check_whole("check", check, 1, 1000)
    if isinstance(data, str | os.PathLike) and target is not None:
        names = read_names(*find_table(data))
        if names is not None:
            check_target_names([target] if isinstance(target, str) else list(target), names)
