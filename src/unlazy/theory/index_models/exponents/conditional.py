"""E[h_k(z) | y] for y = link(z) without noise, and how much of h_k it explains."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import panels
from unlazy.theory.index_models.exponents.pieces import SAME_VALUE, Function, Piece, Pieces, inverse

_SLOPE_STEP = 2e-5
_NEAREST = 1e-10
_LAST_T = 2.95
_NODES = 30
_ROUGH = tuple((count, False) for count in (1, 2, 4))
_FINE = tuple((count, True) for count in (1, 2, 4, 8))
_FINE_OF_DIFFERENCES = tuple((count, False) for count in (8, 16))
_SETTLED = 1e-10
_TOLERATED = 1e-4
_MOST_PAIRS = 4_000_000
_TINY = 1e-300


def slopes(function: Function, piece: Piece, z: np.ndarray) -> np.ndarray:
    """|link'(z)| on a monotone piece, from differences that stay inside it where no derivative is known."""
    if function.derivative is not None:
        found = np.broadcast_to(np.asarray(function.derivative(z), float), z.shape)
    else:
        # at an end itself, where rounding may put z, there is no difference to take
        inside = min(_NEAREST, (piece.high - piece.low) / 4)
        z = np.clip(z, piece.low + inside, piece.high - inside)
        step = np.minimum(_SLOPE_STEP, np.minimum(z - piece.low, piece.high - z) / 2.01)
        near, far = (function(z + m * step) - function(z - m * step) for m in (1, 2))
        # a difference that rounding makes 0 would give its z all the weight
        least = np.finfo(float).eps * np.abs(function(z)) / step
        found = np.maximum(np.abs(8 * near - far) / (12 * step), least)
    return np.maximum(np.abs(found), _TINY)


def conditional_means(pieces: Pieces, y: np.ndarray, degree: int) -> np.ndarray:
    """E[h_k(z) | y] for k = 0, ..., degree, as `conditional_averages`."""
    return conditional_averages(pieces, y, lambda z: Hermite().values(z, degree), degree + 1)


def conditional_averages(
    pieces: Pieces, y: np.ndarray, functions: Callable[[np.ndarray], np.ndarray], count: int
) -> np.ndarray:
    """E[f_k(z) | y] of so many functions at values that the link does not take with positive probability.

    sum_b f_k(z_b) w_b / sum_b w_b, w_b = phi(z_b) / |link'(z_b)|, over all z_b with link(z_b) = y.
    """
    sums = np.zeros((count, y.size))
    total = np.zeros(y.size)
    for piece in pieces.monotone:
        low, high = sorted((piece.first, piece.last))
        here = np.flatnonzero((y >= low) & (y <= high))
        if not here.size:
            continue
        z = inverse(pieces.function, piece, y[here])
        weights = np.exp(-(z**2) / 2) / slopes(pieces.function, piece, z)
        sums[:, here] += functions(z) * weights
        total[here] += weights
    return np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)


