"""What a run would cost, roughly, without storing anything.

The work of an instance of a traced study is counted in its jaxpr; that of a hosted one grows as its memory to the power
3/2, as linear algebra does, and is not known where the study does not say its memory. Seconds are those of stored
results, else those of a chunk that is run for it if that is allowed, else those of the quick preset in the store times
the ratio of the work, else the work at an assumed speed; of the papers' sizes those on record, where there are any.
Compiling takes what the number of equations lets expect.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.lab.grid import Grids, preset_grids
from unlazy.lab.running.arithmetic import cache_folder, cores
from unlazy.lab.running.evidence import core_seconds
from unlazy.lab.running.execute import run_chunk, too_large, traced
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.plan import Group, PointSeed, canonical, canonical_points, group_points
from unlazy.lab.running.store import Store, default_path
from unlazy.lab.study import Study

_OPERATIONS_PER_SECOND = 1e9
"""What one core is assumed to do where no result is stored."""
_MEASURE_SECONDS = 10.0
"""After this long no further program is timed; the rest is extrapolated."""
_EQUATION_SECONDS = 0.007
"""What compiling takes for an equation of a jaxpr, with the program that proves the other: in 17 .002 to .01."""
_PROGRAM_SECONDS = 6.0
_STUDY_SECONDS = 3.0
"""What compiling a program of unknown length takes, and all else in a study of unknown length."""


class Cost(NamedTuple):
    """The cost of one program; a hosted study has one for each of its sizes.

    Bytes are those of the instances that run at the same time; seconds are those of the missing instances on all cores
    without compilation, NaN where nothing is known, and `known_from` says what they come from; `compile_seconds` are
    those of a program that is not yet compiled.
    """

    part: str
    sizes: Mapping[str, Any]
    instances: int
    missing: int
    instances_at_once: int
    bytes: int
    seconds: float
    known_from: str
    instance_bytes: int
    core_seconds: float
    compile_seconds: float


class StudyCost(NamedTuple):
    """The cost of one study: memory is that of the largest instance, seconds are core seconds of what is missing.

    `known_from` says what the seconds come from; they are NaN where nothing is known, and `error` says why a study
    cannot be planned.
    """

    study: str
    topic: str
    instances: int = 0
    missing: int = 0
    programs: int = 0
    bytes: int = 0
    seconds: float = math.nan
    known_from: str = ""
    error: str | None = None


class Outlook(NamedTuple):
    """The costs of many studies and the memory that one instance may have."""

    preset: str
    studies: list[StudyCost]
    budget: int

    @property
    def core_seconds(self) -> float:
        return float(np.nansum([c.seconds for c in self.studies]))

    @property
    def too_large(self) -> list[StudyCost]:
        return [c for c in self.studies if c.bytes > self.budget]

    def as_json(self) -> dict[str, Any]:
        return {
            "preset": self.preset,
            "studies": [c._asdict() for c in self.studies],
            "core_seconds": self.core_seconds,
            "memory": self.budget,
        }


def outlook(
    studies: Sequence[type[Study]],
    preset: str,
    store: Any = None,
    memory: float | None = None,
    tell: Callable[[str], None] = lambda name: None,
) -> Outlook:
    """The cost of every study; one that cannot be planned says why. A store that is not there is not made."""
    found = []
    path = default_path() if store is None else store
    absent = isinstance(path, str | os.PathLike) and not Path(path).exists()
    with Laboratory(":memory:" if absent else path, memory=memory) as laboratory:
        budget = laboratory.free()
        for cls in studies:
            tell(cls.name)
            try:
                whole = _whole(cls, costs(laboratory, cls, preset_grids(cls, preset)))
                on_record = core_seconds(cls, preset)
                if on_record is not None and whole.known_from != "stored":
                    share = whole.missing / whole.instances
                    whole = whole._replace(seconds=on_record * share, known_from="on record")
                found.append(whole)
            except Exception as error:
                found.append(StudyCost(cls.name, cls.topic, error=f"{type(error).__name__}: {error}"))
    return Outlook(preset, found, budget)


def _whole(study: type[Study], programs: Sequence[Cost]) -> StudyCost:
    return StudyCost(
        study.name,
        study.topic,
        sum(c.instances for c in programs),
        sum(c.missing for c in programs),
        0 if study.is_hosted() else len(programs),
        max(c.instance_bytes for c in programs),
        sum(c.core_seconds + c.compile_seconds for c in programs if c.missing),
        ", ".join(dict.fromkeys(c.known_from for c in programs if c.missing)) or "stored",
    )


def costs(laboratory: Laboratory, study: type[Study], grids: Grids, measure: bool = False) -> list[Cost]:
    """The cost of every program of a run; `measure` runs a chunk of those that were never run."""
    for grid in grids.values():
        grid.validate()
    budget = laboratory.free()
    work = laboratory.load(study, grids)[1]
    groups = [w.group for w in work]
    sizes = [_size(group) for group in groups]
    rates = _rates(laboratory, study, groups, sizes, budget if measure else 0)
    varying = {n for n in study.parameters() if len({canonical(group.shared.get(n)) for group in groups}) > 1}
    found = []
    for one, size, (rate, basis) in zip(work, sizes, rates, strict=True):
        group, missing = one.group, len(one.missing)
        if measure and size.bytes > budget:
            raise too_large(study, size.bytes, budget)
        # A chunk that does not fit is halved until it does.
        width = 1 if study.is_hosted() else group.width
        while width > 1 and size.bytes * width > budget:
            width //= 2
        together = 1 if size.alone else max(1, min(cores(), budget // (size.bytes * width or 1)))
        found.append(
            Cost(
                group.grid.part,
                {n: v for n, v in group.shared.items() if n in varying},
                len(group.points) * group.grid.seeds,
                missing,
                width,
                size.bytes * width * together,
                rate * missing / together,
                basis,
                size.bytes,
                rate * missing,
                _EQUATION_SECONDS * size.equations * bool(missing),
            )
        )
    return found


def _rates(
    laboratory: Laboratory, study: type[Study], groups: Sequence[Group], sizes: Sequence[_Size], budget: int
) -> list[tuple[float, str]]:
    """The seconds per instance of every group, and what they come from; a budget of memory allows to measure."""
    known = laboratory.store.seconds_per_instance(study.name, groups[0].fingerprint)
    rates: dict[int, tuple[float, str]] = {
        i: (rate, "stored") for i, group in enumerate(groups) if (rate := _stored(group, known)) is not None
    }
    lacking = sorted(set(range(len(groups))) - rates.keys(), key=lambda i: sizes[i].bytes)
    start, measured = time.perf_counter(), None
    reference = _reference(laboratory, study, known) if lacking and not budget else None
    for i in lacking:
        if budget and (measured is None or time.perf_counter() - start < _MEASURE_SECONDS):
            rates[i], measured = (_measure(groups[i], budget), "measured"), i
        elif measured is not None:
            scale = (sizes[i].operations or 1.0) / (sizes[measured].operations or 1.0)
            rates[i] = rates[measured][0] * scale, "extrapolated"
        elif reference is not None:
            work, rate = reference
            rates[i] = (rate * sizes[i].operations / work, "quick, scaled") if work else (rate, "as quick, at least")
        elif study.is_hosted():
            rates[i] = math.nan, "unknown: run quick first"
        else:
            rates[i] = sizes[i].operations / _OPERATIONS_PER_SECOND, "1 Gflop/s, assumed"
    return [rates[i] for i in range(len(groups))]


def _stored(group: Group, known: Mapping[str, float]) -> float | None:
    """The seconds per instance of a group, if any of its points is stored."""
    texts = canonical_points(group.grid, group.points) if known else ()
    rates = [known[text] for text in texts if text in known]
    return sum(rates) / len(rates) if rates else None


def _reference(laboratory: Laboratory, study: type[Study], known: Mapping[str, float]) -> tuple[float, float] | None:
    """The work and the seconds of an instance of the quick preset: of its largest group that is stored."""
    if not known:
        return None
    groups = [w.group for w in laboratory.load(study, preset_grids(study, "quick"))[1]]
    timed = [(group, rate) for group in groups if (rate := _stored(group, known)) is not None]
    return max(((_size(group).operations, rate) for group, rate in timed), default=None)


def _measure(group: Group, budget: int) -> float:
    """Seconds per instance of one chunk."""
    pairs = itertools.product(group.points.tolist(), range(group.grid.seeds))
    instances = [PointSeed(*pair) for pair in itertools.islice(pairs, group.width)]
    return run_chunk(group.chunk(instances), budget).seconds / len(instances)


def known_rates(store: Store) -> dict[str, float]:
    """The seconds per instance of every study in a store, by whichever code was slowest."""
    rates: dict[str, float] = {}
    for c in store.contents():
        rates[c.study] = max(rates.get(c.study, 0.0), c.seconds / c.instances)
    return rates


def expected_seconds(
    study: type[Study],
    grids: Grids,
    missing: int,
    rate: float | None = None,
    whole: float | None = None,
) -> float:
    """A guess without a jaxpr: from the seconds per instance or of the whole, else by the number of programs."""
    programs = 0 if study.is_hosted() else sum(len(group_points(g, "")) for g in grids.values())
    if rate is not None:
        return rate * missing + _PROGRAM_SECONDS * programs
    if whole is None:
        whole = _STUDY_SECONDS + _PROGRAM_SECONDS * programs
    return whole * missing / sum(g.instances for g in grids.values())


class _Size(NamedTuple):
    """Of one instance: the work in operations, the memory in bytes, whether it runs alone, as LAPACK does, and the
    length of its program."""

    operations: float
    bytes: int
    alone: bool
    equations: int = 0


def _size(group: Group) -> _Size:
    study = group.grid.study
    if study.is_hosted():
        points = group.points.tolist() if study.defines("memory") else ()
        needed = max((study(**group.grid.point(point)).memory() for point in points), default=0)
        return _Size(float(needed) ** 1.5, needed, False)
    chunk = group.chunk([PointSeed(int(group.points[0]), 0)])
    known = _known_sizes()
    name = hashlib.sha256(f"{chunk.program} {version('jax')}".encode()).hexdigest()[:24]
    if name not in known:
        jaxpr = traced(chunk)
        size = _Size(operations(jaxpr), peak_bytes(jaxpr), _has_lapack(jaxpr), _equations(jaxpr))
        known[name] = size
        with suppress(OSError):
            _sizes_file().parent.mkdir(parents=True, exist_ok=True)
            with _sizes_file().open("a") as file:
                file.write(json.dumps([name, *size]) + "\n")
    return known[name]


def _sizes_file() -> Path:
    return cache_folder() / "program_sizes"


@cache
def _known_sizes() -> dict[str, _Size]:
    """The sizes of programs that were traced before: to trace those of all studies takes half a minute."""
    found = {}
    with suppress(OSError):
        for line in _sizes_file().read_text().splitlines():
            with suppress(ValueError, TypeError):
                name, *size = json.loads(line)
                found[name] = _Size(*size)
    return found


def operations(jaxpr: Any) -> float:
    """Arithmetic operations of a jaxpr; a loop of unknown length counts once, of branches the longest counts."""
    total = 0.0
    for equation in jaxpr.eqns:
        name, inner = equation.primitive.name, [operations(j) for j in _inner(equation)]
        results = sum(_length(v) for v in equation.outvars)
        if name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            total += 2 * results * math.prod(equation.invars[0].aval.shape[i] for i in contracted)
        elif name in _CUBIC:
            total += _length(equation.invars[0]) * max(equation.invars[0].aval.shape)
        elif name == "scan":
            total += equation.params["length"] * sum(inner)
        elif inner:
            total += max(inner) if name == "cond" else sum(inner)
        else:
            total += results
    return total


_CUBIC = {"cholesky", "eigh", "svd", "lu", "qr", "geqrf", "triangular_solve", "householder_product", "eig", "schur"}


def peak_bytes(jaxpr: Any) -> int:
    """The most bytes that are in use at once if nothing is fused and everything is freed after its last use."""
    last = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.invars if not hasattr(v, "val")}
    kept = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    live = sum(_bytes(v) for v in (*jaxpr.invars, *jaxpr.constvars))
    most = live
    for i, equation in enumerate(jaxpr.eqns):
        live += sum(_bytes(v) for v in equation.outvars)
        most = max(most, live + max((peak_bytes(j) for j in _inner(equation)), default=0))
        free = {v for v in equation.invars if not hasattr(v, "val") and last.get(v) == i and v not in kept}
        unused = {v for v in equation.outvars if v not in last and v not in kept}
        live -= sum(_bytes(v) for v in free | unused)
    return most


def _has_lapack(jaxpr: Any) -> bool:
    return any(e.primitive.name in _CUBIC or any(map(_has_lapack, _inner(e))) for e in jaxpr.eqns)


def _equations(jaxpr: Any) -> int:
    return sum(1 + sum(map(_equations, _inner(equation))) for equation in jaxpr.eqns)


def _inner(equation: Any) -> list[Any]:
    """The jaxprs inside an equation: bodies of loops, branches, calls."""
    found = []
    for value in equation.params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            one = getattr(one, "jaxpr", one)
            if hasattr(one, "eqns"):
                found.append(one)
    return found


def _length(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _bytes(variable: Any) -> int:
    kind = getattr(variable.aval, "dtype", None)
    return _length(variable) * int(getattr(kind, "itemsize", 8))
