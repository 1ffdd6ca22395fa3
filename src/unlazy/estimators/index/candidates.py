"""Directions along which y may depend on x, from moments of whitened rows and transformed labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# of the labels, for the means of the rows in each
_SLICES = 10
# standardised labels and their squares count at most so much in a moment
_CLIP, _SQUARE_CLIP = 3.0, 6.0
# rows farther out than so many median lengths are pulled in
_FAR = 1.5
# ridges that compete, in units of the mean eigenvalue
_RIDGES = np.logspace(-4, 4, 33)
# interquartile ranges that the compression leaves about linear
_ARCSINH = 1.5
# the interquartile range of a normal number, in deviations
_NORMAL_RANGE = 1.35
_TINY = 1e-300


class Candidates(NamedTuple):
    directions: np.ndarray
    """(d, k), unit vectors."""
    span: np.ndarray
    """(d, m), an orthonormal basis of their span."""


class RidgeFit(NamedTuple):
    coefficients: np.ndarray
    intercept: float
    left_out_error: float
    """Mean squared error of every row predicted from the others."""


class Compression(NamedTuple):
    """arcsinh(1.5 (y - median) / IQR): a monotone transform that tames the tails of steep links.

    Where the quartiles coincide (ties) the deviation takes their place.
    """

    median: float
    width: float

    @classmethod
    def of(cls, labels: np.ndarray) -> Compression:
        low, middle, high = np.quantile(labels, [0.25, 0.5, 0.75])
        return cls(middle, max(high - low if high > low else _NORMAL_RANGE * labels.std(), _TINY))

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        return np.arcsinh(_ARCSINH * (labels - self.median) / self.width)


def compressed(labels: np.ndarray) -> np.ndarray:
    """The labels' `Compression`, standardised."""
    found = Compression.of(labels)(labels)
    return (found - found.mean()) / max(found.std(), _TINY)


def ridge_fit(rows: np.ndarray, labels: np.ndarray) -> RidgeFit:
    """Ridge regression whose ridge has least leave-one-out error; its largest ridge leaves next to nothing.

    Not `numerics.ridge.ridge_path`, since searches that start from here amplify its last digits a million times.
    """
    n = len(rows)
    mean, center = rows.mean(axis=0), float(labels.mean())
    centred, targets = rows - mean, labels - center
    values, vectors = np.linalg.eigh(centred.T @ centred / n)
    values = np.maximum(values, 0.0)
    rotated = centred @ vectors
    moment = rotated.T @ targets / n
    ridges = _RIDGES * max(float(values.mean()), _TINY)
    squares = rotated**2 / n
    errors = []
    for ridge in ridges:
        leverage = 1 / n + squares @ (1 / (values + ridge))
        residual = targets - rotated @ (moment / (values + ridge))
        errors.append(float(np.mean((residual / np.maximum(1 - leverage, 1e-9)) ** 2)))
    best = int(np.argmin(errors))
    coefficients = vectors @ (moment / (values + ridges[best]))
    return RidgeFit(coefficients, center - float(mean @ coefficients), errors[best])


def candidates(rows: np.ndarray, labels: np.ndarray, linear: np.ndarray, per_moment: int = 1) -> Candidates:
    """Directions from first and second moments of whitened rows z (n, d) with transforms T of the labels.

    With r in (0, 1) the rank of y, T in {clip(y, +-3), min(y^2, 6), r - 1/2, 1[r > 0.9], 1[r < 0.1], 4 |r - 1/2|}:

        `per_moment` top and bottom eigenvectors of A_T = sum_i (T_i - mean) z_i z_i^T / (n sd T)   (spectral methods)
        the top 2 eigenvectors of sum_T A_T^2                                                       (like SAVE)
        the top 2 directions of the means of z in 10 slices of y                                    (SIR)
        sum_i T_i z_i for T = clip(y, +-3), and `linear`, the direction of ridge regression.

    Every link whose generative exponent is at most 2 shows in one of them once n is a few d. Sources: Li (1991), Cook
    and Weisberg (1991), Mondelli and Montanari (2018), Damian et al. (2024).
    """
    n, d = rows.shape
    norms = np.linalg.norm(rows, axis=1)
    # far rows would rule the moments; those of normal inputs are hardly touched
    rows = rows * np.minimum(1.0, _FAR * np.median(norms) / np.maximum(norms, _TINY))[:, None]
    ranks = _ranks(labels)
    clipped = np.clip(labels, -_CLIP, _CLIP)
    transforms = (
        clipped,
        np.minimum(labels**2, _SQUARE_CLIP),
        ranks - 0.5,
        (ranks > 0.9).astype(float),
        (ranks < 0.1).astype(float),
        4 * np.abs(ranks - 0.5),
    )
    found = [rows.T @ (clipped - clipped.mean()), linear]
    pooled = np.zeros((d, d))
    for transform in transforms:
        deviation = transform.std()
        if deviation <= 1e-9:
            continue
        weights = (transform - transform.mean()) / deviation
        moment = rows.T @ (rows * weights[:, None]) / n
        moment -= np.trace(moment) / d * np.eye(d)
        pooled += moment @ moment
        vectors = np.linalg.eigh(moment)[1]
        found += [*vectors[:, :per_moment].T, *vectors[:, -per_moment:].T]
    found += list(np.linalg.eigh(pooled)[1][:, -2:].T)
    slices = [rows[part].mean(axis=0) * np.sqrt(part.size) for part in _slices(labels) if part.size]
    found += list(np.linalg.svd(np.array(slices) - rows.mean(axis=0), full_matrices=False)[2][:2])
    directions = np.array(found).T
    norms = np.linalg.norm(directions, axis=0)
    directions = directions[:, norms > _TINY] / norms[norms > _TINY]
    left, values, _ = np.linalg.svd(directions, full_matrices=False)
    return Candidates(directions, left[:, values > 1e-6 * values[0]])


def _ranks(labels: np.ndarray) -> np.ndarray:
    """Ranks in (0, 1), the average rank for ties."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - (counts - 1) / 2 - 0.5) / labels.size)[inverse]


def _slices(labels: np.ndarray) -> list[np.ndarray]:
    """Rows of about equally many neighbouring labels; equal labels stay together."""
    edges = np.unique(np.quantile(labels, np.linspace(0, 1, _SLICES + 1)[1:-1]))
    part = np.searchsorted(edges, labels)
    return [np.flatnonzero(part == i) for i in range(edges.size + 1)]