def squares(
    pieces: Pieces, degree: int, outside: tuple[float, float] = (math.inf, -math.inf)
) -> tuple[np.ndarray, float]:
    """lambda_k^2 = E[E[h_k(z) | y]^2] for k = 0, ..., degree, and by how much it still changed.

    Quadrature on the z-axis, cut at the ends of all pieces and at all z where the link takes a value that it has at
    such an end, because E[h_k | y] jumps there, with more points until the sums agree. With `outside` only labels
    outside this interval count.
    """
    atoms = np.zeros(degree + 1)
    whole = outside[0] > outside[1]
    for value, members in pieces.flat:
        if outside[0] <= value <= outside[1]:
            continue
        moments = sum((flat_moments(piece.low, piece.high, degree) for piece in members), np.zeros(degree + 1))
        if moments[0] > 0:
            atoms += moments**2 / moments[0]
    if not pieces.monotone:
        return atoms, 0.0
    limits = [value for piece in pieces.monotone for value in (piece.first, piece.last)]
    ends = np.unique([*limits, *(value for value, _ in pieces.flat), *(() if whole else outside)])
    # extrema of a periodic link agree up to rounding only
    ends = ends[np.append(True, np.diff(ends) > SAME_VALUE * np.abs(ends[1:]))]
    intervals = np.concatenate([_cut(pieces.function, piece, ends) for piece in pieces.monotone])
    if not whole:
        middle = pieces.function(intervals.mean(axis=1))
        intervals = intervals[(middle < outside[0]) | (middle > outside[1])]
    if not intervals.size:
        return atoms, 0.0
    previous, change = np.full(degree + 1, np.inf), np.inf
    rules = _ROUGH + (_FINE if pieces.function.derivative is not None else _FINE_OF_DIFFERENCES)
    for count, steep in rules:
        z, weights = _rule(intervals, count, steep)
        means = conditional_means(pieces, pieces.function(z), degree)
        found = atoms + means**2 @ (weights * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))
        change = float(np.abs(found - previous).max())
        if change <= _SETTLED or ((count, steep) != rules[0] and 2 * z.size * len(pieces.monotone) > _MOST_PAIRS):
            break
        previous = found
    if not change <= _TOLERATED or (whole and abs(found[0] - 1) > _TOLERATED):
        raise InputError(
            f"link must be piecewise smooth with breakpoints = {pieces.function.breakpoints}: with twice the "
            f"quadrature points lambda_k^2 still changes by {change:.2g} (total probability {found[0]:.6g}); name its "
            "kinks and jumps by Link(name, link, breakpoints=...)"
        )
    return found, change


def _cut(function: Function, piece: Piece, values: np.ndarray) -> np.ndarray:
    low, high = sorted((piece.first, piece.last))
    size = np.abs(values)
    inside = (values - low > SAME_VALUE * np.maximum(size, abs(low))) & (
        high - values > SAME_VALUE * np.maximum(size, abs(high))
    )
    inner = inverse(function, piece, values[inside])
    cuts = np.unique(np.concatenate([[piece.low], inner, [piece.high]]))
    return np.stack([cuts[:-1], cuts[1:]], axis=1)


def _rule(intervals: np.ndarray, count: int, steep: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points that gather at the ends of each interval, where E[h_k | y] is like a root or a logarithm.

    If `steep`, z = a + (b-a) / (1 + exp(-pi sinh t)) at equidistant t (Takahasi & Mori 1974), else z = a + (b-a) (1 -
    cos t)/2 at Gauss-Legendre points, which do not come so near to an extremum that differences are rounding errors.
    """
    low, high = intervals[:, :1], intervals[:, 1:]
    if steep:
        t = np.linspace(-_LAST_T, _LAST_T, 60 * count + 1)
        rise = np.exp(-math.pi * np.sinh(np.abs(t)))
        near = rise / (1 + rise)
        lengths = (t[1] - t[0]) * math.pi * np.cosh(t) * rise / (1 + rise) ** 2
        z = np.where(t < 0, low + (high - low) * near, high - (high - low) * near)
    else:
        t, weights = (math.pi * part for part in panels(np.linspace(0, 1, count + 1), _NODES))
        lengths = weights * np.sin(t) / 2
        z = low + (high - low) * np.sin(t / 2) ** 2
    return z.ravel(), ((high - low) * lengths).ravel()


def flat_moments(low: float, high: float, degree: int) -> np.ndarray:
    """The integrals of h_k phi over [low, high]: that of k >= 1 is the difference of -h_{k-1} phi / sqrt(k)."""
    from scipy.special import ndtr

    ends = np.array([low, high])
    sign = -1.0 if low > 0 else 1.0
    found = np.empty(degree + 1)
    found[0] = sign * np.diff(ndtr(sign * ends))[0]
    if degree:
        density = np.exp(-(ends**2) / 2) / math.sqrt(2 * math.pi)
        below = Hermite().values(ends, degree - 1) * density
        found[1:] = -np.diff(below, axis=1)[:, 0] / np.sqrt(np.arange(1, degree + 1))
    return found
