"""Links of any kind as monotone pieces, which have inverses, and flat ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array
from unlazy.functions.elementwise import Elementwise, Link, as_link
from unlazy.numerics.roots import bisect, golden_minimum, root_between

_POINTS = 20_001
_MOST_PIECES = 120
_MOST_NOISE = 400
_FLAT_CELLS = 40
_JUMP = 4.0
_INSIDE = 1e-13
SAME_VALUE = 1e-12


class Function(NamedTuple):
    """A link as the evaluators see it; `derivative` and `hermite` are None where they are not known."""

    value: Callable[[np.ndarray], Any]
    derivative: Callable[[np.ndarray], Any] | None
    breakpoints: tuple[float, ...]
    hermite: tuple[float, ...] | None

    def __call__(self, z: np.ndarray) -> np.ndarray:
        if not np.size(z):
            return np.zeros(np.shape(z))
        with np.errstate(all="ignore"):
            values = np.asarray(check_array("link", _numbers(_called(self.value, z)), finite=False))
        if values.shape not in ((), np.shape(z)):
            raise InputError(f"link must return one number per point, got shape {values.shape} for {np.shape(z)}")
        values = np.broadcast_to(values, np.shape(z))
        wrong = ~np.isfinite(values)
        if wrong.any():
            raise InputError(f"link must be finite, got infinity or NaN at z = {np.asarray(z)[wrong][0]:g}")
        return values


def _called(value: Callable[[np.ndarray], Any], z: np.ndarray) -> Any:
    """The values at an array, if the link takes one and computes in double precision."""
    try:
        values = value(z)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"link must take an array of points, got {type(error).__name__} for one: use NumPy or np.vectorize"
        ) from None
    found = getattr(values, "dtype", None)
    if found is not None and np.finfo(np.float64).eps < _rounding_of(found):
        raise InputError(f"link must compute in double precision, got {found}: use NumPy, or JAX with jax_enable_x64")
    return values


def _rounding_of(dtype: Any) -> float:
    """0 of whole numbers and of whatever is no number."""
    kind = np.dtype(dtype)
    return float(np.finfo(kind).eps) if kind.kind == "f" else 0.0


def _numbers(values: Any) -> Any:
    """NaN as infinity, which is reported with its place."""
    return np.where(np.isnan(values), np.inf, values) if np.asarray(values).dtype.kind == "f" else values


class Piece(NamedTuple):
    """An interval on which the link is monotone, or flat where its two end values agree."""

    low: float
    high: float
    first: float
    last: float

    @property
    def flat(self) -> bool:
        return self.first == self.last


class Pieces(NamedTuple):
    function: Function
    monotone: tuple[Piece, ...]
    flat: tuple[tuple[float, tuple[Piece, ...]], ...]
    """Values that the link takes with positive probability, each with its pieces."""


def as_function(link: str | Link | Elementwise) -> Function:
    """A name of `LINKS`, a `Link`, or any callable of arrays, smooth between its breakpoints."""
    known = as_link(link)
    return Function(known.value, known.derivative, tuple(sorted(set(known.breakpoints))), known.hermite_coefficients)


def reach(degree: int) -> float:
    """|z| beyond which h_k(z)^2 phi(z), k <= degree, has no weight."""
    return max(9.0, 2 * math.sqrt(degree) + 7)


def find_pieces(function: Function, largest: float) -> Pieces:
    """The pieces of a link on [-largest, largest].

    Jumps, extrema and the ends of flat pieces are found on a grid of 20,001 points, and then to rounding by bisection
    (extrema of links without a derivative to 1e-8 by golden section): what is narrower than a cell of it, about 1e-3,
    may be missed.
    """
    grid = np.linspace(-largest, largest, _POINTS)
    segments = _segments(function, grid)
    pieces = [piece for segment in segments for piece in _split(function, *segment)]
    if len(pieces) > _MOST_PIECES:
        raise InputError(
            f"link must have at most {_MOST_PIECES} monotone pieces on |z| <= {largest:.3g}, got {len(pieces)}: it "
            "oscillates or jumps too fast"
        )
    moving = tuple(piece for piece in pieces if not piece.flat)
    still = sorted((piece for piece in pieces if piece.flat), key=lambda piece: piece.first)
    atoms: list[tuple[float, tuple[Piece, ...]]] = []
    for piece in still:
        if atoms and abs(piece.first - atoms[-1][0]) <= SAME_VALUE * max(abs(piece.first), abs(atoms[-1][0])):
            atoms[-1] = (atoms[-1][0], (*atoms[-1][1], piece))
        else:
            atoms.append((piece.first, (piece,)))
    return Pieces(function, moving, tuple(atoms))


def _segments(function: Function, grid: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Points and values between the breakpoints and jumps; the ends lie just inside."""
    breaks = [b for b in function.breakpoints if grid[0] < b < grid[-1]]
    breaks = sorted({*breaks, *_jumps(function, grid, breaks)})
    found = []
    for low, high in pairwise([grid[0], *breaks, grid[-1]]):
        inside = _INSIDE * max(1.0, abs(low), abs(high))
        if high - low <= 8 * inside:
            continue
        points = np.linspace(low + inside, high - inside, 9)
        points = np.union1d(points, grid[(grid > low + inside) & (grid < high - inside)])
        found.append((points, function(points)))
    return found


