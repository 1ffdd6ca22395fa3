"""Writing the shipped results, from a store that has all of them."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_writable
from unlazy.lab.grid import Grids, preset_grids
from unlazy.lab.judge import judge
from unlazy.lab.running import dataset
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.pack import DAMAGE, LENGTH, PackedPart, names, read, study_bytes
from unlazy.lab.running.plan import point_keys
from unlazy.lab.running.store import Store
from unlazy.lab.study import Part, Study

PRESET = "quick"
_DROPPED = 52 - 23
"""Bits of a double's fraction that single precision does not have."""
_DATE = (1980, 1, 1, 0, 0, 0)
"""The same results are the same file."""


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
    members = {name: body for name in names(file) if (body := study_bytes(file, name)) is not None}
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
    return b"".join([LENGTH.pack(len(text)), text, *pieces])


def _is_current(body: bytes, study: type[Study], grids: Grids) -> bool:
    """Whether a member is of this code and of these points and seeds."""
    try:
        parts = read(body)
    except DAMAGE:
        return False
    wanted = [(tuple(point_keys(grid, fingerprint(study))), grid.seeds) for grid in grids.values()]
    return [(part.keys, next(iter(part.arrays.values())).shape[1]) for part in parts] == wanted
