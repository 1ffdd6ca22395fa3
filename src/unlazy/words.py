"""Numbers and lists as sentences say them: the one way, for the laboratory, its reports and the diagnostics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any


def number(value: Any, digits: int = 4, *, decimals: int | None = None, missing: str = "–") -> str:
    """A number for people: so many significant digits, or decimals if given; whole numbers and words as they are."""
    if not isinstance(value, Real) or isinstance(value, Integral):
        return str(value)
    if math.isnan(value):
        return missing
    return f"{value:.{digits}g}" if decimals is None else f"{value:.{decimals}f}"


def listed(names: Sequence[str]) -> str:
    """'a, b and c'."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shown(values: Sequence[Any], most: int = 6, first: int = 2, last: int = 1) -> str:
    """Values of a parameter: all of them, or of more than `most` the first and the last ones."""
    texts = [number(value, 6) for value in values]
    return ", ".join(texts if len(texts) <= most else [*texts[:first], "…", *texts[-last:]])


def first_of(names: Sequence[Any], most: int) -> str:
    """The first few, and an ellipsis if there are more."""
    return ", ".join(map(str, names[:most])) + (", ..." if len(names) > most else "")
