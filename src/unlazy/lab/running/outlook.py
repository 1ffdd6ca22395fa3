"""What a reproduction would cost, roughly: nothing is compiled and nothing is run.

The work of an instance of a traced study is counted in its jaxpr; that of a hosted one grows as its memory to the power
3/2, as linear algebra does, and is not known where the study does not say its memory. Seconds are those of stored
results, or those of the quick preset in the store times the ratio of the work, or the work at an assumed speed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.lab.grid import preset_grids
from unlazy.lab.running.execute import memory_budget
from unlazy.lab.running.laboratory import Laboratory, Work
from unlazy.lab.running.plan import Group, canonical
from unlazy.lab.running.store import default_path
from unlazy.lab.study import Study

_OPERATIONS_PER_SECOND = 1e9
"""What one core is assumed to do where no result is stored."""


class StudyCost(NamedTuple):
    """The cost of one study: memory is that of the largest instance, seconds are core seconds of what is missing.

    `basis` says what the seconds come from; they are NaN where nothing is known, and `error` says why a study cannot be
    planned.
    """

    study: str
    topic: str
    instances: int = 0
    missing: int = 0
    programs: int = 0
    bytes: int = 0
    seconds: float = math.nan
    basis: str = ""
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
        budget = memory_budget() if laboratory.budget is None else laboratory.budget
        for cls in studies:
            tell(cls.name)
            try:
                found.append(_cost(laboratory, cls, preset))
            except Exception as error:
                found.append(StudyCost(cls.name, cls.topic, error=f"{type(error).__name__}: {error}"))
    return Outlook(preset, found, budget)


def _cost(laboratory: Laboratory, study: type[Study], preset: str) -> StudyCost:
    grids = preset_grids(study, preset)
    for grid in grids.values():
        grid.validate()
    work = laboratory.load(study, grids)[1]
    known = laboratory.store.seconds_per_instance(study.name, work[0].group.fingerprint)
    sizes = [_size(w.group) for w in work]
    stored = [_stored(w.group, known) for w in work]
    reference = _reference(laboratory, study, known) if None in stored else None
    seconds, bases = 0.0, []
    for one, (operations, _), rate in zip(work, sizes, stored, strict=True):
        if not one.missing:
            continue
        if rate is not None:
            basis = "stored"
        elif reference is not None:
            largest, rate = reference
            rate, basis = (rate * operations / largest, "quick, scaled") if largest else (rate, "as quick, at least")
        elif study.is_hosted():
            rate, basis = math.nan, "unknown: run quick first"
        else:
            rate, basis = operations / _OPERATIONS_PER_SECOND, "1 Gflop/s, assumed"
        seconds += rate * len(one.missing)
        bases.append(basis)
    return StudyCost(
        study.name,
        study.topic,
        sum(g.size * g.seeds for g in grids.values()),
        sum(len(w.missing) for w in work),
        0 if study.is_hosted() else len(work),
        max(needed for _, needed in sizes),
        seconds,
        ", ".join(dict.fromkeys(bases)) or "stored",
    )


def _stored(group: Group, known: dict[str, float]) -> float | None:
    """The seconds per instance of a group, if any of its points is stored."""
    texts = (canonical({**group.shared, **values}) for values in group.points.values())
    rates = [known[text] for text in texts if text in known]
    return sum(rates) / len(rates) if rates else None


def _reference(laboratory: Laboratory, study: type[Study], known: dict[str, float]) -> tuple[float, float] | None:
    """The work and the seconds of an instance of the quick preset: of its largest group that is stored."""
    if not known:
        return None
    work: list[Work] = laboratory.load(study, preset_grids(study, "quick"))[1]
    timed = [(w.group, rate) for w in work if (rate := _stored(w.group, known)) is not None]
    return max(((_size(group)[0], rate) for group, rate in timed), default=None)


def _size(group: Group) -> tuple[float, int]:
    """The work of one instance of a group in operations, and its memory in bytes."""
    study = group.grid.study
    points = [{**group.shared, **values} for values in group.points.values()]
    if study.is_hosted():
        needed = max(study(**point).memory() for point in points)
        return float(needed) ** 1.5, needed
    return _traced_size(study, group.shared, points[0])


def _traced_size(study: type[Study], shared: Any, point: Any) -> tuple[float, int]:
    import jax

    kinds = study.parameters()
    real = np.dtype(study.precision)
    whole = np.dtype("int64" if real == np.float64 else "int32")
    statics = {n: v for n, v in shared.items() if kinds[n].kind == "static"}
    arrays = {n: np.asarray(v, whole if kinds[n].type is int else real) for n, v in point.items() if n not in statics}

    def one(words: Any, values: Any) -> Any:
        return dict(study(**statics, **values).simulate(jax.random.wrap_key_data(words, impl="threefry2x32")))

    with jax.enable_x64(study.precision == "float64"):
        traced = jax.make_jaxpr(one)(np.zeros(2, np.uint32), arrays)
    return operations(traced.jaxpr), peak_bytes(traced.jaxpr)


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
