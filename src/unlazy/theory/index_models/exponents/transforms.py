"""E[h_k(z) | y] as a function of labels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array
from unlazy.theory.index_models.exponents.conditional import conditional_means, flat_moments
from unlazy.theory.index_models.exponents.noisy import Channel
from unlazy.theory.index_models.exponents.pieces import Pieces


def clean_transform(pieces: Pieces, y: np.ndarray, order: int) -> np.ndarray:
    flat = y.reshape(-1).astype(float)
    ends = [sorted((piece.first, piece.last)) for piece in pieces.monotone]
    inside = np.zeros(flat.size, bool)
    for low, high in ends:
        inside |= (flat >= low) & (flat <= high)
    values = np.array([v for v, _ in pieces.flat] + [v for pair in ends for v in pair])
    nearest = values[np.abs(flat[:, None] - values).argmin(axis=1)]
    flat = np.where(inside, flat, nearest)
    found = conditional_means(pieces, flat, order)[order]
    for value, members in pieces.flat:
        moments = sum((flat_moments(piece.low, piece.high, order) for piece in members), np.zeros(order + 1))
        at = np.abs(flat - value) <= 1e-12 * max(abs(value), 1e-300)
        if moments[0] > 0:
            found[at] = moments[order] / moments[0]
    return found.reshape(y.shape)


def noisy_transform(pieces: Pieces, channel: Channel, order: int) -> Callable[[ArrayLike], np.ndarray]:
    from scipy.interpolate import CubicSpline

    seen = channel.densities[0] > 1e-30 * channel.densities[0].max()
    known = channel.y[seen]
    spline = CubicSpline(known, channel.densities[order, seen] / channel.densities[0, seen])
    values = [value for piece in pieces.monotone for value in (piece.first, piece.last)]
    lowest, highest = (min(values), max(values)) if values else (math.inf, -math.inf)

    def transform(y: ArrayLike) -> np.ndarray:
        labels = np.clip(check_array("y", y), min(lowest, known[0]), max(highest, known[-1]))
        found = np.asarray(spline(np.clip(labels, known[0], known[-1])))
        # beyond the table the link is too steep for the noise to show
        beyond = (labels < known[0]) | (labels > known[-1])
        if beyond.any():
            found[beyond] = clean_transform(pieces, labels[beyond], order)
        return found

    return transform
