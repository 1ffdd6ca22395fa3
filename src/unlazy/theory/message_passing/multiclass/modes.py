"""How the order parameters settle: their iteration, first on coarse and then on fine nodes, and its rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.numerics.roots import ConvergenceError

_STEP = 1e-5
_TOLERANCE = 1e-10
_COARSE_TOLERANCE = 1e-4
COARSE = 8.0
"""Minus the logarithm of the error of the nodes with which an iteration begins."""
MODES = 12.0
"""The same for the nodes of `overlap_rate`."""


def settle(system: Any, point: Any, max_iterations: int) -> tuple[Any, int]:
    """The fixed point of `system.step`, a named tuple of arrays, and the number of steps.

    The first half of the steps may be those of coarse nodes (`system.accuracy`): only where the iteration ends has to
    be exact. Raises `ConvergenceError` with the residual.
    """

    def change(new: Any, old: Any) -> float:
        return max(np.abs(a - b).max() / (np.abs(b).max() + 1e-9) for a, b in zip(new, old, strict=True))

    iteration, residual, start = 0, np.inf, point
    system.accuracy = COARSE
    while iteration < max_iterations // 2 and residual > _COARSE_TOLERANCE:
        new = system.step(point)
        iteration, residual, point = iteration + 1, change(new, point), new
    if not np.isfinite(residual) or residual > 1:
        point = start
    system.accuracy = None
    while iteration < max_iterations:
        new = system.step(point)
        iteration, residual, point = iteration + 1, change(new, point), new
        if not np.isfinite(residual):
            break
        if residual < _TOLERANCE:
            return point, iteration
    raise ConvergenceError(
        f"the state evolution of {system.r + 1} classes left a relative change of {residual:.2g} after {iteration} "
        f"iterations at n = {system.n:g}, ridge = {system.ridge:g}"
    )


def overlap_rate(step: Callable[[Any], Any], point: Any) -> float:
    """The square of the spectral radius of the map `step` at its fixed point, by differences.

    `point` is a named tuple of arrays; those called response and covariance hold symmetric matrices. The square, as
    E|change of a score|^2 shrinks by it.
    """
    kind = type(point)
    shapes = [field.shape for field in point]
    ends = np.cumsum([field.size for field in point])[:-1]
    center = np.concatenate([field.ravel() for field in point])

    def mapped(vector: np.ndarray) -> np.ndarray:
        fields = [part.reshape(shape) for part, shape in zip(np.split(vector, ends), shapes, strict=True)]
        named = kind(*fields)
        symmetric = {
            name: (field + field.swapaxes(-1, -2)) / 2
            for name, field in zip(kind._fields, fields, strict=True)
            if name in ("response", "covariance")
        }
        return np.concatenate([field.ravel() for field in step(named._replace(**symmetric))])

    # every order parameter is moved by the same share of its own kind's size
    scale = np.concatenate([np.full(field.size, _STEP * max(np.abs(field).max(), 1e-3)) for field in point])
    here = mapped(center)
    columns = [(mapped(center + move) - here) / size for move, size in zip(np.diag(scale), scale, strict=True)]
    return float(np.abs(np.linalg.eigvals(np.array(columns).T)).max() ** 2)
