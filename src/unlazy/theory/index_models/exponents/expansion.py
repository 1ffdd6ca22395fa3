"""Hermite expansions of links of any kind and of powers of polynomials."""

from __future__ import annotations

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.orthogonal import Hermite, coefficients
from unlazy.numerics.quadrature import hermite_rule
from unlazy.theory.index_models.exponents.pieces import Function, Pieces, find_pieces, reach

LARGEST_POWER_DEGREE = 400


def expansion(function: Function, degree: int) -> tuple[np.ndarray, float, float]:
    """a_0, ..., a_degree of link / size, this size, and the variance of link / size, which overflows for no link."""
    if function.hermite is not None:
        own = np.array(function.hermite)
        values = np.zeros(degree + 1)
        values[: min(own.size, degree + 1)] = own[: degree + 1]
        size = float(np.abs(own).max()) or 1.0
        return values / size, size, float((own[1:] / size) @ (own[1:] / size))
    size = float(np.abs(function(np.linspace(-5, 5, 101))).max()) or 1.0

    def scaled(z: np.ndarray) -> np.ndarray:
        return np.asarray(function.value(z), float) / size

    try:
        found = coefficients(scaled, Hermite(), degree, function.breakpoints)
    except InputError:
        # kinks that were not named are often ends of monotone or flat pieces, which can be found
        cuts = cuts_of(find_pieces(function, reach(degree)))
        if set(cuts) <= set(function.breakpoints):
            raise
        found = coefficients(scaled, Hermite(), degree, {*cuts, *function.breakpoints})
    variance = found.second_moment - float(found.polynomial_coefficients[0]) ** 2
    return found.polynomial_coefficients, size, variance if variance > 1e-14 * found.second_moment else 0.0


def power_of_polynomial(function: Function, power: int, degree: int) -> tuple[np.ndarray, float, np.ndarray]:
    """E[f^i h_k] for k = 0, ..., degree, the variance of f^i, and E|f^i h_k|, the scale of rounding errors.

    All for f over its largest value at the points, whose powers do not overflow.
    """
    assert function.hermite is not None
    own = max((k for k, a in enumerate(function.hermite) if a != 0), default=0)
    total = 2 * own * power
    if total > LARGEST_POWER_DEGREE:
        raise InputError(
            f"powers must keep degree * power <= {LARGEST_POWER_DEGREE // 2}, got {own} * {power} = {own * power}"
        )
    points, weights = hermite_rule(max(total, own * power + degree) // 2 + 2)
    if own * power == 0:
        return np.zeros(degree + 1), 0.0, np.ones(degree + 1)
    found = function(points)
    raised = (found / np.abs(found).max()) ** power
    basis = Hermite().values(points, degree)
    values = basis @ (weights * raised)
    variance = float(weights @ raised**2 - values[0] ** 2)
    return values, variance, np.abs(basis) @ (weights * np.abs(raised))


def cuts_of(pieces: Pieces) -> list[float]:
    inside = list(pieces.monotone) + [piece for _, members in pieces.flat for piece in members]
    ends = np.unique([end for piece in inside for end in (piece.low, piece.high)])[1:-1]
    # the two sides of a jump are one cut
    kept = ends[np.append(True, np.diff(ends) > 1e-9)] if ends.size else ends
    known = np.array(pieces.function.breakpoints)
    far = [end for end in kept.tolist() if not known.size or np.abs(known - end).min() > 1e-9]
    return sorted([*far, *pieces.function.breakpoints])
