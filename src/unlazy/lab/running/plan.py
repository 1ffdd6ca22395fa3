"""From grids to chunks: which instances share a compiled program, how wide it is, and the randomness of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unlazy.lab.grid import ParameterGrid
from unlazy.lab.study import Study


class PointSeed(NamedTuple):
    """One seed of one point, by the point's number in its grid."""

    point: int
    seed: int


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
    points: Mapping[int, Mapping[str, Any]]
    width: int

    def chunks(self, missing: list[PointSeed]) -> Iterator[tuple[list[PointSeed], Chunk]]:
        """The missing instances, `width` at a time."""
        for start in range(0, len(missing), self.width):
            batch = missing[start : start + self.width]
            yield batch, self.chunk(batch)

    def chunk(self, batch: list[PointSeed]) -> Chunk:
        study = self.grid.study
        names = [n for n in study.parameters() if n not in self.shared]
        values = {n: tuple(self.points[i.point][n] for i in batch) for n in names}
        entropies = tuple(entropy(study, {**self.shared, **self.points[i.point]}, i.seed) for i in batch)
        return Chunk(study, self.fingerprint, self.shared, values, entropies, self.width)


def canonical(value: Any) -> str:
    """JSON with sorted keys: equal parameters give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def point_key(study: type[Study], fingerprint: str, point: Mapping[str, Any]) -> bytes:
    """The store's key of a point."""
    text = canonical([study.name, fingerprint, point])
    return hashlib.sha256(text.encode()).digest()[:16]


def entropy(study: type[Study], point: Mapping[str, Any], seed: int) -> bytes:
    """The randomness of an instance: a hash of the study, the parameters neither paired nor paths, and the seed.

    It does not depend on the grid, the chunk or the executor.
    """
    parameters = study.parameters()
    drawn = {n: v for n, v in point.items() if not parameters[n].paired and parameters[n].kind != "path"}
    return hashlib.sha256(canonical([study.name, drawn, seed]).encode()).digest()[:16]


def group_points(grid: ParameterGrid, fingerprint: str) -> list[Group]:
    """The groups of a grid, in the order of their first points.

    Points of a traced study share a program if their static and path parameters agree; points of a hosted study have no
    program, but are grouped the same way so that timings can be told apart.
    """
    parameters = grid.study.parameters()
    members: dict[str, dict[int, dict[str, Any]]] = {}
    shared: dict[str, dict[str, Any]] = {}
    for index, point in enumerate(grid.points()):
        fixed = {n: v for n, v in point.items() if parameters[n].kind != "value"}
        identity = canonical(fixed)
        shared.setdefault(identity, fixed)
        members.setdefault(identity, {})[index] = {n: v for n, v in point.items() if n not in fixed}
    width = hosted_width if grid.study.is_hosted() else best_width
    return [
        Group(grid, fingerprint, shared[g], points, width(len(points) * grid.seeds, grid.study.chunk_width))
        for g, points in members.items()
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
