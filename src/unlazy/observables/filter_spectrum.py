"""How fine the patterns are that the filters of a first layer look for."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlazy.checks import InputError, check_array

_COARSEST = 0.25
"""Waves per pixel from which on a pattern is fine: half of what an axis of pixels can show."""


def fine_share(filters: Any) -> float:
    """The share of the filters' power in waves shorter than four pixels: 0 for constant ones, 1 for a chessboard.

    With F the discrete Fourier transform of filters (rows, columns, colours, count) along rows and columns, it is the
    sum of |F|^2 over frequencies with sqrt(f_1^2 + f_2^2) > 1/4 per pixel, over that of all; filters count by their
    power, and their scale does not matter. Of white noise it is the share of such frequencies, about 1 - pi/16.
    """
    array = check_array("filters", filters, ndim=4)
    power = (np.abs(np.fft.fft2(array, axes=(0, 1))) ** 2).sum(axis=(2, 3))
    if not power.sum() > 0:
        raise InputError("filters must not all be 0")
    return float(power[fine_frequencies(*power.shape)].sum() / power.sum())


def fine_frequencies(rows: int, columns: int) -> np.ndarray:
    """Whether each frequency of a filter's Fourier transform is a wave shorter than four pixels, (rows, columns)."""
    return np.hypot(np.fft.fftfreq(rows)[:, None], np.fft.fftfreq(columns)) > _COARSEST
