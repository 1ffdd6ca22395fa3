import math

import numpy as np
import pytest
from scipy import integrate
from scipy.special import ndtr

from unlazy.numerics.orthant_moments import orthant_moments


@pytest.mark.parametrize(
    ("h", "k", "r"),
    [(0.3, -0.5, 0.6), (-1.0, 2.0, -0.8), (0.0, 0.0, 0.3), (0.0, 0.0, -0.5), (0.0, 1.0, 0.4), (5.0, -5.0, -0.9)],
)
def test_orthant_moments_are_their_integrals(h, k, r):
    rest = math.sqrt(1 - r**2)
    found = orthant_moments(*map(np.array, (h, k, r, rest)))

    def tail(x):
        return ndtr(-(k - r * x) / rest)

    def mean(x):
        place = (k - r * x) / rest
        return r * x * ndtr(-place) + rest * math.exp(-(place**2) / 2) / math.sqrt(2 * math.pi)

    terms = (tail, lambda x: x * tail(x), mean, lambda x: x**2 * tail(x), lambda x: x * mean(x))
    for term, number in zip(terms, found, strict=True):
        exact = integrate.quad(
            lambda x: term(x) * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi),  # noqa: B023
            h, 12, epsabs=1e-13,
        )[0]  # fmt: skip
        assert number == pytest.approx(exact, abs=1e-11)
