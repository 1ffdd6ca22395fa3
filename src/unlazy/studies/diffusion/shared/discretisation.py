"""Exact errors of Gaussian data run backwards in finitely many steps."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from unlazy.numerics.reverse_diffusion import SCHEMES, gaussian_limit, gaussian_reverse, time_grid

if TYPE_CHECKING:
    import xarray as xr

FINE = (100, 200, 400, 800, 1600)
BUDGETS = (25, 50, 100, 200)
STOPS = np.geomspace(1e-7, 0.1, 61)
VARIANCE, OFF_PLANE, LAST_TIME = 0.3, 9, 4.0


def step_errors() -> xr.DataArray:
    """|variance - its limit| of data N(0, 0.3) at the time 1e-3, for every scheme and number of steps; exact."""
    import xarray as xr

    found = [
        [
            abs(
                gaussian_reverse(scheme, time_grid(LAST_TIME, 1e-3, steps), 0.0, VARIANCE, denoise=False).variance
                - gaussian_limit(scheme, LAST_TIME, 1e-3, 0.0, VARIANCE, denoise=False).variance
            )
            for steps in FINE
        ]
        for scheme in SCHEMES
    ]
    return xr.DataArray(
        np.array(found), dims=("scheme", "steps"), coords={"scheme": list(SCHEMES), "steps": list(FINE)}
    )


@cache
def stopping_errors() -> xr.DataArray:
    """W2 between the data, N(0, 0.3) in one of ten dimensions, and what the exponential scheme makes of them; exact."""
    import xarray as xr

    variances = np.array([VARIANCE, 0.0])
    found = np.empty((len(BUDGETS), len(STOPS)))
    for row, steps in zip(found, BUDGETS, strict=True):
        for index, stop in enumerate(STOPS):
            grid = time_grid(LAST_TIME, stop, steps)
            along, off = gaussian_reverse("exponential", grid, 0.0, variances, denoise=False).variance
            row[index] = np.sqrt((np.sqrt(along) - np.sqrt(VARIANCE)) ** 2 + OFF_PLANE * off)
    return xr.DataArray(found, dims=("steps", "stop"), coords={"steps": list(BUDGETS), "stop": STOPS})
