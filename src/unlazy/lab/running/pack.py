"""Shipped results: what the quick presets gave, in one small file beside the records of the evidence.

Pages that show results, the explorer and the site, read it where the store has nothing. What computes or judges for a
user takes nothing from it: a result that one reproduces is one's own, and is compared with what is shipped. Entries are
found by the store's keys, which contain the fingerprint: what other code computed is not found.

The file is a ZIP archive with a member for each study: the length of a header, the header as JSON, and the bytes of the
arrays, those of equal significance together, which compresses well. Numbers in double precision are rounded to the 24
bits of single precision, except for a study of which that would change a verdict. A file that cannot be read is as good
as none, and a warning says so once.
"""

from __future__ import annotations

import json
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unlazy.checks import stamp
from unlazy.lab.running import dataset
from unlazy.lab.running.evidence import folder
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.plan import Witness, point_keys
from unlazy.lab.study import Study

NAME = "quick.pack"
ROUNDING = 2.0**-24
"""How far a shipped number may be from what it was, as a share of it."""
_KEY = 16
"""Bytes of a point's key."""
LENGTH = struct.Struct("<Q")
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, struct.error, zlib.error, zipfile.BadZipFile,
          NotImplementedError, RuntimeError)  # fmt: skip


class PackedPart(NamedTuple):
    """One part of a study: the keys of its points in order, and by output an array over points and seeds."""

    keys: tuple[bytes, ...]
    seconds: float
    arrays: Mapping[str, np.ndarray]


def default_file() -> Path:
    """Where the shipped results are: beside the records."""
    return folder() / NAME


def fill(collector: dataset.Collector, file: Path | None = None) -> int:
    """Put shipped results where a collector has none; returns how many instances that were."""
    file = default_file() if file is None else file
    study, wanted, filled = collector.grid.study, set(collector.grid.study.simulated_outputs()), 0
    places = _places(file, stamp(file), study.name, frozenset(study.simulated_outputs()))
    if not places or not collector.missing.any():
        return 0
    for point, key in enumerate(point_keys(collector.grid, fingerprint(study))):
        part, row = places.get(key, (None, 0))
        if part is None or not collector.missing[point].any():
            continue
        seeds = next(iter(part.arrays.values())).shape[1]
        for seed in np.flatnonzero(collector.missing[point, :seeds]).tolist():
            collector.put(point, seed, {name: part.arrays[name][row, seed] for name in wanted})
            collector.seconds += part.seconds / (len(part.keys) * seeds)
            filled += 1
    return filled


def witness(study: type[Study], instances: Sequence[tuple[bytes, int]]) -> Witness | None:
    """What is shipped of the last of some instances, by the keys of their points and their seeds, that it has."""
    file = default_file()
    places = _places(file, stamp(file), study.name, frozenset(study.simulated_outputs()))
    for number in range(len(instances) - 1, -1, -1) if places else ():
        key, seed = instances[number]
        part, row = places.get(key, (None, 0))
        if part is not None and seed < next(iter(part.arrays.values())).shape[1]:
            return Witness(number, {name: part.arrays[name][row, seed] for name in study.simulated_outputs()})
    return None


def read(body: bytes) -> tuple[PackedPart, ...]:
    """The parts of a study from the bytes of its member."""
    (length,) = LENGTH.unpack_from(body)
    header, at = json.loads(body[LENGTH.size : LENGTH.size + length]), LENGTH.size + length
    found = []
    for part in header.values():
        arrays = {}
        for output, (kind, shape) in part["outputs"].items():
            dtype = np.dtype(kind)
            if dtype.kind not in "biuf":
                raise ValueError(f"numbers of the kind {kind}")
            count = math.prod(shape) * dtype.itemsize
            planes = np.frombuffer(body, np.uint8, count, at).reshape(dtype.itemsize, -1)
            arrays[output] = np.frombuffer(planes.T.tobytes(), dtype).reshape(shape)
            at += count
        text = bytes.fromhex(part["keys"])
        keys = tuple(text[i : i + _KEY] for i in range(0, len(text), _KEY))
        if {a.shape[0] for a in arrays.values()} != {len(keys)} or len({a.shape[1] for a in arrays.values()}) != 1:
            raise ValueError("arrays that do not fit its points")
        found.append(PackedPart(keys, float(part["seconds"]), arrays))
    return tuple(found)


@lru_cache(maxsize=8)
def _places(
    file: Path, version: tuple[int, ...], study: str, wanted: frozenset[str]
) -> Mapping[bytes, tuple[PackedPart, int]]:
    """Where the points of a study with these outputs are in a version of the file; empty if it cannot be read."""
    if not version or study not in names(file) or (body := study_bytes(file, study)) is None:
        return {}
    try:
        parts = read(body)
    except DAMAGE as error:
        _warn(file, error)
        return {}
    return {key: (part, row) for part in parts for row, key in enumerate(part.keys) if wanted <= set(part.arrays)}


def names(file: Path) -> list[str]:
    """The studies that are in the file."""
    if not file.is_file():
        return []
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except DAMAGE as error:
        _warn(file, error)
        return []


def study_bytes(file: Path, study: str) -> bytes | None:
    """The bytes of a study in the file; None, with a warning, if they cannot be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.read(study)
    except DAMAGE as error:
        _warn(file, error)
        return None


def _warn(file: Path, error: Exception) -> None:
    warnings.warn(f"the shipped results {file.name} are damaged and not used ({error})", stacklevel=2)
