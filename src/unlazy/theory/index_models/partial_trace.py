"""Partial traces of a tensor of transformed labels: the overlap of what they find with the direction.

A = (1/n) sum_i T(y_i) H_k(x_i) with the k-th Hermite tensor H_k has the mean sqrt(k!) E[T h_k] theta^(x k), and tracing
out pairs of its indices leaves a matrix or a vector that still points along theta.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, check_whole

_LARGEST = 1e100
_LARGEST_DEGREE = 12
_MOST_STEPS = 1000


class PartialTrace(NamedTuple):
    """Both fields have the broadcast shape of the arguments."""

    squared_overlap: np.ndarray
    samples_threshold: np.ndarray
    """For even k the n from which on the overlap is not 0; for odd k that from which on power steps raise it."""


def partial_trace_overlap(
    hermite_degree: int, n: ArrayLike, d: ArrayLike, squared_correlation: ArrayLike, *, power_steps: int = 0
) -> PartialTrace:
    """The squared overlap of the partial-trace estimator of degree k = `hermite_degree` >= 3 with the direction.

        k even: top eigenvector of the matrix,  q = max(0, 1 - B/n)
        k odd:  the vector,                     q = 1/(1 + B/n),   then power steps q <- 1/(1 + A/(n q^(k-1)))
        B = (d-1) v / (k! c),   A = (d-1) / (k c),   k = r + 2j with r = 2 or 1,   v = 2^j j! prod_(i<j) (d + 2r + 2i)

    c = `squared_correlation` is E[T h_k]^2 / E[T^2], at most lambda_k^2 of `generative_exponent`. The matrix is a spike
    of size sqrt(k!) E[T h_k] in a semicircle, since n is much larger than d. A power step w <- A[w, ..., w, .] takes n
    fresh samples, so that all are (1 + `power_steps`) n. Both need n of order d^(k/2): B for even k, and
    (A B^(k-2))^(1/(k-1)) for odd k. The limit of large d at fixed n/d^(k/2), with the exact variance v at finite d, for
    bounded T with E[T^2 z^2] = E[T^2], such as T = +-1. Own calculation for the estimator of Damian, Pillaud-Vivien,
    Lee & Bruna (2024).

    >>> found = partial_trace_overlap(hermite_degree=4, n=[1e4, 4e4], d=100, squared_correlation=0.2, power_steps=0)
    >>> print(found.squared_overlap.round(3), round(float(found.samples_threshold)))
    [0.571 0.893] 4290
    """
    k = check_whole("hermite_degree", hermite_degree, 3, _LARGEST_DEGREE)
    steps = check_whole("power_steps", power_steps, 0, _MOST_STEPS)
    samples = check_array("n", n, above=0, high=_LARGEST)
    dimension = check_array("d", d, low=2, high=1e9)
    share = check_array("squared_correlation", squared_correlation, above=1e-12, high=1)
    rest = 2 - k % 2
    pairs = (k - rest) // 2
    variance = 2**pairs * math.factorial(pairs) * math.prod(dimension + 2 * (rest + i) for i in range(pairs))
    first = (dimension - 1) * variance / (math.factorial(k) * share)
    later = (dimension - 1) / (k * share)
    if rest == 2:
        return PartialTrace(np.maximum(0.0, 1 - first / samples)[()], first[()])
    square = 1 / (1 + first / samples)
    for _ in range(steps):
        # q^(k-1) / (q^(k-1) + A/n), which a q of 0 leaves at 0
        power = square ** (k - 1)
        square = power / (power + later / samples)
    return PartialTrace(square[()], np.exp((np.log(later) + (k - 2) * np.log(first)) / (k - 1))[()])
