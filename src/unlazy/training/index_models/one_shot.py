"""Directions of an index model from one look at rows and transformed labels, and Gauss-Newton steps from there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

LEAST = 1e-3
"""The bound of z^2 from below in the spectral transform, that of `best_spectral_transform`."""


class Looks(NamedTuple):
    """At every size: squared overlaps, of the linear estimators first, and the largest eigenvalues of the others."""

    squared_overlap: np.ndarray
    largest_eigenvalue: np.ndarray


def first_looks(
    rows: np.ndarray, linear: Sequence[np.ndarray], spectral: Sequence[np.ndarray], ends: Sequence[int]
) -> Looks:
    """Linear and spectral estimators of the first coordinate axis from the first n rows, for every n in `ends`.

    `linear` and `spectral` hold transformed labels T: the estimators are sum_i T_i x_i and the top eigenvector of
    (1/n) sum_i T_i x_i x_i^T. Rows may be in single precision.
    """
    from scipy.linalg import eigh

    d, count = rows.shape[1], len(linear)
    overlap, eigenvalue = np.zeros((count + len(spectral), len(ends))), np.zeros((len(spectral), len(ends)))
    sums, moments = np.zeros((count, d)), np.zeros((len(spectral), d, d))
    for i, (start, end) in enumerate(pairwise((0, *ends))):
        part = rows[start:end]
        for k, labels in enumerate(linear):
            sums[k] += (labels[start:end, None].astype(rows.dtype) * part).sum(axis=0, dtype=float)
            # E[z | y] of an even link is 0, and then there is no direction
            overlap[k, i] = sums[k, 0] ** 2 / (sums[k] @ sums[k]) if sums[k].any() else 0.0
        for k, labels in enumerate(spectral):
            moments[k] += (labels[start:end, None].astype(rows.dtype) * part).T @ part
            values, vectors = eigh(moments[k] / end, subset_by_index=(d - 1, d - 1))
            overlap[count + k, i], eigenvalue[k, i] = vectors[0, 0] ** 2, values[0]
    return Looks(overlap, eigenvalue)


def best_weights(labels: np.ndarray, link: str) -> np.ndarray:
    """The best linear transform of He3, E[z | y], and the best spectral one of He2, 1 - 1/z^2, without noise.

    That of He3 is a sum over the roots of z^3 - 3 z = sqrt(6) y. It equals `best_linear_transform("He3")`, which takes
    any link and some 50 microseconds a label.
    """
    if link == "He2":
        return 1 - 1 / np.maximum(1 + np.sqrt(2) * labels, LEAST)
    half = np.sqrt(6) / 2 * labels
    # three roots where |half| < 1, else one
    angles = (np.arccos(np.clip(half, -1, 1))[:, None] + 2 * np.pi * np.arange(3)) / 3
    roots = 2 * np.cos(angles)
    single = np.sign(half) * 2 * np.cosh(np.arccosh(np.maximum(np.abs(half), 1)) / 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.exp(-(roots**2) / 2) / np.abs(roots**2 - 1)
        inside = np.sum(weights * roots, axis=1) / weights.sum(axis=1)
    return np.where(np.abs(half) < 1, inside, single)


def one_shot_direction(rows: np.ndarray, labels: np.ndarray, link: str) -> np.ndarray:
    """A unit vector: the best linear estimator for He3, and the best spectral one for He2, which is even."""
    weights = best_weights(labels, link)
    if link == "He3":
        found = weights @ rows
        return found / np.linalg.norm(found)
    return np.linalg.eigh((rows * weights[:, None]).T @ rows)[1][:, -1]


def refined_direction(
    rows: np.ndarray, labels: np.ndarray, direction: np.ndarray, degree: int, steps: int
) -> np.ndarray:
    """The unit vector after Gauss-Newton steps about polynomial fits of the labels along it."""
    from unlazy.numerics.index_directions import refined_directions

    def smooth(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fit = np.polynomial.Polynomial.fit(index[:, 0], labels, degree)
        return fit(index[:, 0]), fit.deriv()(index)

    def solve(design: np.ndarray, response: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(design, response, rcond=1e-8)[0]

    found = refined_directions(rows, labels, direction[:, None], steps, smooth, solve)[:, 0]
    length = np.linalg.norm(found)
    return found / length if length > 0 else direction
