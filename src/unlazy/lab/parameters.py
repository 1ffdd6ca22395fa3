"""The parameters of a study: three kinds, their types and what values they may take."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError, check_choice
from unlazy.words import brief, shown

if TYPE_CHECKING:
    import numpy as np

MOST_POINTS = 10**7
"""More points than this no grid has; it is counted before it is made."""
_EXACT = 2**53
"""From here on not all integers are numbers in double precision."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a study: its kind, its type and what values it may take."""

    kind: str
    default: Any
    label: str
    symbol: str
    low: float | None
    high: float | None
    above: float | None
    choices: tuple | None
    scale: str
    paired: bool
    short: str = ""
    name: str = ""

    @property
    def type(self) -> type:
        return type(self.default[0]) if self.kind == "path" else type(self.default)

    @property
    def allowed(self) -> str:
        """What the parameter may be, in words."""
        if self.choices is not None:
            return "one of " + ", ".join(map(str, self.choices))
        noun = {int: "an integer", float: "a number", bool: "true or false", str: "a name"}[self.type]
        bounds = [
            f"{sign} {bound:g}"
            for sign, bound in ((">=", self.low), (">", self.above), ("<=", self.high))
            if bound is not None
        ]
        return " ".join([noun, " and ".join(bounds)]).strip()

    def coerce(self, value: Any) -> Any:
        """`value` in the canonical form of this parameter, or an InputError that says what is allowed."""
        if self.kind != "path":
            return self.coerce_one(value)
        values = tuple(map(self.coerce_one, entries(self.name, value)))
        if not values:
            raise InputError(f"{self.name} must have at least one value, got none")
        if len(set(values)) < len(values):
            raise InputError(f"{self.name} must not repeat a value, got {shown(values)}")
        return values

    def coerce_one(self, value: Any) -> Any:
        """A single value in canonical form: an entry of a path or an axis."""
        import numpy as np

        if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0:
            value = value.item()
        if self.choices is not None:
            named = {str(choice): choice for choice in self.choices}
            return named[check_choice(self.name, value if isinstance(value, list | tuple) else str(value), named)]
        if self.type is str:
            if not isinstance(value, str) or not value.isprintable():
                raise self._wrong(value)
            return value
        if self.type is bool:
            lowered = str(value).lower()
            if lowered not in ("true", "false"):
                raise self._wrong(value)
            return lowered == "true"
        # An array with one entry is a number for NumPy; here it is an axis inside an axis.
        single = isinstance(value, str | int | float) or (hasattr(value, "__float__") and np.ndim(value) == 0)
        if isinstance(value, bool) or not single:
            raise self._wrong(value)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self._wrong(value) from None
        outside = (
            not math.isfinite(number)
            or (self.low is not None and number < self.low)
            or (self.high is not None and number > self.high)
            or (self.above is not None and number <= self.above)
        )
        if outside:
            raise self._wrong(value)
        if self.type is int:
            if not number.is_integer():
                raise self._wrong(value)
            if abs(number) >= _EXACT:
                raise InputError(f"{self.name} must be below 2^53 in size, got {brief(value)}")
            return int(number)
        # Twelve digits: 0.1 + 0.2 and 0.3 are the same point of a grid and must have one key.
        return float(f"{number:.12g}") + 0.0

    def _wrong(self, value: Any) -> InputError:
        return InputError(f"{self.name} must be {self.allowed}, got {brief(value)}")


def entries(name: str, values: Any) -> Sequence | np.ndarray:
    """The values of a path or an axis: those of a list or an array, or the only one."""
    import numpy as np

    if isinstance(values, str | Real):
        return (values,)
    if hasattr(values, "__array__"):
        values = np.atleast_1d(np.asarray(values))
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, bytes | bytearray | memoryview):
        raise InputError(f"{name} must be a value or a list of values, got {brief(values)}")
    try:
        check_count(name, len(values))
    except OverflowError:
        raise InputError(f"{name} must have at most {MOST_POINTS} values, got {brief(values)}") from None
    return values


def check_count(name: str, count: int) -> None:
    """Refuse more points than a grid may have."""
    if count > MOST_POINTS:
        raise InputError(f"{name} must have at most {MOST_POINTS} values, got {brief(count)}")


def _declare(
    kind: str,
    default: Any,
    label: str,
    *,
    symbol: str = "",
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: Iterable | None = None,
    scale: str = "linear",
    paired: bool = False,
    short: str = "",
) -> Any:
    check_choice("scale", scale, ("linear", "log"))
    allowed = None if choices is None else tuple(choices)
    parameter = Parameter(kind, default, label, symbol, low, high, above, allowed, scale, paired, short)
    return dataclasses.field(default=default, metadata={"parameter": parameter})


def static(default: Any, label: str, **options: Any) -> Any:
    """A parameter that changes shapes or the program: a size, a number of steps, a name, a switch.

    Options of all kinds: `symbol` (TeX), inclusive bounds `low` and `high`, exclusive bound `above`, `choices`,
    `scale` ("log" for ranges and axes), `short`, the label where there is little room, and `paired=True`, which keeps
    the parameter out of the random key so that the arms of a comparison see the same data.
    """
    return _declare("static", default, label, **options)


def value(default: float, label: str, **options: Any) -> Any:
    """A traced number: instances that differ only in values run in one compiled program. Options as in `static`."""
    return _declare("value", default, label, **options)


def path(default: tuple, label: str, **options: Any) -> Any:
    """A vector that one instance evaluates at once and that is a dimension of its outputs. Options as in `static`."""
    return _declare("path", tuple(default), label, **options)
