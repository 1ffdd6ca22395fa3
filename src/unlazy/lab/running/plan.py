"""From grids to chunks: which instances share a compiled program, how wide it is, and the randomness of each."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import stamp
from unlazy.lab.grid import MAIN, ParameterGrid
from unlazy.lab.study import Study


class PointSeed(NamedTuple):
    """One seed of one point, by the point's number in its grid."""

    point: int
    seed: int


class Witness(NamedTuple):
    """What another machine computed of one instance of a chunk."""

    number: int
    outputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Chunk:
    """What one call computes: instances that share everything but their values and randomness.

    It carries all that a worker needs, so that a chunk gives the same numbers in any process.
    """

    study: type[Study]
    fingerprint: str
    shared: Mapping[str, Any]
    values: Mapping[str, tuple]
    entropy: tuple[bytes, ...]
    width: int
    witness: Witness | None = None

    @property
    def program(self) -> str:
        """The identity of the compiled program: chunks of equal identity share it."""
        paths = {n for n, p in self.study.parameters().items() if p.kind == "path"}
        statics = {n: len(v) if n in paths else v for n, v in self.shared.items()}
        return canonical([self.study.name, self.fingerprint, statics, sorted(self.values), self.width])


@dataclass(frozen=True)
class Group:
    """The instances of a grid that run in one program."""

    grid: ParameterGrid
    fingerprint: str
    shared: Mapping[str, Any]
    points: np.ndarray
    """The numbers of its points in the grid, in their order."""
    width: int

    def chunk(self, batch: list[PointSeed], witness: Witness | None = None) -> Chunk:
        """What computes up to `width` instances."""
        study, stream = self.grid.study, self.grid.stream
        names = [n for n in study.parameters() if n not in self.shared]
        points = [self.grid.point(i.point) for i in batch]
        values = {n: tuple(point[n] for point in points) for n in names}
        entropies = tuple(entropy(study, point, i.seed, stream) for point, i in zip(points, batch, strict=True))
        return Chunk(study, self.fingerprint, self.shared, values, entropies, self.width, witness)


def canonical(value: Any) -> str:
    """JSON with sorted keys: equal parameters give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def canonical_points(grid: ParameterGrid, indices: np.ndarray | None = None) -> Iterator[str]:
    """`canonical` of points by their numbers, of all if None: every value of an axis is written once."""
    positions = np.unravel_index(np.arange(grid.size) if indices is None else indices, grid.shape or (1,))
    columns = {}
    for axis, at in zip(grid.axes, positions, strict=False):
        rows = at.tolist()
        for place, name in enumerate(axis.names):
            texts = {row: canonical(axis.rows[row][place]) for row in set(rows)}
            columns[name] = [texts[row] for row in rows]
    names = sorted(grid.fixed)
    written = {n: "%s" if n in columns else canonical(grid.fixed[n]).replace("%", "%%") for n in names}
    pattern = "{" + ",".join(f"{canonical(n)}:{text}" for n, text in written.items()) + "}"
    if not columns:
        return iter([pattern % ()] * len(positions[0]))
    return map(pattern.__mod__, zip(*(columns[n] for n in names if n in columns), strict=True))


def point_keys(grid: ParameterGrid, fingerprint: str, indices: np.ndarray | None = None) -> Iterator[bytes]:
    """The store's keys of points by their numbers, of all if None."""
    head = canonical([grid.study.name, fingerprint, *_streamed(grid.stream)])[:-1]
    reads = grid.study.defines("files")
    numbers = (np.arange(grid.size) if indices is None else indices).tolist() if reads else itertools.repeat(0)
    for number, text in zip(numbers, canonical_points(grid, indices), strict=False):
        content = _read_content(grid, number) if reads else ""
        yield hashlib.sha256(f"{head}{content},{text}]".encode()).digest()[:16]


def _read_content(grid: ParameterGrid, number: int) -> str:
    """What the files that a point reads add to its key: nothing if there are none."""
    files = grid.study(**grid.point(number)).files()
    return f",{canonical([_checksum(file, stamp(file)) for file in files])}" if files else ""


@cache
def _checksum(file: Path, version: tuple[int, ...]) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def entropy(study: type[Study], point: Mapping[str, Any], seed: int, stream: str = MAIN) -> bytes:
    """The randomness of an instance: a hash of the study, the parameters neither paired nor paths, seed and stream.

    It does not depend on the grid, the chunk or the executor.
    """
    parameters = study.parameters()
    drawn = {n: v for n, v in point.items() if not parameters[n].paired and parameters[n].kind != "path"}
    return hashlib.sha256(canonical([study.name, drawn, seed, *_streamed(stream)]).encode()).digest()[:16]


def _streamed(stream: str) -> list[str]:
    """What a stream adds to a key: nothing if it is the main one."""
    return [] if stream == MAIN else [stream]


def group_points(grid: ParameterGrid, fingerprint: str) -> list[Group]:
    """The groups of a grid, in the order of their first points.

    Points of a traced study share a program if their static and path parameters agree; points of a hosted study have no
    program, but are grouped the same way so that timings can be told apart.
    """
    parameters = grid.study.parameters()
    labels, count = np.zeros(1, np.intp), 1
    for axis in grid.axes:
        fixed = [axis.names.index(n) for n in axis.names if parameters[n].kind != "value"]
        seen: dict[tuple, int] = {}
        own = [seen.setdefault(tuple(row[i] for i in fixed), len(seen)) for row in axis.rows]
        labels, count = np.add.outer(labels * len(seen), own).ravel(), count * len(seen)
    # Labels count up in the order in which they first appear.
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.searchsorted(labels[order], np.arange(1, count)))
    width = hosted_width if grid.study.is_hosted() else best_width
    return [
        Group(
            grid,
            fingerprint,
            {n: v for n, v in grid.point(int(points[0])).items() if parameters[n].kind != "value"},
            points,
            width(len(points) * grid.seeds, grid.study.chunk_width),
        )
        for points in members
    ]


def hosted_width(instances: int, widest: int) -> int:
    """How many instances a chunk of a hosted study has: few, so that there are chunks for many cores."""
    return max(1, min(widest, instances // 16))


def best_width(instances: int, widest: int) -> int:
    """The largest power of two up to `widest` that pads the instances by at most a quarter.

    It depends on the whole grid, not on what a store already holds, so that an interrupted run goes on bitwise.
    """
    width = 1
    for exponent in range(int(np.log2(max(1, widest))) + 1):
        candidate = 2**exponent
        padded = -(-instances // candidate) * candidate
        if padded <= 1.25 * instances:
            width = candidate
    return width
