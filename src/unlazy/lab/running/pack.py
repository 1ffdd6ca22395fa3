"""Shipped results: what the quick presets gave, in one small file beside the records of the evidence.

Pages that show results, the explorer and the site, read it where the store has nothing. What computes or judges for a
user does not: a result that one reproduces is one's own. Entries are found by the store's keys, which contain the
fingerprint: what other code computed is not found.

The file is a ZIP archive with a member for each study: the length of a header, the header as JSON, and the bytes of the
arrays, those of equal significance together, which compresses well. Numbers in double precision are rounded to the 24
bits of single precision, except for a study of which that would change a verdict. A file that cannot be read is as good
as none, and a warning says so once.
"""

from __future__ import annotations

import json
import math
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_writable, stamp
from unlazy.lab.grid import Grids, preset_grids
from unlazy.lab.judge import judge
from unlazy.lab.running import dataset
from unlazy.lab.running.evidence import folder
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.plan import point_keys
from unlazy.lab.running.store import Store
from unlazy.lab.study import Part, Study

NAME = "quick.pack"
PRESET = "quick"
_KEY = 16
"""Bytes of a point's key."""
_LENGTH = struct.Struct("<Q")
_DROPPED = 52 - 23
"""Bits of a double's fraction that single precision does not have."""
_DATE = (1980, 1, 1, 0, 0, 0)
"""The same results are the same file."""
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, struct.error, zlib.error, zipfile.BadZipFile,
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
    parts = _parts(file, stamp(file), study.name)
    if not parts or not collector.missing.any():
        return 0
    places = {key: (part, row) for part in parts for row, key in enumerate(part.keys) if wanted <= set(part.arrays)}
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


class Packed(NamedTuple):
    """What became of a study: 'rounded' or 'exact', 'kept' from the file as it was, or why it is not in it."""

    study: str
    how: str
    bytes: int = 0


def write(
    file: Path,
    studies: Iterable[type[Study]],
    store: str | os.PathLike | None = None,
    tell: Callable[[Packed], None] = lambda packed: None,
) -> list[Packed]:
    """Write the quick results that a store has of studies; what it lacks is kept where the file has it, if still true.

    Studies that are not named stay as they are.
    """
    check_writable(file)
    studies = list(studies)
    members = {name: body for name in _names(file) if (body := _body(file, name)) is not None}
    outcomes = []
    with Store(store, create=False) as opened, Laboratory(opened) as laboratory:
        for study in studies:
            grids = preset_grids(study, PRESET)
            try:
                body, how = _packed(laboratory, study, grids)
            except Exception as error:  # one study must not cost the others their place
                body, how = None, f"{type(error).__name__}: {error}"
            if body is None and study.name in members and _is_current(members[study.name], study, grids):
                body, how = members[study.name], "kept"
            members.pop(study.name, None)
            if body is not None:
                members[study.name] = body
            outcomes.append(Packed(study.name, how, 0 if body is None else len(zlib.compress(body))))
            tell(outcomes[-1])
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in sorted(members):
                member = zipfile.ZipInfo(name, _DATE)
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, members[name], compresslevel=9)
        fresh.replace(file)
    except OSError as error:
        raise InputError(f"output {file} cannot be written: {error.strerror or error}") from None
    finally:
        fresh.unlink(missing_ok=True)
    return outcomes


def _packed(laboratory: Laboratory, study: type[Study], grids: Grids) -> tuple[bytes | None, str]:
    """The member of a study, and whether its numbers are rounded; None where the store lacks some of it."""
    collectors, _ = laboratory.load(study, grids)
    lacking = sum(int(collector.missing.sum()) for collector in collectors.values())
    if lacking:
        return None, f"{lacking} of {sum(grid.instances for grid in grids.values())} instances are not in the store"
    exact = {name: _part(collector, study) for name, collector in collectors.items()}
    rounded = {n: p._replace(arrays={k: _rounded(a) for k, a in p.arrays.items()}) for n, p in exact.items()}
    theory = {name: dataset.predicted(grid) for name, grid in grids.items()}
    same = _verdicts(study, grids, exact, theory) == _verdicts(study, grids, rounded, theory)
    return _written(rounded if same else exact), "rounded" if same else "exact"


def _part(collector: dataset.Collector, study: type[Study]) -> PackedPart:
    arrays = {name: collector.arrays[name] for name in study.simulated_outputs()}
    return PackedPart(tuple(point_keys(collector.grid, fingerprint(study))), collector.seconds, arrays)


def _verdicts(study: type[Study], grids: Grids, parts: Mapping[str, PackedPart], theory: Mapping[str, Any]) -> list:
    seen = {}
    for name, grid in grids.items():
        collector = dataset.Collector(grid)
        collector.put_all(parts[name].arrays)
        seen[name] = Part(collector.dataset(), theory[name])
    return [(found.verdict, found.kind) for found in (judge(claim, seen) for claim in study.claims)]


def _rounded(array: np.ndarray) -> np.ndarray:
    """Doubles to the nearest with a fraction of 23 bits; all other numbers as they are."""
    if array.dtype != np.float64:
        return array
    bits = np.ascontiguousarray(array).view(np.int64)
    near = ((bits + (1 << (_DROPPED - 1))) >> _DROPPED << _DROPPED).view(np.float64)
    return np.where(np.isfinite(array) & np.isfinite(near), near, array)


def _written(parts: Mapping[str, PackedPart]) -> bytes:
    header, pieces = {}, []
    for name, part in parts.items():
        layout = {output: [a.dtype.str, a.shape] for output, a in part.arrays.items()}
        header[name] = {"keys": b"".join(part.keys).hex(), "seconds": part.seconds, "outputs": layout}
        for array in part.arrays.values():
            size = array.dtype.itemsize
            pieces.append(np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).reshape(-1, size).T.tobytes())
    text = json.dumps(header).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *pieces])


def _read(body: bytes) -> tuple[PackedPart, ...]:
    (length,) = _LENGTH.unpack_from(body)
    header, at = json.loads(body[_LENGTH.size : _LENGTH.size + length]), _LENGTH.size + length
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


def _is_current(body: bytes, study: type[Study], grids: Grids) -> bool:
    """Whether a member is of this code and of these points and seeds."""
    try:
        parts = _read(body)
    except _DAMAGE:
        return False
    wanted = [(tuple(point_keys(grid, fingerprint(study))), grid.seeds) for grid in grids.values()]
    return [(part.keys, next(iter(part.arrays.values())).shape[1]) for part in parts] == wanted


@lru_cache(maxsize=8)
def _parts(file: Path, version: tuple[int, ...], study: str) -> tuple[PackedPart, ...]:
    """The parts of a study in a version of the file; none if it is not there or not whole."""
    if not version or study not in _names(file) or (body := _body(file, study)) is None:
        return ()
    try:
        return _read(body)
    except _DAMAGE as error:
        _warn(file, error)
        return ()


def _names(file: Path) -> list[str]:
    if not file.is_file():
        return []
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except _DAMAGE as error:
        _warn(file, error)
        return []


def _body(file: Path, study: str) -> bytes | None:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.read(study)
    except _DAMAGE as error:
        _warn(file, error)
        return None


def _warn(file: Path, error: Exception) -> None:
    warnings.warn(f"the shipped results {file.name} are damaged and not used ({error})", stacklevel=2)
