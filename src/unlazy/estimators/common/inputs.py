"""What estimators on random features ask of their settings and of new rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.checks import InputError, check_array
from unlazy.numerics.gaussian import Piecewise, piecewise


def guarded(activation: Any) -> Piecewise:
    """The activation, of which every value is a finite real number; it works on copies, so it may work in place."""
    function = piecewise("activation", activation)

    def value(x: Any) -> np.ndarray:
        places = np.array(x, dtype=np.float64)
        with np.errstate(all="ignore"):
            values = function.value(places.copy())
        try:
            values = np.asarray(values)
            if not np.iscomplexobj(values):
                values = values.astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise InputError("activation must return an array of numbers, got something else") from None
        if np.iscomplexobj(values):
            raise InputError("activation must be real, got complex numbers")
        if values.shape != places.shape:
            raise InputError(
                f"activation must return one number per point, got shape {values.shape} for {places.shape}"
            )
        bad = ~np.isfinite(values)
        if bad.any():
            raise InputError(f"activation must be finite, got {values[bad][0]:g} at {places[bad][0]:g}")
        return values

    return function._replace(value=value)


def check_numbers(name: str, value: Any, **bounds: Any) -> np.ndarray:
    """`check_array` that takes neither texts nor truth values for numbers."""
    try:
        kind = np.asarray(value).dtype.kind
    except ValueError:
        kind = "O"
    if kind not in "iufc":
        raise InputError(f"{name} must be numeric, got {value!r:.80}")
    return check_array(name, value, **bounds)


def check_memory(name: str, value: int, numbers: float) -> None:
    """Refuse a setting that needs so many numbers in double precision that this machine cannot hold them."""
    import psutil

    needed, there = 8 * numbers / 2**30, psutil.virtual_memory().total / 2**30
    if needed > there:
        raise InputError(f"{name} must fit into {there:.3g} GiB of memory, got {value}, which needs {needed:.3g} GiB")


def standardised(X: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(X - mean) / scale, or a refusal that names the value that lies too far out for that."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = (X - mean) / scale
    bad = ~np.isfinite(rows)
    if bad.any():
        raise InputError(
            f"X must be a finite number of training standard deviations from the training mean, got {X[bad][0]:g} "
            f"where the deviation was {np.broadcast_to(scale, X.shape)[bad][0]:g}"
        )
    return rows


def finite_or_refused(values: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The values computed from X, or a refusal where they overflow."""
    if not np.isfinite(values).all():
        raise InputError(
            f"X must be nearer to the training rows: sizes up to {np.abs(X).max():g} overflow the features"
        )
    return values
