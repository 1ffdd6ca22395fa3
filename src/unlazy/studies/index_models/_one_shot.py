"""Directions from one look at the data, with the best label transform of He2 and He3 without noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

LINKS = ("He2", "He3")


@cache
def _transform(link: str) -> Callable[[Any], np.ndarray]:
    from unlazy.theory.spectral_estimators import best_linear_transform, best_spectral_transform

    return best_linear_transform(link) if link == "He3" else best_spectral_transform(link)


def one_shot_direction(rows: np.ndarray, labels: np.ndarray, link: str) -> np.ndarray:
    """A unit vector: the best linear estimator for He3, and the best spectral one for He2, which is even."""
    weights = _transform(link)(labels)
    if link == "He3":
        found = weights @ rows
        return found / np.linalg.norm(found)
    return np.linalg.eigh((rows * weights[:, None]).T @ rows)[1][:, -1]


def one_shot_overlap(link: str, ratio: float) -> float:
    """The limit of its squared overlap with the index direction at n/d = `ratio`."""
    from unlazy.theory.spectral_estimators import linear_overlap, spectral_overlap

    return float(linear_overlap(link, ratio=ratio) if link == "He3" else spectral_overlap(link, ratio=ratio).square)
