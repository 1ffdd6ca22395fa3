"""Covariance spectra and priors, written once for NumPy and JAX.

Each function takes the array namespace as `xp`; with `xp=jax.numpy` all but the sizes may be traced.
A prior is a spectrum too: the variance of the target's coefficient along each eigenvector of the covariance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_whole

_GAUSS_COUNTS = np.array([5, 8, 5])
"""Weights of the three-point Gauss rule in eighteenths: the nodes of a block stand for whole directions."""
_BLOCK_UNIT = int(_GAUSS_COUNTS.sum())
_INVERSE_BLOCK_WIDTH = 64
_SMALLEST_BLOCK = 5 * _BLOCK_UNIT


class IndexBlocks(NamedTuple):
    """The directions 1, ..., d by few representatives: sum_j f(j) = multiplicities @ f(indices)."""

    indices: np.ndarray
    """Increasing and real: inside a block they are the nodes of a quadrature rule."""
    multiplicities: np.ndarray
    """Whole numbers that add up to d."""


class BlockSpectrum(NamedTuple):
    """A covariance spectrum and a prior whose entry i stands for `multiplicities[i]` directions."""

    spectrum: np.ndarray
    prior: np.ndarray
    multiplicities: np.ndarray


def power_law(d: int, spectrum_exponent: Any, *, xp: Any = np) -> Any:
    """The spectrum j^-spectrum_exponent for j = 1, ..., d; exponent 0 is the isotropic one."""
    return xp.arange(1, check_whole("d", d, 1, floats=False) + 1, dtype=float) ** -spectrum_exponent


def two_level(
    d: int, leading_directions: int, leading_eigenvalue: Any, other_eigenvalue: Any = 1.0, *, xp: Any = np
) -> Any:
    """One eigenvalue in the first `leading_directions` of d directions and another in the rest (Johnstone 2001)."""
    d = check_whole("d", d, 1, floats=False)
    leading = check_whole("leading_directions", leading_directions, 0, floats=False)
    if leading > d:
        raise InputError(f"leading_directions must be <= d = {d}, got {leading}")
    return xp.where(xp.arange(d) < leading, leading_eigenvalue, other_eigenvalue) * xp.ones(d)


def index_blocks(d: int, *, breaks: Iterable[int] = ()) -> IndexBlocks:
    """Representatives of the directions 1, ..., d, so that spectra of billions of directions stay short.

    Directions below 5760 stand for themselves. Beyond, a block of c <= j/64 consecutive directions with mean
    index i is represented by its three-point Gauss rule

        i - a, i, i + a  with multiplicities 5c/18, 8c/18, 5c/18,     a^2 = 3 (c^2 - 1) / 20,

    which has the first three moments of the block. A sum of powers j^-b, b <= 4, or of a smooth function of
    log j like l_j/(l_j + kappa) has a relative error below 1e-10; constants are exact. `breaks` are the
    indices j after which the function has a jump or a kink: no block contains both j and j + 1.
    """
    d = check_whole("d", d, 1, floats=False)
    ends = sorted({check_whole("breaks", end, 0, floats=False) for end in breaks} | {d})
    if ends[-1] > d:
        raise InputError(f"breaks must be <= d = {d}, got {ends[-1]}")
    indices, counts, first = [], [], 1
    while first <= d:
        end = next(e for e in ends if e >= first)
        size = min(first // _INVERSE_BLOCK_WIDTH, end - first + 1) // _BLOCK_UNIT * _BLOCK_UNIT
        if size >= _SMALLEST_BLOCK:
            offset = np.sqrt(0.15 * (float(size) ** 2 - 1))
            indices.append(first + (size - 1) / 2 + offset * np.array([-1.0, 0.0, 1.0]))
            counts.append(size // _BLOCK_UNIT * _GAUSS_COUNTS.astype(float))
        else:
            size = min(end - first + 1, max(_SMALLEST_BLOCK, _SMALLEST_BLOCK * _INVERSE_BLOCK_WIDTH - first))
            indices.append(np.arange(first, first + size, dtype=float))
            counts.append(np.ones(size))
        first += size
    return IndexBlocks(np.concatenate(indices), np.concatenate(counts))


def harmful_example(n: int, d: int | None = None, *, written_out: bool = False) -> BlockSpectrum:
    """The example where no ridge learns anything from n samples, although a learned metric does (d = n^3).

        l_j = 1/j for j <= n and 1/n beyond,      p_j = j^-2.

    The many small eigenvalues act as a ridge of their own, sum_j>n l_j / n ~ n, so that the risk of ridge
    regression tends to that of predicting 0, zeta(3) at d = infinity; that of Bayes falls like n^(-2/3).
    d is n^3 unless given; sums over directions are exact to a relative 1e-10 (`index_blocks`), or all d
    directions are `written_out`. Source: T. Suzuki (2024), talk at FIMI, after Tsigler & Bartlett (2023).
    """
    n = check_whole("n", n, 1, floats=False)
    indices, multiplicities = _directions(_dimension(d, n, power=3), (n,), written_out)
    return BlockSpectrum(1 / np.minimum(indices, n), indices**-2.0, multiplicities)


def misaligned_example(n: int, d: int | None = None, *, written_out: bool = False) -> BlockSpectrum:
    """The example where the target is large in a direction that is small in the data (d = n^2).

        l_j = 1/j,      p_j = 1/j except p_n = n.

    Direction n alone has signal variance 1, and no ridge regression of n samples finds it: its risk tends to
    1, that of Bayes falls like n^(-1/2). d is n^2 unless given; sums over directions are exact to a relative
    1e-10 (`index_blocks`), or all d directions are `written_out`. Source: T. Suzuki (2024), talk at FIMI.
    """
    n = check_whole("n", n, 1, floats=False)
    indices, multiplicities = _directions(_dimension(d, n, power=2), (n - 1, n), written_out)
    return BlockSpectrum(1 / indices, np.where(indices == n, float(n), 1 / indices), multiplicities)


def _directions(d: int, breaks: tuple[int, ...], written_out: bool) -> IndexBlocks:
    if written_out:
        return IndexBlocks(np.arange(1, d + 1, dtype=float), np.ones(d))
    return index_blocks(d, breaks=breaks)


def _dimension(d: int | None, n: int, *, power: int) -> int:
    d = n**power if d is None else check_whole("d", d, 1, floats=False)
    if d < n:
        raise InputError(f"d must be >= n = {n}, got {d}")
    return d
