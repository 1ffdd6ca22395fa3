"""Contrasts between classes: orthonormal coordinates of scores that sum to 0."""

from __future__ import annotations

from functools import cache

import numpy as np

from unlazy.checks import check_whole


def helmert_contrasts(classes: int) -> np.ndarray:
    """The Helmert matrix B (K, K - 1): column j has j entries (j (j + 1))^-1/2, then -j (j (j + 1))^-1/2, then 0.

    It cannot be written to: every call gives the same array.
    """
    return _matrix(check_whole("classes", classes, 2, 1000))


@cache
def _matrix(classes: int) -> np.ndarray:
    from scipy.linalg import helmert

    matrix = helmert(classes).T
    matrix.flags.writeable = False
    return matrix
