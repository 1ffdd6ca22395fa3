"""What the studies of state evolution share: their checks, the cases of their figures and draws of fixed numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unlazy.lab import Part, relative_deviation

if TYPE_CHECKING:
    import xarray as xr


def deviation(name: str) -> Callable[..., list[xr.DataArray]]:
    """The check of a claim: by which share an output deviates from its prediction."""

    def check(*parts: Part) -> list[xr.DataArray]:
        return [relative_deviation(part.simulated[name], part.predicted[name]) for part in parts]

    return check


def cases(part: Part, path: str = "n") -> list[tuple[xr.Dataset, xr.Dataset]]:
    """Theory and simulation along a path for each combination of the other parameters of a part."""
    dims = [dim for dim in part.simulated.test_error.dims if dim not in (path, "seed")]
    if not dims:
        return [(part.lines, part.simulated)]
    lines, points = (data.stack(case=dims) for data in (part.lines, part.simulated))
    found = [(lines.isel(case=i), points.isel(case=i)) for i in range(points.sizes["case"])]
    return [(line, point.assign_attrs(part.simulated.attrs)) for line, point in found]


def fixed_count(uniform: np.ndarray, share: float, sizes: Sequence[int]) -> np.ndarray:
    """Which samples are chosen, given a uniform number each: the same number in every draw of each nested set."""
    chosen = np.zeros(uniform.size, bool)
    begin, count = 0, 0
    for end in sorted(sizes):
        more = round(share * end) - count
        chosen[begin + np.argsort(uniform[begin:end])[:more]] = True
        begin, count = end, count + more
    return chosen
