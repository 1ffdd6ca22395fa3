"""How fast the order parameters themselves settle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_STEP = 1e-5


def overlap_rate(step: Callable[[Any], Any], point: Any) -> float:
    """The square of the spectral radius of the map `step` at its fixed point, by central differences.

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
    columns = [
        (mapped(center + move) - mapped(center - move)) / (2 * size)
        for move, size in zip(np.diag(scale), scale, strict=True)
    ]
    return float(np.abs(np.linalg.eigvals(np.array(columns).T)).max() ** 2)
