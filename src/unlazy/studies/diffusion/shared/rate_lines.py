"""Lines of a known slope through simulated points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


def rate_line(axes: Any, values: xr.DataArray, dim: str, exponent: float, color: str, text: str | None = None) -> None:
    """dim^-exponent through the middle of the means, on logarithmic axes."""
    from unlazy.plotting import style

    x = values[dim].values.astype(float)
    means = values.mean([d for d in values.dims if d != dim])
    middle = float(np.log(means).mean()) - exponent * (np.log(x) - np.log(x).mean())
    style.theory(axes, x, np.exp(middle), color=color, label=text)
