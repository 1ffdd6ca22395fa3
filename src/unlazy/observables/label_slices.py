"""What labels say about an index variable, measured on weighted pairs: through the best transform, and as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.functions.orthogonal import Hermite


class LabelCorrelations(NamedTuple):
    """Squared correlations with h_1, ..., h_k."""

    squared_correlations: np.ndarray
    """lambda_k^2 = E[E[h_k(z) | y]^2], that of the best transform of the label."""
    plain_squared_correlations: np.ndarray
    """That of the label itself."""


def label_correlations(
    z: np.ndarray, labels: np.ndarray, weights: np.ndarray, largest_degree: int, *, slice_size: int = 60
) -> LabelCorrelations:
    """From means of h_k over slices of about `slice_size` sorted labels, less what chance gives.

    Equal labels stay together. `weights` make means over the pairs those of z ~ N(0, 1), up to a factor.
    """
    order = np.argsort(labels)
    z, y, weights = z[order], labels[order], weights[order] / weights[order].sum()
    values = Hermite().values(z, largest_degree)[1:]
    wanted = np.searchsorted(y, y[slice_size : y.size - slice_size // 2 : slice_size])
    first = np.unique(np.append(0, wanted[wanted <= y.size - slice_size // 2]))
    counts = np.diff(np.append(first, y.size))
    masses = np.add.reduceat(weights, first)
    sums = np.add.reduceat(weights * values, first, axis=1)
    rest = (weights * (values - np.repeat(sums / masses, counts, axis=1))) ** 2
    chance = np.add.reduceat(rest, first, axis=1) * counts / (counts - 1)
    centred = y - weights @ y
    plain = (values @ (weights * centred)) ** 2 / (weights @ centred**2)
    return LabelCorrelations(((sums**2 - chance) / masses).sum(axis=1), plain)
