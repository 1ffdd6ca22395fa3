"""Links of any kind as monotone pieces, which have inverses, and flat ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_choice
from unlazy.functions.links import LINKS, Link
from unlazy.functions.orthogonal import check_breakpoints

_POINTS = 20_001
_MOST_PIECES = 120
_MOST_NOISE = 400
_ILLINOIS_STEPS = 16
_BISECTIONS = 56
_CLOSE = 4e-16
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
            values = np.asarray(check_array("link", _numbers(self.value(z)), finite=False))
        if values.shape not in ((), np.shape(z)):
            raise InputError(f"link must return one number per point, got shape {values.shape} for {np.shape(z)}")
        values = np.broadcast_to(values, np.shape(z))
        wrong = ~np.isfinite(values)
        if wrong.any():
            raise InputError(f"link must be finite, got infinity or NaN at z = {np.asarray(z)[wrong][0]:g}")
        return values


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


def as_function(link: Any, breakpoints: Iterable[float] = ()) -> Function:
    """A name of `LINKS`, a `Link`, or any callable of arrays, smooth between its breakpoints."""
    if isinstance(link, str):
        link = LINKS[check_choice("link", link, LINKS)]
    if not callable(link):
        raise InputError(f"link must be one of {', '.join(LINKS)}, a Link or a callable, got {link!r}")
    known = tuple(getattr(link, "breakpoints", ()))
    breaks = [*check_breakpoints(known), *check_breakpoints(breakpoints)]
    derivative = getattr(link, "derivative", None)
    hermite = link.hermite if isinstance(link, Link) else None
    return Function(link, derivative, tuple(np.unique(breaks).tolist()), hermite)


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
    for _ in range(60):
        middle = (inside + outside) / 2
        same = abs(float(function(np.array([middle]))[0]) - value) <= 4 * np.finfo(float).eps * abs(value)
        inside, outside = (middle, outside) if same else (inside, middle)
    return inside


def _extremum(function: Function, low: float, high: float, sign: int) -> float:
    """The place of the largest sign * link between two points."""
    if function.derivative is not None:
        derivative = function.derivative
        for _ in range(60):
            middle = (low + high) / 2
            rising = sign * float(np.asarray(derivative(np.array([middle])))[0]) > 0
            low, high = (middle, high) if rising else (low, middle)
        return (low + high) / 2
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(50):
        left, right = high - golden * (high - low), low + golden * (high - low)
        f_left, f_right = sign * function(np.array([left, right]))
        low, high = (low, right) if f_left >= f_right else (left, high)
    return (low + high) / 2


def inverse(function: Function, piece: Piece, y: np.ndarray) -> np.ndarray:
    """The z of a monotone piece with link(z) = y, to rounding; y beyond its values gives its ends.

    The Illinois rule, and bisection for what it has not found in a few steps, such as z next to an extremum.
    """
    sign = 1.0 if piece.last > piece.first else -1.0
    root = np.where(sign * (y - piece.first) <= 0, piece.low, piece.high)
    active = np.flatnonzero((sign * (y - piece.first) > 0) & (sign * (y - piece.last) < 0))
    y = y[active]
    low, high = np.full(y.shape, piece.low), np.full(y.shape, piece.high)
    below, above = sign * (piece.first - y), sign * (piece.last - y)
    for iteration in range(_ILLINOIS_STEPS + _BISECTIONS):
        if not active.size:
            break
        if iteration < _ILLINOIS_STEPS:
            trial = (low * above - high * below) / (above - below)
            trial = np.where((trial > low) & (trial < high), trial, (low + high) / 2)
        else:
            trial = (low + high) / 2
        f = sign * (function(trial) - y)
        left = f < 0
        # the end that stays has its value halved, so that the next line does not keep it
        above, below = np.where(left, above / 2, f), np.where(left, f, below / 2)
        low, high = np.where(left, trial, low), np.where(left, high, trial)
        root[active] = trial
        done = (f == 0) | (high - low <= _CLOSE * np.maximum(np.abs(low), np.abs(high)))
        active, y, low, high, below, above = (a[~done] for a in (active, y, low, high, below, above))
    return root
