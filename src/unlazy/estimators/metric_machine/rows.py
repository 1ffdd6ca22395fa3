"""The encoded rows of a table, in memory or in the partitions of a Dask collection."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from unlazy.checks import InputError
from unlazy.data.table_encoder import TableEncoder

_BLOCK = 4096
_ENCODED = 200_000
"""Rows of a partitioned table that teach its encoding."""

Sums = TypeVar("Sums", bound=tuple[np.ndarray, ...])
Add = Callable[[Sums, np.ndarray, np.ndarray], Sums]
"""Adds what a block of rows, with its targets, gives to some sums."""


class EncodedRows(Protocol):
    """Encoded rows (n, columns) of which no more than some are in memory at a time."""

    def __len__(self) -> int: ...

    def seen(self, view: Callable[[np.ndarray], np.ndarray]) -> EncodedRows:
        """What a function makes of each row."""

    def take(self, places: np.ndarray) -> np.ndarray:
        """Rows by their ascending places."""

    def total(self, add: Add[Sums], zero: Callable[[], Sums], targets: np.ndarray) -> Sums:
        """Sums over all rows and their targets (n, outputs), in blocks."""


class RowsInMemory:
    def __init__(self, rows: np.ndarray):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def seen(self, view: Callable[[np.ndarray], np.ndarray]) -> RowsInMemory:
        return RowsInMemory(view(self.rows))

    def take(self, places: np.ndarray) -> np.ndarray:
        return self.rows[places]

    def total(self, add: Add[Sums], zero: Callable[[], Sums], targets: np.ndarray) -> Sums:
        sums = zero()
        for start in range(0, len(self.rows), _BLOCK):
            here = slice(start, start + _BLOCK)
            sums = add(sums, self.rows[here], targets[here])
        return sums


class RowsInPartitions:
    """Rows of a Dask array or DataFrame: each partition is encoded where it is, every time that it is asked for."""

    def __init__(self, table: Any, encode: Callable[[Any], np.ndarray], lengths: tuple[int, ...]):
        self.table, self.encode, self.lengths = table, encode, lengths
        self.parts = _delayed(table)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def seen(self, view: Callable[[np.ndarray], np.ndarray]) -> RowsInPartitions:
        encode = self.encode
        return RowsInPartitions(self.table, lambda part: view(encode(part)), self.lengths)

    def take(self, places: np.ndarray) -> np.ndarray:
        import dask

        chosen = _chosen(self.parts, self.starts, places)
        return np.concatenate(dask.compute(*(dask.delayed(self.encode)(part) for part in chosen)))

    def total(self, add: Add[Sums], zero: Callable[[], Sums], targets: np.ndarray) -> Sums:
        import dask

        # one copy of what the sum needs for all partitions
        encode, add_block = dask.delayed(self.encode), dask.delayed(add)
        sums = [
            dask.delayed(_total)(encode(part), add_block, zero, targets[start:stop])
            for part, start, stop in zip(self.parts, self.starts[:-1], self.starts[1:], strict=True)
            if stop > start
        ]
        while len(sums) > 1:
            pairs = [sums[place : place + 2] for place in range(0, len(sums), 2)]
            sums = [dask.delayed(_added)(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        with warnings.catch_warnings():
            # the kernel of the centres is in the graph, once
            warnings.filterwarnings("ignore", "Sending large graph")
            return dask.compute(sums[0])[0]


def is_partitioned(table: Any) -> bool:
    """Whether it is a Dask collection; Dask is not imported to see this."""
    return type(table).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(table, "to_delayed")


def in_memory(labels: Any) -> Any:
    """What Dask keeps in partitions as an array or a Series; all else as it is."""
    return labels.compute() if is_partitioned(labels) else labels


def partition_lengths(table: Any) -> tuple[int, ...]:
    """Rows of each partition of a Dask array (n, d) or DataFrame."""
    import dask

    if getattr(table, "ndim", 2) != 2:
        raise InputError(f"X must have 2 dimensions, got a Dask array with {table.ndim}")
    return dask.compute(*(dask.delayed(len)(part) for part in _delayed(table)))


def new_encoder() -> TableEncoder:
    """Without a bound: kernels put one on its rows, ridge regression does not."""
    return TableEncoder("quartiles")


def encoder_of(table: Any, lengths: tuple[int, ...]) -> TableEncoder:
    """An encoder that some 200,000 evenly spread rows taught, all of them if they are fewer."""
    import dask

    n = sum(lengths)
    places = np.arange(n) if n <= _ENCODED else np.unique(np.linspace(0, n - 1, _ENCODED).astype(int))
    parts = dask.compute(*_chosen(_delayed(table), np.concatenate([[0], np.cumsum(lengths)]), places))
    if isinstance(parts[0], np.ndarray):
        return new_encoder().fit(np.concatenate(parts))
    import pandas as pd

    return new_encoder().fit(pd.concat(parts))


def by_partition(function: Callable[[Any], np.ndarray], table: Any, dtype: Any, outputs: int | None = None) -> Any:
    """What a function of rows gives, (n,) or (n, outputs), as a Dask collection like the table."""

    def made(part: Any) -> np.ndarray:
        # a partition may be empty
        return function(part) if len(part) else np.zeros((0,) if outputs is None else (0, outputs), dtype)

    if hasattr(table, "map_partitions"):
        import pandas as pd

        def framed(part: Any) -> Any:
            return (pd.Series if outputs is None else pd.DataFrame)(made(part), index=part.index)

        meta = pd.Series(dtype=dtype) if outputs is None else pd.DataFrame(np.zeros((0, outputs), dtype))
        return table.map_partitions(framed, meta=meta)
    rows = table.rechunk({1: -1})
    if outputs is None:
        return rows.map_blocks(made, drop_axis=1, dtype=dtype, meta=np.zeros((0,), dtype))
    return rows.map_blocks(made, chunks=(rows.chunks[0], (outputs,)), dtype=dtype, meta=np.zeros((0, 0), dtype))


def _delayed(table: Any) -> list[Any]:
    if hasattr(table, "map_partitions"):
        return list(table.to_delayed())
    return list(table.rechunk({1: -1}).to_delayed().ravel())


def _chosen(parts: list[Any], starts: np.ndarray, places: np.ndarray) -> list[Any]:
    """The rows at ascending places, part by part."""
    import dask

    edges = np.searchsorted(places, starts)
    return [
        dask.delayed(_rows_of)(part, places[low:high] - start)
        for part, start, low, high in zip(parts, starts[:-1], edges[:-1], edges[1:], strict=True)
        if high > low
    ]


def _rows_of(part: Any, places: np.ndarray) -> Any:
    return part[places] if isinstance(part, np.ndarray) else part.iloc[places]


def _total(rows: np.ndarray, add: Any, zero: Any, targets: np.ndarray) -> Any:
    return RowsInMemory(rows).total(add, zero, targets)


def _added(one: Any, other: Any) -> Any:
    return tuple(a + b for a, b in zip(one, other, strict=True))
