"""The direction of an index model from partial traces of a tensor of transformed labels.

    A = (1/n) sum_i T(y_i) H_k(x_i),      H_k(x) the k-th Hermite tensor, E A = sqrt(k!) E[T h_k] theta^(x k)

is never formed. Traces over pairs of its indices leave a matrix (k even), whose top eigenvector is the estimate, or a
vector (k odd), from which power steps w <- A[w, ..., w, .] on fresh samples go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from unlazy.functions.orthogonal import Hermite

_BLOCK = 8192
"""Rows that are drawn together."""

Transform = Callable[[Any], Any]


def radial_factor(square: np.ndarray, hermite_degree: int, d: int) -> np.ndarray:
    """What |x|^2 multiplies x or x x^T with in the partial trace of H_k(x) over (k - r)/2 pairs, r = 1 or 2.

        (-2)^j j! L_j^(d/2 + r - 1)(|x|^2 / 2),      j = (k - r)/2

    For k = 3 and 4 this is |x|^2 - d - 2 and |x|^2 - d - 4. The matrix has multiples of the identity besides, which
    change no eigenvector.
    """
    from scipy.special import eval_genlaguerre

    rest = 2 - hermite_degree % 2
    pairs = (hermite_degree - rest) // 2
    return (-2) ** pairs * math.factorial(pairs) * eval_genlaguerre(pairs, d / 2 + rest - 1, square / 2)


def eigenvector_overlaps(
    rng: np.random.Generator, transform: Transform, hermite_degree: int, d: int, ends: Sequence[int]
) -> np.ndarray:
    """Squared overlaps of top eigenvectors with the first n rows, for every n in `ends`; `hermite_degree` is even.

    `transform` maps z = x.theta to T(y). theta is the first coordinate axis; rows are in single precision.
    """
    from scipy.linalg import eigh

    # drawing is most of the cost, and this generator's normals take half the time
    quick = np.random.Generator(np.random.SFC64(rng.integers(2**63)))
    total, found = np.zeros((d, d)), []
    for start, end in pairwise((0, *ends)):
        for first in range(start, end, _BLOCK):
            rows = quick.standard_normal((min(_BLOCK, end - first), d), dtype=np.float32)
            square = np.einsum("ij,ij->i", rows, rows).astype(float)
            weights = transform(rows[:, 0].astype(float)) * radial_factor(square, hermite_degree, d)
            total += (weights[:, None].astype(np.float32) * rows).T @ rows
        found.append(eigh(total, subset_by_index=(d - 1, d - 1))[1][0, 0] ** 2)
    return np.array(found)


def power_overlaps(
    rng: np.random.Generator, transform: Transform, hermite_degree: int, d: int, n: int, power_steps: int
) -> np.ndarray:
    """Overlaps of the vector and after each of so many power steps, each on n fresh samples; `hermite_degree` is odd.

    Exact in law, at a cost that does not depend on d: of each x the parts along theta and the vector so far are drawn,
    and the length of what is orthogonal to them, which is isotropic. It enters by its length alone.
    """
    z = rng.standard_normal(n)
    across = rng.chisquare(d - 1, n)
    weights = transform(z) * radial_factor(z**2 + across, hermite_degree, d)
    along, rest = weights @ z, _length_of_sum(rng, weights**2 * across, d - 1)
    overlaps = [along / math.sqrt(along**2 + rest)]
    for _ in range(power_steps):
        m = overlaps[-1]
        u, v = rng.standard_normal((2, n))
        basis = Hermite().values(u, hermite_degree)
        side = math.sqrt(1 - m**2)
        labels = transform(m * u + side * v)
        # A[w, ..., w, .] has sqrt(k!) h_k along w and sqrt((k-1)!) h_(k-1)(u) times the rest of x
        along_w = math.sqrt(hermite_degree) * (labels @ basis[hermite_degree])
        push = labels * basis[hermite_degree - 1]
        along_v, rest = push @ v, (push @ push) * rng.chisquare(d - 2)
        length = math.sqrt(along_w**2 + along_v**2 + rest)
        overlaps.append((m * along_w + side * along_v) / length)
    return np.array(overlaps)


def _length_of_sum(rng: np.random.Generator, squares: np.ndarray, d: int) -> float:
    """|sum_i v_i|^2 of independent isotropic vectors of these squared lengths, added in pairs.

    |a + b|^2 = |a|^2 + |b|^2 + 2 |a| |b| t, where t is a coordinate of a uniform point of the sphere in d dimensions.
    """
    while squares.size > 1:
        if squares.size % 2:
            squares = np.append(squares, 0.0)
        first, second = squares[::2], squares[1::2]
        t = rng.standard_normal(first.size)
        t = t / np.sqrt(t**2 + rng.chisquare(d - 1, first.size))
        squares = np.maximum(first + second + 2 * np.sqrt(first * second) * t, 0.0)
    return float(squares[0])
