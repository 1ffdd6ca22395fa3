"""How alike two sets of features are: kernels of rows, centred, and their alignment."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_symmetric


def feature_kernel(features: ArrayLike) -> np.ndarray:
    """The kernel (n, n) of inner products of features (n, ...), divided by their number."""
    found = check_array("features", features)
    if found.ndim < 2:
        raise InputError(f"features must have at least 2 dimensions, rows first, got shape {found.shape}")
    rows = found.reshape(len(found), -1)
    return rows @ rows.T / rows.shape[1]


def centred(kernel: np.ndarray) -> np.ndarray:
    """The kernel of features less their mean over the rows: H K H with H = I - 1/n."""
    means = kernel.mean(axis=0)
    return kernel - means - means[:, None] + means.mean()


def centred_kernel_alignment(first: ArrayLike, second: ArrayLike) -> float:
    """The cosine of two kernels (n, n) of the same rows after centring, from 0 to 1; NaN if one of them is constant.

        CKA = <H K H, H L H> / |H K H| |H L H|,     H = I - 1/n.

    It is 1 exactly if the features differ by a rotation, a factor and a shift. Without centring the common mean of all
    rows decides, and two unrelated networks have a cosine above 0.9. Source: Cortes, Mohri & Rostamizadeh (2012);
    Kornblith, Norouzi, Lee & Hinton (2019).
    """
    one = check_symmetric("first", first)
    other = check_symmetric("second", second, len(one))
    one, other = (centred(kernel / (np.abs(kernel).max() or 1.0)) for kernel in (one, other))
    sizes = np.linalg.norm(one) * np.linalg.norm(other)
    rounding = len(one) * np.finfo(np.float64).eps
    return float(np.sum(one * other) / sizes) if sizes > rounding**2 else np.nan
