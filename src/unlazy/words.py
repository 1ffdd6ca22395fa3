"""Numbers and lists as sentences say them: the one way, for the laboratory, its reports and the diagnostics.

And text that others wrote: `plain` and `in_one_line` let none of it command a terminal or turn a page around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

_COMMANDS = {
    code: ascii(chr(code))[1:-1]
    for code in (
        *(code for code in range(0xA0) if not 0x20 <= code < 0x7F and chr(code) not in "\n\t"),
        *(0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)),
        *range(0xD800, 0xE000),
    )
}
"""Control characters but for the line feed and the tab; separators and marks that turn the direction of text; halves of
characters, as undecodable file names have: each as Python writes it."""


def plain(text: str) -> str:
    """Text of a user as a terminal or a page may show it: control characters are written out, lines stay lines."""
    return text.translate(_COMMANDS)


def in_one_line(text: str, most: int = 1000) -> str:
    """`plain` text with all white space folded, and without its middle if it has more than `most` characters."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most * 2 // 3]} … {line[-most // 4 :]}"


def brief(value: Any, most: int = 80) -> str:
    """A value in one short line: itself, or its kind and shape."""
    try:
        text = repr(value)
    except Exception:
        # An integer of more than 4,300 digits has no text.
        return f"a {type(value).__name__}"
    if len(text) <= most and "\n" not in text:
        return text
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + (
        f" of shape {tuple(shape)}" if shape is not None else f" of {len(text)} characters"
    )


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
