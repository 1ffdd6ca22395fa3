"""Cases in which two parameters go together, as one family of curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


def named_cases(values: xr.DataArray, names: tuple[str, ...], text: Callable[..., str]) -> xr.DataArray:
    """The values with dimension `case` for the parameters `names`, which vary together; `text` names a case."""
    if names[0] not in values.dims or any(name not in values.coords for name in names):
        return values
    numbers: Any = zip(*(values[name].values for name in names), strict=True)
    named = values.assign_coords(case=(names[0], [text(*one) for one in numbers]))
    return named.swap_dims({names[0]: "case"})
