"""Curves that claims and figures of several studies need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

SPLINES = "Splines fitted to histograms by maximum likelihood stand for a diffusion model: none is trained or run"
"""How the studies of rates depart from Oko et al. 2023."""
NETWORKS = (
    "The network adds to the score of the uniform law on the known interval, is small where the paper has powers of "
    "log n, and is the best minimum that training finds. Each window of time has a network of its own. The density is "
    "not smoother at the ends."
)
"""How the studies of trained networks depart from it."""


def tabulated(function: Callable[..., Any], **axes: Sequence[Any]) -> xr.DataArray:
    """The numbers of a function at all combinations of its arguments."""
    import xarray as xr

    shape = [len(values) for values in axes.values()]
    found = np.array([float(function(*place)) for place in product(*axes.values())]).reshape(shape)
    return xr.DataArray(found, {name: list(values) for name, values in axes.items()}, tuple(axes))


def power_law(values: xr.DataArray, dim: str, exponent: Any) -> xr.DataArray:
    """dim^-exponent through the middle of the means over seeds, on logarithmic axes."""
    log = np.log(values[dim].astype(float))
    middle: xr.DataArray = np.log(values.mean("seed")).mean(dim)  # type: ignore[arg-type]
    return np.exp(middle - exponent * (log - log.mean()))
