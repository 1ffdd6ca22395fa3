"""The words in which claims say their numbers: exponents, thresholds, deviations, and what a run must have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab.claims import Criterion, Missing
from unlazy.words import number

if TYPE_CHECKING:
    import xarray as xr


def slope(values: xr.DataArray, dim: str, *, least: int = 3) -> xr.DataArray:
    """The least-squares slope of log(values) against log(coordinate) along `dim`, from `least` values or more.

    Its coordinates `lower_slope` and `upper_slope` are those of the lower and the upper half of the coordinate, which
    overlap in one value: they tell how far the exponent is from its limit, and stand beside the verdict.
    """
    enough(values, dim, least)
    values = values.sortby(dim)
    half = (values.sizes[dim] - 1) // 2
    over = [dim for dim in ("seed", "resample") if dim in values.dims]
    with np.errstate(invalid="ignore", divide="ignore"):
        lower, upper = (
            _slope(part.mean(over) if over else part, dim)
            for part in (values.isel({dim: slice(values.sizes[dim] - half)}), values.isel({dim: slice(half, None)}))
        )
        return _slope(values, dim).assign_coords(lower_slope=lower, upper_slope=upper)


def _slope(values: xr.DataArray, dim: str) -> xr.DataArray:
    x = np.log(values[dim].astype(float))
    x = x - x.mean()
    return (np.log(values) * x).sum(dim, skipna=False) / (x * x).sum()


def crossing(values: xr.DataArray, dim: str, level: float) -> xr.DataArray:
    """The coordinate along `dim` at which values first cross a level, by interpolation in its logarithm; NaN if never.

    A threshold in `dim`; of a mean over seeds, so that a claim that is made of it is resampled.
    """
    import xarray as xr

    values = values.sortby(dim)
    enough(values, dim, 2)
    at = np.log(values[dim].values.astype(float))

    def cross(rows: np.ndarray) -> np.ndarray:
        above = rows - level
        passes = above[..., :-1] * above[..., 1:] <= 0
        first = np.argmax(passes, -1)
        left, right = (np.take_along_axis(above, (first + k)[..., None], -1)[..., 0] for k in (0, 1))
        step = np.divide(left, left - right, out=np.zeros_like(left), where=left != right)
        return np.where(passes.any(-1), np.exp(at[first] + step * (at[first + 1] - at[first])), np.nan)

    return xr.apply_ufunc(cross, values.astype(float), input_core_dims=[[dim]])


def enough(data: xr.Dataset | xr.DataArray, dim: str, least: int) -> None:
    """Leave the claim untested if the run has fewer than `least` values of `dim`."""
    found = data.sizes.get(dim, 0)
    if found < least:
        raise Missing(f"needs at least {least} value{'s' * (least > 1)} of {dim}, the run has {found}")


def needs(data: xr.Dataset, **wanted: Any) -> xr.Dataset:
    """The data, if they have these values of parameters; else the claim is untested.

    A parameter must have all values of a tuple; of a criterion, one that meets it.
    """
    for name, each in wanted.items():
        values = np.atleast_1d(parameter(data, name))
        for one in each if isinstance(each, tuple) else (each,):
            judged = isinstance(one, Criterion)
            if not np.any((values >= one.low) & (values <= one.high) if judged else values == one):
                listed = ", ".join(number(v) if isinstance(v, float) else str(v) for v in values.tolist())
                raise Missing(f"needs {name} {one if judged else f'= {one}'}, the run has {listed}")
    return data


def relative_deviation(simulated: xr.DataArray, predicted: xr.DataArray) -> xr.DataArray:
    """(simulated - predicted) / |predicted|, without the cases whose prediction is infinite: no finite system is."""
    deviation = (simulated - predicted) / abs(predicted)
    infinite = predicted.copy(data=np.isinf(predicted.values))
    return kept(deviation, ~infinite) if infinite.any() else deviation


def over_theory(part: Any, name: str) -> xr.DataArray:
    """By which share of the theory's number an output is above it."""
    return relative_deviation(part.simulated[name], part.predicted[name])


def difference(part: Any, name: str) -> xr.DataArray:
    """By how much an output is above the theory's number."""
    return part.simulated[name] - part.predicted[name]


def kept(values: xr.DataArray, condition: xr.DataArray) -> xr.DataArray:
    """The cases of an array at which a condition holds, with all their seeds."""
    dims = [dim for dim in values.dims if dim != "seed"]
    if not condition.any():
        raise Missing("the run has no case that the claim is about")
    if not dims:
        return values
    one = values.isel(seed=0, drop=True) if "seed" in values.dims else values
    here = condition.broadcast_like(one).transpose(*dims).stack(case=dims)
    return values.stack(case=dims).isel(case=here.values).reset_index("case")


def parameter(data: xr.Dataset, name: str) -> Any:
    """A parameter of a run's data: its coordinate where it varies, else its one value."""
    return data[name] if name in data.coords else data.attrs[name]