def _jumps(function: Function, grid: np.ndarray, known: list[float]) -> list[float]:
    """Where the difference of neighbours stays as their distance is halved to rounding."""
    values = function(grid)
    steps = np.abs(np.diff(values))
    beside = np.maximum(np.append(steps[1:], 0.0), np.append(0.0, steps[:-1]))
    cells = np.flatnonzero((steps > _JUMP * beside) & (steps > 1e-9 * np.ptp(values)))
    cells = np.array([i for i in cells if not any(grid[i] <= b <= grid[i + 1] for b in known)], dtype=int)
    if not cells.size:
        return []
    low, high = grid[cells], grid[cells + 1]
    f_low, f_high = function(low), function(high)
    for _ in range(60):
        middle = (low + high) / 2
        f = function(middle)
        left = np.abs(f - f_low) >= np.abs(f_high - f)
        low, f_low = np.where(left, low, middle), np.where(left, f_low, f)
        high, f_high = np.where(left, middle, high), np.where(left, f, f_high)
    jumped = np.abs(f_high - f_low) > 0.5 * steps[cells]
    return ((low + high) / 2)[jumped].tolist()


def _split(function: Function, points: np.ndarray, values: np.ndarray) -> list[Piece]:
    """The monotone and flat pieces of one segment."""
    steps = np.diff(values)
    size = np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    signs = np.where(np.abs(steps) <= 4 * np.finfo(float).eps * size, 0, np.sign(steps))
    if np.count_nonzero(np.diff(signs[signs != 0])) > _MOST_NOISE:
        # rounding of a link that is flat up to cancellation is not its shape
        signs = np.where(np.abs(steps) <= 1e-13 * np.maximum(size, np.median(np.abs(values))), 0, signs)
    starts = np.append(0, np.flatnonzero(np.diff(signs)) + 1)
    runs = [(int(signs[a]), int(a), int(b)) for a, b in pairwise([*starts, signs.size])]
    flat = [s == 0 and (b - a >= _FLAT_CELLS or b - a == signs.size) for s, a, b in runs]
    cuts: list[float] = [points[0]]
    kinds: list[bool] = []
    last_sign, last_end, is_open = 0, 0, False
    for (sign, start, end), level in zip(runs, flat, strict=True):
        if level:
            if is_open:
                cuts.append(_flat_end(function, points[start], points[max(start - 1, 0)]))
                kinds.append(False)
            cuts.append(_flat_end(function, points[end], points[min(end + 1, points.size - 1)]))
            kinds.append(True)
            last_sign, is_open = 0, False
        elif sign:
            if last_sign and sign != last_sign:
                cuts.append(_extremum(function, points[max(last_end - 1, 0)], points[min(start + 1, end)], last_sign))
                kinds.append(False)
            last_sign, last_end, is_open = sign, end, True
        else:
            is_open = True
    if is_open:
        cuts.append(points[-1])
        kinds.append(False)
    else:
        cuts[-1] = points[-1]
    pieces = []
    for (low, high), level in zip(pairwise(cuts), kinds, strict=True):
        if high <= low:
            continue
        first, last = function(np.array([low, high]))
        pieces.append(Piece(low, high, first, first) if level or first == last else Piece(low, high, first, last))
    return pieces


def _flat_end(function: Function, inside: float, outside: float) -> float:
    """The end of the flat piece that contains `inside`, towards `outside`."""
    value = float(function(np.array([inside]))[0])
    rounding = 4 * np.finfo(float).eps * abs(value)
    # a link is a callable of arrays
    ends = np.array([inside]), np.array([outside])
    return float(bisect(lambda z: np.abs(function(z) - value) <= rounding, *ends)[0][0])


def _extremum(function: Function, low: float, high: float, sign: int) -> float:
    """The place of the largest sign * link between two points."""
    if function.derivative is not None:
        derivative = function.derivative
        ends = np.array([low]), np.array([high])
        return float(np.mean(bisect(lambda z: sign * np.asarray(derivative(z)) > 0, *ends)))
    return float(golden_minimum(lambda z: -sign * function(z), low, high, 50))


def inverse(function: Function, piece: Piece, y: np.ndarray) -> np.ndarray:
    """The z of a monotone piece with link(z) = y, to rounding; y beyond its values gives its ends."""
    sign = 1.0 if piece.last > piece.first else -1.0
    root = np.where(sign * (y - piece.first) <= 0, piece.low, piece.high)
    inside = (sign * (y - piece.first) > 0) & (sign * (y - piece.last) < 0)

    def excess(z: np.ndarray, y: np.ndarray) -> np.ndarray:
        # at its ends the values of the piece, whatever rounding makes of them
        value = np.where(z == piece.low, piece.first, np.where(z == piece.high, piece.last, function(z)))
        return sign * (value - y)

    root[inside] = root_between(excess, piece.low, piece.high, y[inside])
    return root
