"""The law of z given y = link(z) + noise, on grids that follow the link's slope and the noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import gauss_rule
from unlazy.theory.index_models.exponents.conditional import squares
from unlazy.theory.index_models.exponents.pieces import Function, Pieces

_CELLS = 1500
_NODES = 3
_SPAN = 7.5
_RESOLUTIONS = ((0.8, 4), (0.4, 6), (0.2, 9))
_SETTLED = 1e-6
_TOLERATED = 1e-4
_MOST_WORK = 6e8
_LEFT_OUT = 1e-9
_STEEP = 1000.0
_ERROR_OF_STEEP = 2e-6
_TINY = 1e-290


class Channel(NamedTuple):
    """The densities m_k(y) = E[h_k(z) N(y; link(z), noise^2)] for k = 0, ..., degree on equidistant y.

    Labels outside come from places where the link is so steep that the noise does not show.
    """

    y: np.ndarray
    densities: np.ndarray
    step: float

    @property
    def window(self) -> tuple[float, float]:
        return self.y[0] - self.step / 2, self.y[-1] + self.step / 2

    @property
    def squares(self) -> np.ndarray:
        """The part of lambda_k^2 = int m_k(y)^2 / m_0(y) dy that these labels give."""
        total = np.maximum(self.densities[0], _TINY)
        # the square of a density may be beyond the largest number
        return (self.step * self.densities * (self.densities / total)).sum(axis=1)


class NoisySquares(NamedTuple):
    squares: np.ndarray
    change: float
    channel: Channel


def noisy_squares(pieces: Pieces, breakpoints: list[float], noise: float, degree: int) -> NoisySquares:
    """lambda_k^2 of y = link(z) + noise N(0, 1), on grids that are refined until it changes by less than 1e-6.

    Three Gauss points per cell of z, cells on which the link moves by less than the noise; every point adds its bell of
    width `noise` to y. Labels that only places of slope above 1000 noise give are treated as if they had no noise,
    which moves z there by less than 1e-3.
    """
    total, change = np.full(degree + 1, math.inf), math.inf
    for move, per_noise in _RESOLUTIONS:
        channel = _channel(pieces.function, breakpoints, noise, degree, move, per_noise)
        beyond, tail_change = squares(pieces, degree, outside=channel.window)
        previous, total = total, channel.squares + beyond
        change = max(float(np.abs(total - previous).max()), tail_change, _ERROR_OF_STEEP if beyond[0] > 0 else 0.0)
        if change <= max(_SETTLED, _ERROR_OF_STEEP):
            break
    if change > _TOLERATED or abs(total[0] - 1) > _TOLERATED:
        raise InputError(
            f"noise_variance must be 0 or another number for this link, got {noise**2:g}: with finer grids lambda_k^2 "
            f"still changes by {change:.2g} (total probability {total[0]:.6g})"
        )
    return NoisySquares(total, change, channel)


def largest_place(degree: int) -> float:
    """|z| beyond which all h_k(z)^2 phi(z), k <= degree, together have less weight than 1e-9."""
    z = np.linspace(0, 2 * math.sqrt(degree) + 9, 4001)
    mass = (Hermite().values(z, degree) ** 2).sum(axis=0) * np.exp(-(z**2) / 2) * (z[1] - z[0])
    beyond = np.cumsum(mass[::-1])[::-1]
    return float(z[np.argmax(beyond < _LEFT_OUT)])


def _channel(
    function: Function, breakpoints: list[float], noise: float, degree: int, move: float, per_noise: int
) -> Channel:
    step, width = noise / per_noise, 2 * round(_SPAN * per_noise)
    z, mass, centers, low, high = _places(function, breakpoints, noise, degree, move, width * (degree + 1))
    wanted = (high - low) / step
    if not wanted * width * (degree + 1) <= _MOST_WORK:
        raise InputError(
            f"noise_variance must be 0 or larger than {noise**2:g} for values as far apart as this link's, from "
            f"{low:.3g} to {high:.3g}"
        )
    count = math.ceil(wanted)
    first = np.floor((centers - low) / step).astype(np.int64) - width // 2
    values = Hermite().values(z, degree) * (mass * np.exp(-(z**2) / 2) / (2 * math.pi * noise))
    densities = np.zeros((degree + 1, count))
    for offset in range(width + 1):
        index = first + offset
        bell = np.exp(-(((low + (index + 0.5) * step - centers) / noise) ** 2) / 2)
        bell[(index < 0) | (index >= count)] = 0.0
        index = np.clip(index, 0, count - 1)
        for k in range(degree + 1):
            densities[k] += np.bincount(index, values[k] * bell, minlength=count)
    return Channel(low + (np.arange(count) + 0.5) * step, densities, step)


def _places(
    function: Function, breakpoints: list[float], noise: float, degree: int, move: float, work: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
    """Points of z with weights and values of the link, and the range of labels in which the noise shows."""
    largest = largest_place(degree)
    inner = [b for b in breakpoints if -largest < b < largest]
    edges = np.union1d(np.linspace(-largest, largest, round(_CELLS * 0.8 / move) + 1), inner)
    edges = edges[np.append(True, np.diff(edges) > 1e-9)]
    inside = 1e-9 * np.diff(edges)
    before, after = function(edges[:-1] + inside), function(edges[1:] - inside)
    moved = np.abs(after - before)
    seen = moved <= _STEEP * noise * np.diff(edges)
    low, high = -math.inf, math.inf
    if seen.any():
        low, high = (extreme(np.append(before[seen], after[seen])) for extreme in (np.min, np.max))
    low = max(low, min(before.min(), after.min())) - 2 * _SPAN * noise
    high = min(high, max(before.max(), after.max())) + 2 * _SPAN * noise
    near = (np.maximum(before, after) >= low - _SPAN * noise) & (np.minimum(before, after) <= high + _SPAN * noise)
    parts = np.where(near, np.maximum(np.ceil(moved / (move * noise)), 1.0), 0.0)
    if not parts.sum() * _NODES * work <= _MOST_WORK:
        raise InputError(
            f"noise_variance must be 0 or larger than {noise**2:g} for a link this steep, which moves by "
            f"{moved[near].sum():.3g} where the noise shows"
        )
    parts = parts.astype(int)
    cell = np.repeat(np.arange(parts.size), parts)
    place = np.arange(cell.size) - np.repeat(np.cumsum(parts) - parts, parts)
    lengths = (np.diff(edges) / np.maximum(parts, 1))[cell]
    z, weights = (part.ravel() for part in gauss_rule(edges[cell] + lengths * place, lengths, _NODES))
    return z, weights, function(z), low, high
