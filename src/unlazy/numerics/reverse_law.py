"""The law of a reverse diffusion on the line, for any score: no draws, so no noise of their number.

In units of the data, y = x / m_t, and with v = sigma_t^2 / m_t^2 for time, the reverse equation
dY = (Y + 2 s(Y, T - t)) dt + sqrt(2) dB is dy = m_t s(m_t y, t) dv + dB_v, v falling. Its density follows the
Fokker-Planck equation, solved here on cells that conserve mass.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole

_STAGE = 1 - np.sqrt(0.5)
"""Of the two-stage implicit method of order two that damps the stiff parts (Alexander 1977)."""
_GROWTH = 1.06
_REACH = 5.0


def line_cells(last_time: float, inner_cells: int) -> np.ndarray:
    """Edges of cells in units of the data: `inner_cells` equal ones on [-1, 1], growing by 6% each outside.

    They reach to five deviations of N(0, 1) at `last_time`.
    """
    last_time = float(check_array("last_time", last_time, above=0, ndim=0))
    width = 2 / check_whole("inner_cells", inner_cells, 2)
    count = int(np.ceil(np.log1p(_REACH * np.exp(last_time) / width * (_GROWTH - 1)) / np.log(_GROWTH)))
    outer = 1 + width * (_GROWTH ** np.arange(1, count + 1) - 1) / (_GROWTH - 1)
    return np.concatenate([-outer[::-1], np.linspace(-1, 1, inner_cells + 1), outer])


def reverse_law(
    score: Callable[[np.ndarray, np.ndarray], np.ndarray],
    times: ArrayLike,
    edges: ArrayLike,
    masses: ArrayLike | None = None,
) -> np.ndarray:
    """The masses (cells,) of Y / m at the last of the decreasing `times`, for a start with `masses` at the first.

    `score(x, t)` takes arrays x (steps, cells - 1) and t (steps, 1) and is asked once. The start is N(0, 1) by default.
    Cells are those of `edges` in units of the data. Fluxes are exponentially fitted in y (Scharfetter & Gummel 1969),
    of order two like the method in time, and no mass is lost.
    """
    times = check_array("times", times, above=0, ndim=1)
    edges = check_array("edges", edges, ndim=1)
    if times.size < 2 or not (np.diff(times) < 0).all():
        raise InputError(f"times must be at least two decreasing numbers, got {times.tolist()!s:.60}")
    if edges.size < 4 or not (np.diff(edges) > 0).all():
        raise InputError(f"edges must be at least four increasing numbers, got {edges.tolist()!s:.60}")
    spread = np.expm1(2 * times)
    if masses is None:
        from scipy.special import ndtr

        cut = np.r_[-np.inf, edges[1:-1], np.inf]
        masses = np.diff(ndtr(cut * np.exp(-times[0])))
    density = check_array("masses", masses, low=0, ndim=1) / np.diff(edges)
    stages = np.array([[a - _STAGE * (a - b), b] for a, b in pairwise(spread)]).ravel()
    at = np.log1p(stages)[:, None] / 2
    drift = np.exp(-at) * score(np.exp(-at) * edges[1:-1], at)
    matrices = _generators(drift, edges)
    for (a, b), (first, second) in zip(pairwise(spread), zip(matrices[::2], matrices[1::2], strict=True), strict=True):
        length = a - b
        early = _implicit(first, _STAGE * length, density, _applied(first, density))
        start = density + (1 - _STAGE) * length * early
        density = start + _STAGE * length * _implicit(second, _STAGE * length, start, _applied(second, start))
    return density * np.diff(edges)


def _generators(drift: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bands (steps, 3, cells) of A in density' = A density: upper, main and lower, as SciPy has them."""
    widths, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    between = np.diff(middles)
    peclet = np.clip(2 * drift * between, -600, 600)
    fitted = np.where(np.abs(peclet) < 1e-8, 1 - peclet / 2, peclet / np.where(peclet == 0, 1.0, np.expm1(peclet)))
    leaves, enters = (fitted + peclet) / (2 * between), fitted / (2 * between)
    bands = np.zeros((len(drift), 3, widths.size))
    bands[:, 1, :-1] -= leaves / widths[:-1]
    bands[:, 1, 1:] -= enters / widths[1:]
    bands[:, 0, 1:] = enters / widths[:-1]
    bands[:, 2, :-1] = leaves / widths[1:]
    return bands


def _applied(bands: np.ndarray, density: np.ndarray) -> np.ndarray:
    found = bands[1] * density
    found[:-1] += bands[0, 1:] * density[1:]
    found[1:] += bands[2, :-1] * density[:-1]
    return found


def _implicit(bands: np.ndarray, length: float, density: np.ndarray, change: np.ndarray) -> np.ndarray:
    """k with k = A (density + length k), from A density."""
    from scipy.linalg import solve_banded

    system = -length * bands
    system[1] += 1
    return solve_banded((1, 1), system, change, overwrite_ab=True, overwrite_b=True, check_finite=False)
