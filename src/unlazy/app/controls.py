"""Which control a parameter gets, and where a slider can stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.lab.parameters import Parameter
from unlazy.lab.parse import as_text
from unlazy.plotting import style

_POSITIONS = 48


class Control(NamedTuple):
    """A slider over `options`, a choice among them, a switch, or a field for a list in the command line's form."""

    kind: str
    label: str
    options: tuple
    value: Any


def control(parameter: Parameter, value: Any, known: Iterable[Any] = ()) -> Control:
    """The control of a parameter that stands at `value`; a slider can also take the `known` values."""
    words = style.label(parameter.label, parameter.symbol)
    if parameter.kind == "path":
        return Control("text", words, (), as_text(value))
    if parameter.type is bool:
        return Control("switch", words, (False, True), value)
    if parameter.choices is not None:
        return Control("choice", words, parameter.choices, value)
    if parameter.type is str:
        return Control("text", words, (), value)
    return Control("slider", words, tuple(steps(parameter, value, known)), value)


def steps(parameter: Parameter, value: float, known: Iterable[Any] = (), reach: float = 20.0) -> list:
    """The positions of a slider: rounded numbers around the value, its default and the known ones, within bounds.

    They are spaced evenly where the bounds are near, and geometrically, with zero where it is allowed, where the
    parameter may grow over orders of magnitude.
    """
    fixed = {parameter.coerce_one(v) for v in (value, parameter.default, *known)}
    low = parameter.low if parameter.low is not None else parameter.above
    high = parameter.high
    largest = max(abs(v) for v in fixed) or 1.0
    narrow = low is not None and high is not None and high - low <= reach * largest and parameter.scale != "log"
    if narrow:
        assert low is not None
        assert high is not None
        spaced = np.linspace(low, high, _POSITIONS + 1)
    elif low is not None and low >= 0:
        positive = [v for v in fixed if v > 0] or [1.0]
        start = max(min(positive) / reach, low)
        stop = min(max(positive) * reach, np.inf if high is None else high)
        spaced = np.geomspace(start or min(positive) / reach, max(stop, start), _POSITIONS)
        spaced = np.append(spaced, low) if low == 0 else spaced
    else:
        ends = (-reach / 4 * largest, reach / 4 * largest)
        spaced = np.linspace(
            max(ends[0], -np.inf if low is None else low),
            min(ends[1], np.inf if high is None else high),
            _POSITIONS + 1,
        )
    found = set(fixed)
    for number in spaced:
        rounded = round(number) if parameter.type is int else float(f"{number:.2g}")
        if parameter.type is int and rounded > 100:
            rounded = int(float(f"{rounded:.2g}"))
        try:
            found.add(parameter.coerce_one(rounded))
        except InputError:
            continue
    return sorted(found)
