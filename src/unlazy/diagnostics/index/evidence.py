"""What slices of the label say about first and second moments of whitened rows, and how much of it chance would say."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_TAIL, _FEWEST = 0.02, 4


class Slices(NamedTuple):
    part: np.ndarray
    """Of every row, from 0 on."""
    counts: np.ndarray


class Estimate(NamedTuple):
    """Of a lambda_k^2 as the slices show it, with its jackknife variance."""

    square: float
    variance: float


def slices_of(labels: np.ndarray, most: int) -> Slices:
    """Slices of equal width in the normal scores of the labels, the outer ones of about 2%; equal labels stay together.

    Every slice adds the same noise however few rows it has, and steep links show their index in few extreme labels.
    """
    from scipy.special import ndtri

    values, inverse = np.unique(labels, return_inverse=True)
    if values.size <= most:
        part = inverse
    else:
        last = -ndtri(max(_TAIL, _FEWEST / labels.size))
        part = np.searchsorted(np.linspace(-last, last, most - 1), ndtri(ranks_of(labels)))
        part = np.unique(part, return_inverse=True)[1]
    counts = np.bincount(part)
    # a slice needs pairs of rows
    while counts.size > 1 and counts.min() < 2:
        small = int(counts.argmin())
        part = np.where(part >= max(small, 1), part - 1, part)
        counts = np.bincount(part)
    return Slices(part, counts)


def linear_part(rows: np.ndarray, slices: Slices) -> Estimate:
    """lambda_1^2 from pairs of different rows of one slice, less all pairs, which is what a random slice gives.

    The mean of x.x' estimates |E[x | slice]|^2.
    """
    norms = np.einsum("ij,ij->i", rows, rows)

    def sums(here: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return here @ here.sum(axis=0) - lengths

    return _from_pairs(rows, norms, slices, sums, 1.0)


def even_part(rows: np.ndarray, slices: Slices) -> Estimate:
    """lambda_2^2 in the same way: (x.x')^2 - |x|^2 |x'|^2 / d has the mean 2 (1 - 1/d) lambda_2^2.

    It is the kernel of covariances without their trace, so that rows of unequal length do not count.
    """
    norms = np.einsum("ij,ij->i", rows, rows)
    d = rows.shape[1]

    def sums(here: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        products = np.einsum("ij,ij->i", here @ (here.T @ here), here)
        return products - lengths**2 - lengths * (lengths.sum() - lengths) / d

    return _from_pairs(rows, norms, slices, sums, 2 * (1 - 1 / d))


def _from_pairs(
    rows: np.ndarray,
    norms: np.ndarray,
    slices: Slices,
    sums: Callable[[np.ndarray, np.ndarray], np.ndarray],
    scale: float,
) -> Estimate:
    """`sums` gives for every row the sum of a kernel over the other rows.

    The influence of a row is twice its mean with its slice less the slice's, and the slice's less that of all: that of
    slices with fixed ends.
    """
    n = len(rows)
    order = np.argsort(slices.part, kind="stable")
    influence, total, start = np.empty(n), 0.0, 0
    for count in slices.counts:
        here = order[start : start + count]
        means = sums(rows[here], norms[here]) / (count - 1)
        influence[here] = 2 * means - means.mean()
        total += count / n * means.mean()
        start += count
    chance = sums(rows, norms).mean() / (n - 1)
    variance = np.sum((influence - total) ** 2) / n**2
    return Estimate(float((total - chance) / scale), float(variance / scale**2))


def transforms(ranks: np.ndarray) -> np.ndarray:
    """Centred, of unit variance, (k, n): the rank, its distance from the middle, and both tenths."""
    found = np.stack([ranks, np.abs(ranks - 0.5), (ranks > 0.9).astype(float), (ranks < 0.1).astype(float)])
    found -= found.mean(axis=1, keepdims=True)
    spread = found.std(axis=1)
    kept = spread > 1e-9
    return found[kept] / spread[kept, None]


def ranks_of(labels: np.ndarray) -> np.ndarray:
    """In (0, 1), equal for equal labels."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return ((np.cumsum(counts) - counts / 2) / labels.size)[inverse]


def linear_statistics(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """|sum_i T_i x_i|^2 / n for every transform."""
    return np.sum((weights @ rows) ** 2, axis=1) / len(rows)


def spectral_statistics(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The largest and the least eigenvalue of sum_i T_i x_i x_i^T / n for every transform, as 2 k positive numbers."""
    found = []
    for weight in weights:
        values = np.linalg.eigvalsh((rows * weight[:, None]).T @ rows / len(rows))
        found += [values[-1], -values[0]]
    return np.array(found)
