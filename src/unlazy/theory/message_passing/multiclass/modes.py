"""How the order parameters settle: their iteration, first on coarse and then on fine nodes, and its rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.numerics.fixed_points import continued, fixed_points
from unlazy.numerics.roots import ConvergenceError

_STEP = 1e-5
_TOLERANCE = 1e-10
_COARSE_TOLERANCE = 1e-4
_COARSE_STEPS = 40
_DEPTH = 8
_TINY = 1e-290
_LARGEST_LOGARITHM = 690.0
_MATRICES = ("response", "norm")
COARSE = 8.0
"""Minus the logarithm of the error of the nodes with which an iteration begins."""
MODES = 12.0
"""The same for the nodes of `overlap_stability`."""


def settle(system: Any, point: Any, max_iterations: int) -> tuple[Any, int]:
    """The fixed point of `system.step`, a named tuple of arrays, and the number of steps.

    Anderson's acceleration in the coordinates of `_free`, first with coarse nodes (`system.accuracy`), as only where
    the iteration ends has to be exact. Where these do not arrive, they follow the solutions from a penalty as large as
    the trace of the covariance. Raises `ConvergenceError` with the residual.
    """
    penalty, total = system.penalty, 0

    def solution(strength: float, start: np.ndarray, tolerance: float, most: int) -> np.ndarray:
        iterations, residual = 0, np.inf

        def step(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
            nonlocal iterations, residual, total
            if iterations == most:
                raise ConvergenceError(
                    f"the state evolution of {system.r + 1} classes left a relative change of {residual:.2g} after "
                    f"{iterations} iterations at n = {system.n:g}, penalty = {strength:g}"
                )
            new = _free(system.step(_point(x[0], point)))
            iterations, total, residual = iterations + 1, total + 1, float(np.abs(new - x[0]).max())
            return new[None]

        system.penalty = strength
        return fixed_points(
            step,
            start[None],
            lambda row: f"n = {system.n:g}, penalty = {strength:g}",
            admissible=lambda x: np.array([_is_admissible(row, point) for row in x]),
            depth=_DEPTH,
            tolerance=tolerance,
            max_iterations=most + 1,
        )[0]

    def coarse(strength: float, start: np.ndarray) -> np.ndarray:
        return solution(strength, start, _COARSE_TOLERANCE, min(_COARSE_STEPS, max_iterations))

    x, system.accuracy = _free(point), COARSE
    try:
        try:
            x = coarse(penalty, x)
        except ConvergenceError:
            first = max(system.largest_penalty(), penalty)
            x = continued(coarse, first, coarse(first, _free(system.first())), penalty)
    except ConvergenceError:
        pass
    system.accuracy = None
    return _point(solution(penalty, x, _TOLERANCE, max_iterations), point), total


def _free(point: Any) -> np.ndarray:
    """Coordinates of order one: matrices over their traces, the logarithms of these, and vectors over the scores' size.

    So the change of a vector that is 0 by symmetry is measured against something that is not.
    """
    parts, unit = [], _score_size(point.norm)
    for name, field in zip(point._fields, point, strict=True):
        if name in _MATRICES:
            traces = np.maximum(np.trace(field, axis1=-2, axis2=-1), _TINY)
            parts += [np.log(traces).ravel(), (field / traces[..., None, None]).ravel()]
        else:
            parts.append(field.ravel() / unit)
    return np.concatenate(parts)


def _point(free: np.ndarray, like: Any) -> Any:
    """The point of these coordinates, with arrays of the shapes of another."""
    fields, first = {}, 0
    for name, field in zip(like._fields, like, strict=True):
        if name in _MATRICES:
            count = field[..., 0, 0].size
            traces = np.exp(free[first : first + count]).reshape(field.shape[:-2])
            first += count
        fields[name] = free[first : first + field.size].reshape(field.shape)
        first += field.size
        if name in _MATRICES:
            fields[name] = traces[..., None, None] * (fields[name] + fields[name].swapaxes(-1, -2)) / 2
    unit = _score_size(fields["norm"])
    return type(like)(**{name: field if name in _MATRICES else unit * field for name, field in fields.items()})


def _score_size(covariance: np.ndarray) -> float:
    return float(np.sqrt(max(np.trace(covariance, axis1=-2, axis2=-1).mean(), _TINY)))


def _is_admissible(free: np.ndarray, like: Any) -> bool:
    """Whether the matrices of these coordinates are numbers and positive."""
    if not np.abs(free).max() <= _LARGEST_LOGARITHM:
        return False
    point = _point(free, like)
    return all(np.linalg.eigvalsh(getattr(point, name)).min() >= 0 for name in _MATRICES)


def overlap_stability(step: Callable[[Any], Any], point: Any) -> float:
    """The square of the spectral radius of the map `step` at its fixed point, by differences.

    `point` is a named tuple of arrays; those called response and norm hold symmetric matrices. The square, as
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
            if name in _MATRICES
        }
        return np.concatenate([field.ravel() for field in step(named._replace(**symmetric))])

    # every order parameter is moved by the same share of its own kind's size
    scale = np.concatenate([np.full(field.size, _STEP * max(np.abs(field).max(), 1e-3)) for field in point])
    here = mapped(center)
    columns = [(mapped(center + move) - here) / size for move, size in zip(np.diag(scale), scale, strict=True)]
    return float(np.abs(np.linalg.eigvals(np.array(columns).T)).max() ** 2)
