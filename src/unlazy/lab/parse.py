"""The one place where values of parameters meet text: numbers, integers, booleans, names, lists, ranges.

`parse_set` and `parse_over` read the command line's form, `as_text` writes it; `unlazy.words` is for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unlazy.checks import InputError
from unlazy.lab.grid import spread
from unlazy.lab.parameters import Parameter
from unlazy.lab.study import Study


def parse_set(study: type[Study], entries: Iterable[str]) -> dict[str, Any]:
    """`name=value` entries as typed parameters; a path takes a list."""
    parsed = {}
    for parameter, text in _split(study, entries, "--set"):
        if parameter.kind == "path":
            parsed[parameter.name] = parameter.coerce(_values(parameter, text))
        else:
            parsed[parameter.name] = parameter.coerce(text)
    return parsed


def parse_over(study: type[Study], entries: Iterable[str]) -> dict[str, list]:
    """`name=a,b,c` or `name=start:stop:steps` entries as typed axes.

    A range is spaced geometrically where the parameter's scale is logarithmic, unless it ends in `:lin` or `:log`.
    """
    return {p.name: _values(p, text) for p, text in _split(study, entries, "--over")}


def as_text(value: Any) -> str:
    """A value or a list of them in the command line's form."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return ",".join(as_text(v) for v in value)


def _split(study: type[Study], entries: Iterable[str], option: str) -> list[tuple[Parameter, str]]:
    pairs, seen = [], set()
    for entry in entries:
        name, equals, text = entry.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not text.strip():
            raise InputError(f"{option} must be name=value, got {entry!r}")
        if name in seen:
            raise InputError(f"{option} names the parameter {name!r} twice")
        seen.add(name)
        pairs.append((study.parameter(name), text.strip()))
    return pairs


def _values(parameter: Parameter, text: str) -> list:
    values: list = []
    for item in text.split(","):
        item = item.strip()
        if not item:
            raise InputError(f"{parameter.name} has an empty entry in {text!r}")
        values += _range(parameter, item) if ":" in item and parameter.type in (int, float) else [item]
    return [parameter.coerce_one(v) for v in values]


def _range(parameter: Parameter, text: str) -> list:
    ends = text.split(":")
    scale = parameter.scale
    if ends[-1] in ("log", "lin"):
        scale = "log" if ends.pop() == "log" else "linear"
    if len(ends) != 3 or not ends[2].isdecimal() or int(ends[2]) < 1:
        raise InputError(f"{parameter.name}: a range is start:stop:steps with steps >= 1, got {text!r}")
    start, stop = parameter.coerce_one(ends[0]), parameter.coerce_one(ends[1])
    if scale == "log" and not (start > 0 and stop > 0):
        raise InputError(
            f"{parameter.name}: a geometric range needs ends > 0, got {text!r}; add :lin or list the values"
        )
    numbers = spread(start, stop, int(ends[2]), scale)
    if parameter.type is int:
        return sorted({round(v) for v in numbers}, reverse=stop < start)
    return numbers
