"""Checks of arguments, which may be traced."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from unlazy.checks import InputError, check_array


def check_known(name: str, value: Any, *, whole: bool = False, below: float | None = None, **bounds: Any) -> None:
    """Raise an `InputError` if the numbers are not as they must be; traced ones cannot be judged and pass."""
    if isinstance(value, jax.core.Tracer):
        return
    found = check_array(name, value, **bounds)
    if whole and (wrong := found != np.round(found)).any():
        raise InputError(f"{name} must be a whole number, got {found[wrong].flat[0]:g}")
    if below is not None and (wrong := found >= below).any():
        raise InputError(f"{name} must be < {below:g}, got {found[wrong].flat[0]:g}")


def check_signs(name: str, value: Any) -> None:
    """Raise an `InputError` if not all are 1 or -1."""
    if isinstance(value, jax.core.Tracer):
        return
    found = check_array(name, value, ndim=1)
    if (wrong := np.abs(found) != 1).any():
        raise InputError(f"{name} must be 1 or -1, got {found[wrong].flat[0]:g}")
