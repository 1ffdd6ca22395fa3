"""The law of a label y = link(z) + noise N(0, 1) as points with weights, with the first two moments of z given y."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array
from unlazy.functions.elementwise import Link
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import panels
from unlazy.theory.index_models.exponents.conditional import conditional_averages, flat_moments, squares
from unlazy.theory.index_models.exponents.expansion import cuts_of
from unlazy.theory.index_models.exponents.noisy import Channel, noisy_squares
from unlazy.theory.index_models.exponents.pieces import Pieces, as_function, find_pieces, inverse, reach
from unlazy.theory.index_models.exponents.transforms import clean_transform, noisy_transform

_REFINEMENT = 1
_PANEL = 0.04
_PANEL_NODES = 4
_LEAST_WEIGHT = 1e-18
_VANISHING_SQUARE = 1e-6
_FAR = (1e6, 1e9)
_INFINITY = 1e150
_GROWTH = 0.01


class LabelNodes(NamedTuple):
    """E f(y) = sum weights f(labels); E[z f(y)] and E[z^2 f(y)] have the conditional moments as further factors."""

    labels: np.ndarray
    weights: np.ndarray
    first: np.ndarray
    """E[z | y]."""
    square: np.ndarray
    """E[z^2 | y]."""
    seen: tuple[bool, bool]
    """Whether lambda_1^2 and lambda_2^2 differ from 0, which no noise changes."""


class LabelLaw(NamedTuple):
    pieces: Pieces
    channel: Channel | None
    """Of the noise, if there is any."""
    seen: tuple[bool, bool]


@lru_cache(maxsize=64)
def label_law(link: Link, noise: float) -> LabelLaw:
    """`noise` is the deviation of the noise."""
    pieces = find_pieces(as_function(link), reach(2))
    if not pieces.monotone and len(pieces.flat) == 1:
        raise InputError("link must not be constant: its labels say nothing")
    clean, _ = squares(pieces, 2)
    seen = bool(clean[1] > _VANISHING_SQUARE), bool(clean[2] > _VANISHING_SQUARE)
    channel = noisy_squares(pieces, cuts_of(pieces), noise, 2).channel if noise > 0 else None
    return LabelLaw(pieces, channel, seen)


@lru_cache(maxsize=64)
def label_nodes(link: Link, noise: float, breaks: tuple[float, ...]) -> LabelNodes:
    """Points that are cut where E[. | y] jumps and at the `breaks` of a function of the label.

    Without noise they are points of z, denser at the ends of the monotone pieces; with noise panels of y on which the
    law and the conditional moments change little, and points of z for labels from places too steep to show the noise.
    """
    pieces, channel, seen = label_law(link, noise)
    if channel is None:
        labels, weights, moments = _clean(pieces, breaks)
    else:
        low, high = channel.window
        parts = [_noisy(channel, breaks), _clean(pieces, (low, high, *breaks), outside=(low, high))]
        labels, weights, moments = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    kept = weights > _LEAST_WEIGHT
    weights = weights[kept] / weights[kept].sum()
    return LabelNodes(labels[kept], weights, moments[0, kept], np.maximum(moments[1, kept], 0.0), seen)


def conditional_moment(law: LabelLaw, order: int) -> Callable[[Any], np.ndarray]:
    """E[h_k(z) | y] as a function of labels, for k = 1 or 2; 0 where lambda_k is."""
    if not law.seen[order - 1]:
        return lambda y: np.zeros_like(check_array("y", y))
    if law.channel is None:
        return lambda y: clean_transform(law.pieces, check_array("y", y), order)
    return noisy_transform(law.pieces, law.channel, order)


def _clean(
    pieces: Pieces, breaks: Iterable[float], outside: tuple[float, float] = (math.inf, -math.inf)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, weights, E[z | y] and E[z^2 | y]; only labels outside the interval count.

    The square is averaged itself: from E[h_2 | y] it would have lost its digits where it is small.
    """
    found = []
    for value, members in pieces.flat:
        moments = sum((flat_moments(piece.low, piece.high, 2) for piece in members), np.zeros(3))
        if moments[0] > 0:
            found.append((np.array([value]), moments[:1], _first_and_square(moments[1:] / moments[0])[:, None]))
    if pieces.monotone:
        limits = [value for piece in pieces.monotone for value in (piece.first, piece.last)]
        ends = np.unique([*limits, *(value for value, _ in pieces.flat), *breaks])
        cuts = [inverse(pieces.function, piece, ends) for piece in pieces.monotone]
        z, weights = Hermite().grid(_REFINEMENT, np.unique(np.concatenate([*cuts, cuts_of(pieces)])))
        moving = np.zeros(z.size, bool)
        for piece in pieces.monotone:
            moving |= (z >= piece.low) & (z <= piece.high)
        z, weights = z[moving], weights[moving]
        labels = pieces.function(z)
        found.append((labels, weights, conditional_averages(pieces, labels, lambda at: np.stack([at, at**2]), 2)))
    labels, weights, moments = (np.concatenate(part, axis=-1) for part in zip(*found, strict=True))
    kept = (labels < outside[0]) | (labels > outside[1]) if outside[0] < outside[1] else np.ones(labels.size, bool)
    return labels[kept], weights[kept], moments[:, kept]


