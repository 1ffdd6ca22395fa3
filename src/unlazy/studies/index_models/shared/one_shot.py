"""Directions from one look at the data, with the best label transform of He2 and He3 without noise."""

from __future__ import annotations

import numpy as np

LINKS = ("He2", "He3")
LEAST = 1e-3
"""The bound of z^2 from below in the spectral transform, that of `best_spectral_transform`."""


def conditional_index(labels: np.ndarray) -> np.ndarray:
    """E[z | h_3(z) = y], the best linear transform of He3, from the roots of z^3 - 3 z = sqrt(6) y.

    Equal to `best_linear_transform("He3")`, which takes any link and some 50 microseconds a label.
    """
    half = np.sqrt(6) / 2 * labels
    # three roots where |half| < 1, else one
    angles = (np.arccos(np.clip(half, -1, 1))[:, None] + 2 * np.pi * np.arange(3)) / 3
    roots = 2 * np.cos(angles)
    single = np.sign(half) * 2 * np.cosh(np.arccosh(np.maximum(np.abs(half), 1)) / 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.exp(-(roots**2) / 2) / np.abs(roots**2 - 1)
        inside = np.sum(weights * roots, axis=1) / weights.sum(axis=1)
    return np.where(np.abs(half) < 1, inside, single)


def best_weights(labels: np.ndarray, link: str) -> np.ndarray:
    """The best linear transform of He3, and the best spectral one of He2, 1 - 1/z^2, without noise."""
    if link == "He3":
        return conditional_index(labels)
    return 1 - 1 / np.maximum(1 + np.sqrt(2) * labels, LEAST)


def one_shot_direction(rows: np.ndarray, labels: np.ndarray, link: str) -> np.ndarray:
    """A unit vector: the best linear estimator for He3, and the best spectral one for He2, which is even."""
    weights = best_weights(labels, link)
    if link == "He3":
        found = weights @ rows
        return found / np.linalg.norm(found)
    return np.linalg.eigh((rows * weights[:, None]).T @ rows)[1][:, -1]


def one_shot_overlap(link: str, ratio: float) -> float:
    """The limit of its squared overlap with the index direction at n/d = `ratio`."""
    from unlazy.theory.index_models.spectral.estimators import linear_overlap, spectral_overlap

    return float(linear_overlap(link, ratio=ratio) if link == "He3" else spectral_overlap(link, ratio=ratio).square)
