"""The parameters of a study: three kinds, their types and what values they may take."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError, check_choice


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
        if isinstance(value, str) or not isinstance(value, Iterable):
            value = (value,)
        values = tuple(self.coerce_one(v) for v in value)
        if not values:
            raise InputError(f"{self.name} must have at least one value, got none")
        if len(set(values)) < len(values):
            raise InputError(f"{self.name} must not repeat a value, got {', '.join(map(str, values))}")
        return values

    def coerce_one(self, value: Any) -> Any:
        """A single value in canonical form: an entry of a path or an axis."""
        if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0:
            value = value.item()
        if self.choices is not None:
            named = {str(choice): choice for choice in self.choices}
            return named[check_choice(self.name, str(value), named)]
        wrong = InputError(f"{self.name} must be {self.allowed}, got {value!r}")
        if self.type is str:
            if not isinstance(value, str):
                raise wrong
            return value
        if self.type is bool:
            lowered = str(value).lower()
            if lowered not in ("true", "false"):
                raise wrong
            return lowered == "true"
        if isinstance(value, bool):
            raise wrong
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise wrong from None
        outside = (
            not math.isfinite(number)
            or (self.low is not None and number < self.low)
            or (self.high is not None and number > self.high)
            or (self.above is not None and number <= self.above)
        )
        if outside:
            raise wrong
        if self.type is int:
            if not number.is_integer():
                raise wrong
            return int(number)
        # Twelve digits: 0.1 + 0.2 and 0.3 are the same point of a grid and must have one key.
        return float(f"{number:.12g}") + 0.0


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
