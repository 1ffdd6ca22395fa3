"""What figures show of a run: the data of a part, what is picked of them, and how parameters and outputs are called."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from unlazy.plotting import style
from unlazy.plotting.panels import Shown

if TYPE_CHECKING:
    import xarray as xr

_LABEL = 32
"""Letters of an axis' label in a line."""
_LETTERS = 13
"""Letters of a title in an inch of a panel with its axis."""
_MARKUP = re.compile(r"\\(?:mathrm|mathcal|sqrt|[,;!])|\\(?=[a-zA-Z])|[${}^_]")
"""What is not seen of a formula."""


class Described(Protocol):
    """What figures ask of a study: its parameters and outputs by name; each has label, short, symbol and scale."""

    outputs: ClassVar[Mapping[str, Any]]

    @classmethod
    def parameters(cls) -> Mapping[str, Any]: ...

    @classmethod
    def simulated_outputs(cls) -> list[str]: ...


class Picture(NamedTuple):
    """One part of a run as figures see it: also `lines`, the theory on a denser grid, and what `derive` gave.

    Curves fitted to the simulation share its error, which no interval would know: claims do not see them.
    """

    simulated: Any
    predicted: Any
    lines: Any
    derived: Any = None


def shown_values(data: xr.Dataset | None, shown: Shown) -> xr.DataArray | None:
    """What is shown of a dataset; None if it is not there."""
    if data is None:
        return None
    if isinstance(shown, str):
        return data.get(shown)
    try:
        return shown(data)
    except (AttributeError, KeyError):
        return None


def chosen(values: Any, kept: tuple[str, ...], at: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The data at the values in `at`, else at the last value, of every dimension that is not kept; and those values."""
    taken = {}
    for dim in [d for d in values.dims if d not in (*kept, "seed")]:
        index = values.sizes[dim] - 1
        for name, wanted in at.items():
            if name in values.coords and values[name].dims == (dim,) and wanted in values[name].values:
                index = int(np.flatnonzero(values[name].values == wanted)[0])
        if values.sizes[dim] > 1:
            taken[dim] = values[dim].values[index]
        values = values.isel({dim: index})
    return values, taken


def said(study: type[Described], name: str, value: Any) -> str:
    """A value of a parameter for a legend or a title."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return value
    symbol = getattr(study.parameters().get(name), "symbol", "")
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"${symbol} = {_powers(text)}$" if symbol else f"{name.replace('_', ' ')} = {text}"


def _powers(text: str) -> str:
    """A number in TeX: 1e-05 is 10^{-5}."""
    digits, mark, exponent = text.partition("e")
    if not mark or not exponent.lstrip("+-").isdigit():
        return text
    power = f"10^{{{int(exponent)}}}"
    return power if digits == "1" else rf"{digits} \times {power}"


def worded(study: type[Described], name: str) -> str:
    """A parameter or an output in words and with its symbol."""
    known: Any = study.parameters().get(name) or study.outputs.get(name)
    if known is None:
        return name.replace("_", " ")
    return style.label(textwrap.fill(known.short or known.label, _LABEL), known.symbol)


def entitle(axes: Any, *parts: str) -> None:
    """A title in lines that are no longer than the panel is wide; a formula between dollars is not broken."""
    place = axes.get_subplotspec().get_gridspec()
    room = _LETTERS * axes.figure.get_figwidth() / place.ncols
    lines: list[str] = []
    for word in re.findall(r"(?:\$[^$]*\$|[^\s$])+|\$", "; ".join(filter(None, parts))):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and len(_MARKUP.sub("", longer)) > room:
            lines.append(word)
        else:
            lines[-1:] = [longer]
    if lines:
        axes.set_title("\n".join(lines))
