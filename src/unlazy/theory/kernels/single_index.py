"""Kernels on a polynomial of one index, for points on the sphere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.elementwise import Link, as_link
from unlazy.functions.orthogonal import Gegenbauer
from unlazy.theory.kernels.blocks import expanded, kernel_blocks
from unlazy.theory.kernels.random_features import kernel_regression_equivalent

# of the blocks that the exponential kernel has
_LARGEST_DEGREE = 10
_LARGEST = 1e300


class IndexKernelScores(NamedTuple):
    """R^2 of kernel regression on a polynomial of one index."""

    matched_score: float
    """Of the kernel that has harmonics of the polynomial's degree alone."""
    exponential_score: float
    """Of exp(<x, x'>/d), at the best of the penalties."""
    score_bound: float
    """n over the number of harmonics of this degree, at most 1: what no rotation-invariant kernel exceeds."""


def index_kernel_scores(
    link: str | Link | Callable[[Any], Any],
    degree: int,
    n: float,
    d: int,
    *,
    penalties: Sequence[float],
    matched_penalty: float,
) -> IndexKernelScores:
    """R^2 = 1 - risk / E y^2 of y = link(<x, theta>), x uniform on the sphere of radius sqrt(d), without noise.

    By the deterministic equivalent of kernel regression with n samples, exact to leading order in n;
    `matched_penalty` is that of the matched kernel, `penalties` are those that the exponential one chooses from.
    Source: Ghorbani et al. (2021) for the bound.

    >>> found = index_kernel_scores(link="He2", degree=2, n=200, d=20, penalties=[0.01, 1.0], matched_penalty=1e-6)
    >>> print(f"{found.matched_score:.4f} {found.exponential_score:.4f} {found.score_bound:.4f}")
    0.9569 0.5931 0.9569
    """
    degree = check_whole("degree", degree, 0, _LARGEST_DEGREE)
    family = Gegenbauer(d)
    energies = expanded("link", as_link(link), family, degree).polynomial_coefficients ** 2
    choices = check_array("penalties", penalties, low=0, high=_LARGEST, ndim=1)
    jitter = check_array("matched_penalty", matched_penalty, low=0, high=_LARGEST, ndim=0)
    n = float(check_array("n", n, low=1, finite=False, ndim=0))
    if not energies.sum() > 0:
        raise InputError(f"link must have a part of degree <= {degree}, got none")
    copies = np.array(family.multiplicities(degree), dtype=float)
    alone = np.eye(degree + 1)[degree] / copies
    matched = kernel_regression_equivalent(alone, energies, n, jitter, 0.0, multiplicities=copies)
    values, more, _ = blocks = kernel_blocks([1 / math.factorial(k) for k in range(30)], family)
    powers = blocks.energies(energies.tolist())
    exponential = kernel_regression_equivalent(values, powers, n, choices, 0.0, multiplicities=more)
    matched_score, exponential_score = (1 - risk / energies.sum() for risk in (matched.risk, exponential.risk.min()))
    return IndexKernelScores(matched_score, exponential_score, min(n / copies[-1], 1.0))
