"""Covariance spectra and priors, written once for NumPy and JAX.

Each function takes the array namespace as `xp`; with `xp=jax.numpy` all but the sizes may be traced.
A prior is a spectrum too: the variance of the target's coefficient along each eigenvector of the covariance.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from unlazy.errors import InputError


def power_law(d: int, exponent: Any, *, xp: Any = np) -> Any:
    """Eigenvalues j^-exponent for j = 1, ..., d; exponent 0 is the isotropic spectrum."""
    return xp.arange(1, _size("d", d, low=1) + 1, dtype=float) ** -exponent


def two_level(d: int, leading: int, high: Any, low: Any = 1.0, *, xp: Any = np) -> Any:
    """Eigenvalues `high` in the first `leading` of d directions and `low` in the rest (Johnstone 2001)."""
    d, leading = _size("d", d, low=1), _size("leading", leading, low=0)
    if leading > d:
        raise InputError(f"leading must be <= d = {d}, got {leading}")
    return xp.where(xp.arange(d) < leading, high, low) * xp.ones(d)


def _size(name: str, value: Any, *, low: int) -> int:
    try:
        size = index(value)
    except TypeError:
        raise InputError(f"{name} must be an integer >= {low}, got {value!r}") from None
    if size < low:
        raise InputError(f"{name} must be an integer >= {low}, got {size}")
    return size
