"""What claims of several studies of this topic compare, and what a run must have for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unlazy.lab import Part, at_least, needs

if TYPE_CHECKING:
    import xarray as xr

FINITE = "this project's finite-size equations, after Lu et al. 2024"
"""The place of claims about this project's extension of that theory."""
PAIRS = {"new tasks": ("new_error", "new_equivalent"), "pretraining tasks": ("old_error", "old_equivalent")}


def from_dimension(part: Part, least: int) -> xr.Dataset:
    """The simulation without dimensions below `least`; a claim about it is untested if there is no other."""
    data = needs(part.simulated, d=at_least(least))
    return data.sel(d=data.d >= least) if "d" in data.dims else data


def equivalent_deviation(data: xr.Dataset, pairs: dict[str, tuple[str, str]] = PAIRS) -> xr.DataArray:
    """By which fraction errors differ from the finite-size theory for the same tasks."""
    import xarray as xr

    found = [data[simulated] / data[theory] - 1 for simulated, theory in pairs.values()]
    return xr.concat(found, xr.DataArray(list(pairs), dims="error", name="error"))
