"""What can be refused before anything heavy is imported or read: sizes, numbers, a missing file, a wrong column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from unlazy.checks import InputError, check_array, check_whole
from unlazy.diagnostics.table import check_target_names, find_table, read_names

SIZES = "1x,2x,5x,10x"


class Size(NamedTuple):
    number: float
    is_multiple: bool
    """Of the rows in the table."""

    def rows(self, rows: int) -> float:
        return self.number * rows if self.is_multiple else self.number


def _parse_sizes(n: str | Sequence[float]) -> list[Size]:
    words = n.split(",") if isinstance(n, str) else [str(size) for size in n]
    if not words:
        raise InputError("n must name at least one number of rows, got none")
    return [_parse_size(word.strip()) for word in words]


def _parse_size(word: str) -> Size:
    try:
        number = float(word.removesuffix("x"))
    except ValueError:
        raise InputError(f"n must be numbers of rows or multiples like 2x, got {word!r}") from None
    return Size(float(check_array("n", number, above=0, high=1e15, ndim=0)), word.endswith("x"))


def check_request(
    table: Any,
    target: str | Sequence[str] | None,
    *,
    n: str | Sequence[float] = SIZES,
    width: int | None = None,
    penalty: float | None = None,
    gamma: float | None = None,
    check: bool | int = False,
) -> list[Size]:
    """The sizes; refuse what is wrong whatever the rows hold. Of a text file only the first lines are read."""
    wanted = _parse_sizes(n)
    if penalty is not None:
        check_array("penalty", penalty, low=0, ndim=0)
    if gamma is not None:
        check_array("gamma", gamma, above=0, ndim=0)
    if width is not None:
        check_whole("width", width, 1, 100_000)
    if check is not True and check is not False:
        check_whole("check", check, 1, 1000)
    if isinstance(table, str | os.PathLike) and target is not None:
        names = read_names(*find_table(table))
        if names is not None:
            check_target_names([target] if isinstance(target, str) else list(target), names)
    return wanted
