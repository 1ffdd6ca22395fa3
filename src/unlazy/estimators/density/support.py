"""The plane on which the rows of a data set lie, and which of its rows lie far from all others."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_whole

_ROUNDING = 1e-7
"""Directions with less than this share of the largest spread of standardised columns hold no data."""
_FENCE = 10.0
"""Rows further from the median than so many times the distance of the 10% and 90% quantiles are far out."""
_MOST_LOST = 0.01


class Support(NamedTuple):
    """x = mean + scale * (directions u + off), with u (k,) on the plane and off orthogonal to it."""

    mean: np.ndarray
    scale: np.ndarray
    """Deviations of the columns, 1 for constant ones."""
    directions: np.ndarray
    """(d, k), orthonormal."""
    along_axes: bool
    """Whether the plane is spanned by columns of X, of which the others are constant."""
    tolerance: float
    """Rows that are further off the plane than this, in deviations of the columns, have density zero."""

    @property
    def log_volume(self) -> float:
        """log of the k-dimensional volume that a unit cube of u has in the units of X."""
        spanned = self.directions * self.scale[:, None]
        return 0.5 * float(np.linalg.slogdet(spanned.T @ spanned)[1])

    def coordinates(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """u (n, k) and the rest off the plane (n, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = (X - self.mean) / self.scale
            along = rows @ self.directions
            off = rows - along @ self.directions.T
        bad = ~np.isfinite(off)
        if bad.any():
            raise InputError(f"X must be a finite number of deviations from the training mean, got {X[bad][0]:g}")
        return along, off

    def points(self, along: np.ndarray) -> np.ndarray:
        """The rows (n, d) with coordinates u."""
        return self.mean + self.scale * (along @ self.directions.T)


def find_support(X: np.ndarray, dimension: Any) -> Support:
    """The linear support of the rows: all of space, the columns that vary, or the first principal directions."""
    n, d = X.shape
    mean = X.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = X.std(axis=0)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        raise InputError(f"X must have values whose squares do not overflow, got some up to {np.abs(X).max():g}")
    varies = deviation > 1e-12 * np.abs(X).max(axis=0)
    if not varies.any():
        raise InputError(f"X must have two different rows, got n_samples = {n} equal ones: they have no density")
    scale = np.where(varies, deviation, 1.0)
    rows = (X - mean) / scale * varies
    spreads, vectors = np.linalg.svd(rows, full_matrices=False)[1:]
    rank = int((spreads > _ROUNDING * spreads[0]).sum())
    wanted = _wanted(dimension, n, d, int(varies.sum()), rank)
    axes = np.eye(d)[:, varies]
    if wanted == axes.shape[1] == rank:
        return Support(mean, scale, axes, True, _ROUNDING)
    directions = vectors[:wanted].T
    residual = np.linalg.norm(rows - rows @ directions @ directions.T, axis=1)
    lost = float((residual**2).sum() / (rows**2).sum())
    if lost > _MOST_LOST:
        warnings.warn(
            f"the plane of support_dimension={wanted} leaves {100 * lost:.2g}% of the variance of standardised "
            "columns, which the density ignores",
            UserWarning,
            stacklevel=4,
        )
    return Support(mean, scale, directions, False, max(_ROUNDING * math.sqrt(d), 2 * float(residual.max())))


def _wanted(dimension: Any, n: int, d: int, varying: int, rank: int) -> int:
    if isinstance(dimension, str) and dimension == "auto":
        if rank < varying and rank == n - 1:
            raise InputError(
                f"X must have more than {varying} rows, else every {n} rows lie on a plane; got n_samples = {n}: give "
                "more rows, or the dimension of the plane as support_dimension"
            )
        return rank
    if dimension is not None:
        return check_whole("support_dimension", dimension, 1, rank)
    if rank < d:
        raise InputError(
            f"X must not lie on a plane for support_dimension=None, got rows of rank {rank} in {d} columns (such as "
            "constant columns): take support_dimension='auto'"
        )
    return d


def far_out(along: np.ndarray) -> np.ndarray:
    """Which rows are far from the others in some coordinate, (n,)."""
    low, middle, high = np.quantile(along, (0.1, 0.5, 0.9), axis=0)
    width = np.where(high > low, high - low, np.inf)
    return (np.abs(along - middle) > _FENCE * width).any(axis=1)
