"""Directions from one look at the data, with the best label transform of He2 and He3 without noise."""

from __future__ import annotations

from functools import cache

import numpy as np

LINKS = ("He2", "He3")
_LEAST_SQUARE = 1e-3


@cache
def _mean_index_table() -> tuple[np.ndarray, np.ndarray]:
    """y and E[z | y] for He3, dense where labels are."""
    from unlazy.theory.exponents import label_transform

    y = np.sinh(np.linspace(-7.0, 7.0, 4001)) / 10
    return y, np.asarray(label_transform("He3", k=1)(y))


def one_shot_direction(rows: np.ndarray, labels: np.ndarray, link: str) -> np.ndarray:
    """A unit vector: the mean of E[z | y] x for He3; for He2 the top eigenvector of the mean of (1 - 1/z^2) x x^T.

    He2 shows z^2 = 1 + sqrt(2) y itself. Both transforms are the best ones (Mondelli & Montanari 2018, Lu & Li 2020).
    """
    if link == "He3":
        found = np.interp(labels, *_mean_index_table()) @ rows
        return found / np.linalg.norm(found)
    square = np.maximum(1 + np.sqrt(2) * labels, _LEAST_SQUARE)
    return np.linalg.eigh((rows * (1 - 1 / square)[:, None]).T @ rows)[1][:, -1]


def one_shot_overlap(link: str, ratio: float) -> float:
    """The limit of its squared overlap with the index direction at n/d = `ratio`.

    He3: ratio l / (1 + ratio l) with l = E[E[z | y]^2]. He2: with T = 1 - 1/z^2,

        phi(s) = s E[z^2 T / (s - T)],  psi(s) = s (1/ratio + E[T / (s - T)]),
        overlap^2 = psi'(s) / (psi'(s) - phi'(s)) at the s > 1 with phi = psi beyond the least psi, 0 if there is none.
    """
    from unlazy.functions.orthogonal import Hermite
    from unlazy.numerics.roots import increasing_root

    if link == "He3":
        signal = _first_generative_coefficient()
        return ratio * signal / (1 + ratio * signal)
    points, weights = Hermite().grid(2)
    square = points**2

    def moments(s: np.ndarray) -> tuple[np.ndarray, ...]:
        part = (square - 1) / ((s[:, None] - 1) * square + 1)
        return part @ weights, (square * part) @ weights, part**2 @ weights, (square * part**2) @ weights

    def slope(excess: np.ndarray) -> np.ndarray:
        return 1 / ratio - moments(1 + excess)[2]

    def lead(excess: np.ndarray) -> np.ndarray:
        mean, weighted, *_ = moments(1 + excess)
        return 1 / ratio + mean - weighted

    least = np.array([1e-9])
    if slope(least)[0] < 0:
        least = increasing_root(slope, least, 1e6)
    if lead(least)[0] >= 0:
        return 0.0
    _, _, plain, weighted = moments(1 + increasing_root(lead, least, 1e9))
    return float(((1 / ratio - plain) / (1 / ratio - plain + weighted))[0])


@cache
def _first_generative_coefficient() -> float:
    from unlazy.theory.exponents import generative_exponent

    return float(generative_exponent("He3", degree=3).squares[1])
