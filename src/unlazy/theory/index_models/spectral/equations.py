"""Equations for the top eigenvector of (1/n) sum_i T(y_i) x_i x_i^T on the nodes of a law of labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.numerics.roots import increasing_root
from unlazy.theory.index_models.spectral.label_nodes import LabelNodes

_LEAST_EXCESS = 1e-10
_FURTHEST = 1e40
_LEAST_SQUARE = 1e-16
_GRID = 160
_BLOCK = 64


class TransformMoments(NamedTuple):
    """T, divided by its largest size, at the nodes, and its averages at s = base + excess."""

    nodes: LabelNodes
    values: np.ndarray
    size: float
    base: float
    highest: float

    @classmethod
    def of(cls, nodes: LabelNodes, values: np.ndarray) -> TransformMoments:
        highest = float(values.max())
        size = highest if highest > 0 else float(np.median(np.abs(values))) or float(np.abs(values).max())
        if size == 0:
            raise InputError("transform must not be 0 everywhere")
        scaled = values / size
        return cls(nodes, scaled, size, max(float(scaled.max()), 0.0), highest)

    def at(self, excess: np.ndarray) -> np.ndarray:
        """E[T/(s-T)], B = E[(z^2-1) T/(s-T)], A = E[T^2/(s-T)^2] and C = E[z^2 T^2/(s-T)^2]."""
        with np.errstate(over="ignore"):
            part = self.values / (excess[:, None] + (self.base - self.values))
            weights, square = self.nodes.weights, self.nodes.square
            first = part @ np.stack([weights, weights * (square - 1)], axis=1)
            second = part**2 @ np.stack([weights, weights * square], axis=1)
        return np.concatenate([first.T, second.T])


def with_transform(moments: TransformMoments, ratios: np.ndarray) -> np.ndarray:
    """Overlap, top eigenvalue and edge for one-dimensional ratios."""
    parts = np.array_split(ratios, -(-ratios.size // _BLOCK))
    return np.concatenate([_solved(moments, part) for part in parts], axis=1)


def _solved(moments: TransformMoments, ratios: np.ndarray) -> np.ndarray:

    def slope(excess: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        return inverse - moments.at(excess)[2]

    def lead(excess: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        return (moments.base + excess) * (inverse - moments.at(excess)[1])

    def level(excess: np.ndarray) -> np.ndarray:
        return moments.size * (moments.base + excess) * (1 / ratios + moments.at(excess)[0])

    inverse = 1 / ratios
    # E[T^2/(s-T)^2] <= E[T^2]/excess^2, and phi <= psi once (s-T) exceeds E|(z^2-1) T| ratio
    weights, square = moments.nodes.weights, moments.nodes.square
    largest = 2 + 2 * np.sqrt(ratios * (weights @ moments.values**2))
    furthest = 2 * largest + 2 * ratios * (weights @ np.abs((square - 1) * moments.values))
    low = np.full(ratios.size, _LEAST_EXCESS)
    inside = slope(low, inverse) < 0
    if inside.any():
        low[inside] = increasing_root(slope, low[inside], largest[inside], inverse[inside])
    edge = level(low)
    out = lead(low, inverse) < 0
    top = low.copy()
    if out.any():
        top[out] = increasing_root(lead, low[out], furthest[out], inverse[out])
    _, _, plain, weighted = moments.at(top)
    rise = np.maximum(inverse - plain, 0.0)
    return np.stack([np.where(out, rise / (rise + weighted), 0.0), np.where(out, level(top), edge), edge])


def least_ratio(moments: TransformMoments, targets: np.ndarray) -> np.ndarray:
    """From a grid of s, refined at the first change of sign as s, and with it the ratio, grows."""
    grid = np.geomspace(_LEAST_EXCESS, 1e6, _GRID)
    blocks = [moments.at(part) for part in np.array_split(grid, 4)]
    _, lead, plain, weighted = np.concatenate(blocks, axis=1)

    def miss(excess: np.ndarray, target: np.ndarray) -> np.ndarray:
        _, lead, plain, weighted = moments.at(excess)
        return (1 - target) * (lead - plain) - target * weighted

    found = np.full(targets.size, np.inf)
    for i, target in enumerate(targets.reshape(-1)):
        reached = (1 - target) * (lead - plain) - target * weighted > 0
        crossings = np.flatnonzero(reached[1:] & ~reached[:-1]) + 1
        candidates = [1 / lead[0]] if reached[0] else []
        for at in crossings:
            place = increasing_root(miss, grid[at - 1], grid[at], target)
            candidates.append(1 / moments.at(place.reshape(1))[1][0])
        found[i] = min(candidates, default=np.inf)
    return found.reshape(targets.shape)


def best_spectral(nodes: LabelNodes, ratios: np.ndarray) -> np.ndarray:
    """Overlap, top eigenvalue and edge for T = 1 - 1/G, whose T/(s-T) is (G-1)/(1+(s-1)G).

    G is at least 1e-16: labels in double precision do not tell a smaller E[z^2 | y].
    """
    weights, square = nodes.weights, np.maximum(nodes.square, _LEAST_SQUARE)
    least = 1 / float(square.max())
    if not nodes.seen[1] or least >= 1:
        # G is 1, and T is 0
        return np.zeros((3, ratios.size))

    def part(t: np.ndarray) -> np.ndarray:
        return (square - 1) / (1 + t[:, None] * square)

    def miss(t: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        return inverse - part(t) @ (weights * (square - 1))

    def slope(excess: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        return inverse - part(excess - least) ** 2 @ weights

    found = np.zeros((3, ratios.size))
    for start in range(0, ratios.size, _BLOCK):
        here = slice(start, start + _BLOCK)
        inverse = 1 / ratios[here]
        low, high = np.full(inverse.size, _LEAST_EXCESS), _FURTHEST * np.maximum(ratios[here], 1.0) ** 2
        t = np.zeros(inverse.size)
        out = miss(low, inverse) < 0
        t[out] = increasing_root(miss, low[out], high[out], inverse[out])
        inside = slope(low, inverse) < 0
        low[inside] = increasing_root(slope, low[inside], high[inside], inverse[inside])
        edge = (1 - least + low) * (inverse + part(low - least) @ weights)
        found[:, here] = t / (1 + t), np.where(out, inverse, edge), edge
    return found
