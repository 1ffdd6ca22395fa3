"""The one place where values of parameters meet text: numbers, integers, booleans, names, lists, ranges.

`parse_set` and `parse_over` read the command line's form, `as_text` writes it; `unlazy.words` is for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from unlazy.checks import InputError
from unlazy.lab.grid import check_size, spread
from unlazy.lab.parameters import MOST_POINTS, Parameter, check_count
from unlazy.lab.study import Study
from unlazy.words import brief


def parse_set(study: type[Study], entries: Iterable[str]) -> dict[str, Any]:
    """`name=value` entries as typed parameters; a path takes a list."""
    parsed = {}
    for parameter, text in _split(study, entries, "--set"):
        if parameter.kind == "path":
            parsed[parameter.name] = parameter.coerce(_values(parameter, _items(parameter, text)))
        else:
            parsed[parameter.name] = parameter.coerce(text)
    return parsed


def parse_over(study: type[Study], entries: Iterable[str]) -> dict[str, list]:
    """`name=a,b,c` or `name=start:stop:steps` entries as typed axes; they are counted before they are made.

    A range is spaced geometrically where the parameter's scale is logarithmic, unless it ends in `:lin` or `:log`.
    """
    given = [(p, _items(p, text)) for p, text in _split(study, entries, "--over")]
    check_size(_count(items) for p, items in given if p.kind != "path")
    return {p.name: _values(p, items) for p, items in given}


def as_text(value: Any) -> str:
    """A value or a list of them in the command line's form."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return ",".join(as_text(v) for v in value)


def parse_duration(text: str) -> float:
    """Seconds of a text such as '90s', '30m', '2h' or '1h30m'."""
    found = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", text.strip())
    seconds = sum(float(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else 0
    if not 0 < seconds < 1e9:
        raise InputError(f"a time must be such as 90s, 30m, 2h or 1h30m, got {brief(text)}")
    return seconds


def _split(study: type[Study], entries: Iterable[str], option: str) -> list[tuple[Parameter, str]]:
    pairs, seen = [], set()
    for entry in entries:
        name, equals, text = entry.partition("=")
        name = name.strip().replace("-", "_")
        # of a text such as a folder nothing is a value
        if not equals or not (text.strip() or (name in study.parameters() and study.parameter(name).default == "")):
            raise InputError(f"{option} must be name=value, got {brief(entry)}")
        if name in seen:
            raise InputError(f"{option} names the parameter {brief(name)} twice")
        seen.add(name)
        pairs.append((study.parameter(name), text.strip()))
    return pairs


class _Range(NamedTuple):
    """`start:stop:steps` of a parameter, before it is made; integers are rounded and do not repeat."""

    parameter: Parameter
    start: Any
    stop: Any
    steps: int
    scale: str

    def __len__(self) -> int:
        """At most how many values it has."""
        return min(self.steps, abs(self.stop - self.start) + 1) if self.parameter.type is int else self.steps

    def values(self) -> list:
        numbers = spread(self.start, self.stop, self.steps, self.scale)
        if self.parameter.type is int:
            return sorted({round(v) for v in numbers}, reverse=self.stop < self.start)
        return numbers


def _items(parameter: Parameter, text: str) -> list[str | _Range]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise InputError(f"{parameter.name} has an empty entry in {brief(text)}")
    ranges = parameter.type in (int, float)
    return [_range(parameter, item) if ":" in item and ranges else item for item in items]


def _count(items: Iterable[str | _Range]) -> int:
    return sum(len(item) if isinstance(item, _Range) else 1 for item in items)


def _values(parameter: Parameter, items: Iterable[str | _Range]) -> list:
    check_count(parameter.name, _count(items))
    values: list = []
    for item in items:
        values += item.values() if isinstance(item, _Range) else [item]
    return [parameter.coerce_one(v) for v in values]


def _range(parameter: Parameter, text: str) -> _Range:
    ends = text.split(":")
    scale = parameter.scale
    if ends[-1] in ("log", "lin"):
        scale = "log" if ends.pop() == "log" else "linear"
    # Python reads no integers of thousands of digits.
    steps = int(ends[2]) if len(ends) == 3 and ends[2].isdecimal() and len(ends[2]) < 100 else 0
    if not 1 <= steps <= MOST_POINTS:
        raise InputError(
            f"{parameter.name}: a range is start:stop:steps with steps >= 1 and <= {MOST_POINTS}, got {brief(text)}"
        )
    start, stop = parameter.coerce_one(ends[0]), parameter.coerce_one(ends[1])
    if scale == "log" and not (start > 0 and stop > 0):
        raise InputError(
            f"{parameter.name}: a geometric range needs ends > 0, got {brief(text)}; add :lin or list the values"
        )
    return _Range(parameter, start, stop, steps, scale)