def _noisy(channel: Channel, breaks: Iterable[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss-Legendre points on panels along which the normal score of y and E[h_k | y] change by 0.04 together."""
    from scipy.interpolate import CubicSpline
    from scipy.special import ndtri

    known = channel.densities[0] > 1e-25 * channel.densities[0].max()
    y, densities = channel.y[known], channel.densities[:, known]
    share = np.cumsum(densities[0]) / densities[0].sum()
    score = ndtri(np.clip(share, 1e-16, 1 - 1e-16))
    means = densities[1:] / densities[0]
    change = np.abs(np.diff([score, means[0], np.arcsinh(means[1])], axis=1)).sum(axis=0)
    length = np.append(0.0, np.cumsum(change + 1e-9))
    edges = np.interp(np.linspace(0, length[-1], math.ceil(length[-1] / _PANEL) + 1), length, y)
    edges[[0, -1]] = y[0] - channel.step / 2, y[-1] + channel.step / 2
    edges = np.unique([*edges, *(b for b in breaks if y[0] < b < y[-1])])
    labels, widths = panels(edges, _PANEL_NODES)
    at = CubicSpline(y, densities, axis=1)(labels)
    return labels, widths * at[0], _first_and_square(at[1:] / np.maximum(at[0], 1e-290))


def _first_and_square(means: np.ndarray) -> np.ndarray:
    """E[z | y] and E[z^2 | y] from E[h_1 | y] and E[h_2 | y]."""
    return np.stack([means[0], 1 + math.sqrt(2) * means[1]])


def grows_without_bound(
    transform: Callable[[np.ndarray], np.ndarray], link: Link, noise: float, labels: np.ndarray
) -> bool:
    """Whether T still rises from very large labels to 1000 times larger ones, of those that can occur."""
    with np.errstate(all="ignore"):
        if noise > 0:
            far = np.outer([-1.0, 1.0], _FAR) * max(float(np.abs(labels).max()), 1.0)
        else:
            far = np.array(link(np.outer([-1.0, 1.0], _FAR)), dtype=float)
            far = np.clip(np.nan_to_num(far, nan=0.0, posinf=_INFINITY, neginf=-_INFINITY), -_INFINITY, _INFINITY)
        near, further = np.asarray(transform(far), float).T
        here = np.asarray(transform(labels), float)
    before = np.maximum(near, here.max())
    # infinity minus infinity and other values without meaning are no evidence of growth
    known = np.isfinite(further) & np.isfinite(before)
    rise = np.where(known, further, 0.0) - np.where(known, before, 0.0)
    return bool((rise > _GROWTH * max(np.ptp(here), 1e-300)).any() or np.isposinf(further).any())
