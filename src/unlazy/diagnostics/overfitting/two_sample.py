"""Unbiased moments of two classes of rows: U-statistics over distinct rows, and what they are without one row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Grams(NamedTuple):
    """Inner products of different rows of a class (diagonals 0), and of rows of the two classes."""

    first: np.ndarray
    second: np.ndarray
    between: np.ndarray


class PairSums(NamedTuple):
    """Sums over the matrices A, D, B of `Grams`; fields may be arrays, one entry for each row left out."""

    n: Any
    """Rows of the first class."""
    a: Any
    """1.A 1"""
    aa: Any
    """|A|^2, the sum of squared entries."""
    aaa: Any
    """|A 1|^2"""
    ab: Any
    """(A 1).(B 1)"""
    rows: Any
    """|B 1|^2"""
    k: Any
    """Rows of the second class; the following four are those of D and B^T."""
    d: Any
    dd: Any
    ddd: Any
    db: Any
    columns: Any
    b: Any
    """1.B 1"""
    bb: Any
    """|B|^2"""

    def turned(self) -> PairSums:
        """The same with the classes exchanged."""
        return PairSums(*self[6:12], *self[:6], self.b, self.bb)


class ClassMoments(NamedTuple):
    signal: np.ndarray
    along: np.ndarray
    """mu.S_c mu for both classes c, (2, ...), at least 0."""
    fluctuation: np.ndarray
    """tr(S_c S_1) / (4 n_1) + tr(S_c S_2) / (4 n_2), (2, ...)."""
    noise_square_trace: np.ndarray


def inner_products(first: np.ndarray, second: np.ndarray) -> Grams:
    inner, outer = first @ first.T, second @ second.T
    np.fill_diagonal(inner, 0.0)
    np.fill_diagonal(outer, 0.0)
    return Grams(inner, outer, first @ second.T)


def sums_of(grams: Grams) -> PairSums:
    inner, outer, between = grams
    r, s = inner.sum(axis=1), outer.sum(axis=1)
    across, down = between.sum(axis=1), between.sum(axis=0)
    return PairSums(
        len(inner), r.sum(), np.sum(inner**2), r @ r, r @ across, across @ across,
        len(outer), s.sum(), np.sum(outer**2), s @ s, s @ down, down @ down,
        across.sum(), np.sum(between**2),
    )  # fmt: skip


def without_one_row(grams: Grams, sums: PairSums) -> tuple[PairSums, PairSums]:
    """The sums without each row of the first class, and without each row of the second."""
    turned = Grams(grams.second, grams.first, grams.between.T)
    return _without_first(grams, sums), _without_first(turned, sums.turned()).turned()


def _without_first(grams: Grams, sums: PairSums) -> PairSums:
    inner, outer, between = grams
    r, across, down = inner.sum(axis=1), between.sum(axis=1), between.sum(axis=0)
    inner_squares, between_squares = np.sum(inner**2, axis=1), np.sum(between**2, axis=1)
    return PairSums(
        sums.n - 1,
        sums.a - 2 * r,
        sums.aa - 2 * inner_squares,
        sums.aaa - r**2 - 2 * inner @ r + inner_squares,
        sums.ab - r * across - inner @ across,
        sums.rows - across**2,
        sums.k,
        sums.d,
        sums.dd,
        sums.ddd,
        sums.db - between @ outer.sum(axis=1),
        sums.columns - 2 * between @ down + between_squares,
        sums.b - across,
        sums.bb - between_squares,
    )


def moments_of(sums: PairSums) -> ClassMoments:
    """Unbiased moments: each product of entries is averaged over distinct rows only."""
    pairs = sums.n * sums.k
    shared_row = (sums.rows - sums.bb) / (pairs * (sums.k - 1))
    shared_column = (sums.columns - sums.bb) / (pairs * (sums.n - 1))
    disjoint = (sums.b**2 - sums.rows - sums.columns + sums.bb) / (pairs * (sums.n - 1) * (sums.k - 1))
    cross = sums.bb / pairs - shared_row - shared_column + disjoint
    first, second = _class_moments(sums, disjoint), _class_moments(sums.turned(), disjoint)
    signal = (first[0] + second[0] - 2 * sums.b / pairs) / 4
    own = np.array(np.broadcast_arrays(first[1], second[1]))
    cross = np.broadcast_to(cross, own.shape[1:])
    fluctuation = np.array([own[0] / sums.n + cross / sums.k, cross / sums.n + own[1] / sums.k]) / 4
    along = np.maximum(np.array(np.broadcast_arrays(first[2], second[2])), 0.0) / 4
    return ClassMoments(np.asarray(signal), along, fluctuation, own.mean(axis=0))


def _class_moments(sums: PairSums, disjoint: Any) -> tuple[Any, Any, Any]:
    """|m|^2, tr S^2 and (m - m').S (m - m') of the first class."""
    n, k = sums.n, sums.k
    chains = (sums.aaa - sums.aa) / (n * (n - 1) * (n - 2))
    apart = (sums.a**2 - 4 * (sums.aaa - sums.aa) - 2 * sums.aa) / (n * (n - 1) * (n - 2) * (n - 3))
    with_row = chains - 2 * sums.ab / (n * (n - 1) * k) + (sums.rows - sums.bb) / (n * k * (k - 1))
    without = apart - 2 * (sums.a * sums.b - 2 * sums.ab) / (n * (n - 1) * (n - 2) * k) + disjoint
    return sums.a / (n * (n - 1)), sums.aa / (n * (n - 1)) - 2 * chains + apart, with_row - without


def pooled_variance(moments: ClassMoments) -> np.ndarray:
    """V, the mean of the two V_c, at least a little: a moment that came out below 0 must not decide."""
    return np.maximum((moments.along + moments.fluctuation).mean(axis=0), 1e-12)


def separation_of(moments: ClassMoments) -> np.ndarray:
    return moments.signal / np.sqrt(pooled_variance(moments))


def margins(grams: Grams) -> np.ndarray:
    """Margins of the rows by the difference of the class means, all products between distinct rows."""
    inner, outer, between = grams
    n, k = between.shape
    r, s = inner.sum(axis=1), outer.sum(axis=1)
    square, other = r.sum() / (n * (n - 1)), s.sum() / (k * (k - 1))
    without = (r.sum() - 2 * r) / ((n - 1) * (n - 2)), (s.sum() - 2 * s) / ((k - 1) * (k - 2))
    first = (r / (n - 1) - between.sum(axis=1) / k) / 2 - (without[0] - other) / 4
    second = (s / (k - 1) - between.sum(axis=0) / n) / 2 - (without[1] - square) / 4
    return np.concatenate([first, second])
