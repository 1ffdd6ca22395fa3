"""Odd links of which neither label nor square shows the direction in low degrees: superorthogonal with K = I = 2.

An odd link g without h_1 is one if E[g^2 h_2] = 0. Tails decide whether that can be seen in a simulation: here almost
all of the moments comes from inputs that occur.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from unlazy.checks import check_array
from unlazy.functions.elementwise import LINKS, Link, array_namespace, polynomial
from unlazy.numerics.roots import bisect

_DEGREES = range(3, 24, 2)
_COEFFICIENTS = (0.447, -0.514, 0.457, -0.385, 0.313, -0.232, 0.145, 0.0, 0.026, -0.007, 0.001)
_SOLVED = 7
"""Place of the coefficient that a quadratic equation gives."""


def light_polynomial(first_factor: float = 1.0) -> Link:
    """A superorthogonal polynomial of degree 23, K = I = 2, with light tails and variance 1.

    Coefficients of h_3, h_5, ..., h_23 to three digits, but that of h_17 is the larger root of the quadratic equation

        0 = E[g^2 h_2] = 2^(1/2) (sum_j j a_j^2 + sum_j ((j+1)(j+2))^(1/2) a_j a_{j+2}).

    They are those of the least E g^4 that a search found. Inputs of |z| < 5.4 have E g^4 = 1.5 (h_3 has 93) and E[g^2
    h_2] = -0.0001. Of the others, one in ten million, some have huge labels, which make E g^4 exactly 2 10^4.
    `first_factor` multiplies the coefficient of h_3 before the variance is made 1: factors other than 1 give
    polynomials of the same degree and parity whose squares show h_2. It is from 0 to 10^6.

    >>> from unlazy.theory import monomial_exponents
    >>> print(monomial_exponents(light_polynomial(first_factor=1.0), [1, 2, 3]).exponents)
    [3 4 1]
    >>> print(monomial_exponents(light_polynomial(first_factor=2.0), [1, 2, 3]).exponents)
    [3 2 1]
    """
    return _scaled(float(check_array("first_factor", first_factor, ndim=0, low=0, high=1e6)))


@cache
def _scaled(first_factor: float) -> Link:
    hermite = np.array(_light())
    hermite[3] *= first_factor
    return polynomial((hermite / np.linalg.norm(hermite)).tolist(), f"light polynomial, {first_factor:g} h_3")


def light_labels(z: Any, first_factor: Any) -> Any:
    """`light_polynomial(first_factor)` at z, of NumPy or JAX, where the factor may be traced."""
    first = _light()[3]
    size = (1 + (first_factor**2 - 1) * first**2) ** 0.5
    return (light_polynomial()(z) + (first_factor - 1) * first * LINKS["He3"](z)) / size


@cache
def _light() -> tuple[float, ...]:
    a = np.array(_COEFFICIENTS)
    constant, own = _square_moment(a), math.sqrt(2) * _DEGREES[_SOLVED]
    a[_SOLVED] = 1.0
    linear = _square_moment(a) - constant - own
    a[_SOLVED] = (-linear + math.sqrt(linear**2 - 4 * own * constant)) / (2 * own)
    hermite = np.zeros(_DEGREES[-1] + 1)
    hermite[list(_DEGREES)] = a / np.linalg.norm(a)
    return tuple(hermite.tolist())


@cache
def two_sizes(jump: float = 0.4) -> Link:
    """An odd link of two sizes: p sign(z) where |z| < c or |z| > C, and -q sign(z) between, with c = `jump` < 1 < C.

    C phi(C) = c phi(c) makes E[h_2; c < |z| < C] = 0, so that the size of the label says nothing of h_2; E[g h_1] = 0
    gives q/p, and E g^2 = 1 both. Superorthogonal with K = I = 2, while g^3 shows h_1 (E[g^3 h_1] = 0.56 at c = 0.4).
    """
    second = float(bisect(lambda z: np.log(z) - z**2 / 2 > math.log(jump) - jump**2 / 2, 1.0, 9.0, 60)[0])
    inner, outer = _density(jump), _density(second)
    ratio = (_density(0.0) - inner + outer) / (inner - outer)
    between = math.erf(second / math.sqrt(2)) - math.erf(jump / math.sqrt(2))
    large = 1 / math.sqrt(1 - between + between * ratio**2)

    def labels(z: Any) -> Any:
        xp = array_namespace(z)
        return xp.sign(z) * xp.where((xp.abs(z) > jump) & (xp.abs(z) < second), -ratio * large, large)

    return Link(f"two sizes from {jump:g}", labels, np.zeros_like, (-second, -jump, 0.0, jump, second))


def _square_moment(a: np.ndarray) -> float:
    j = np.array(_DEGREES)
    return math.sqrt(2) * float(j @ a**2 + np.sqrt((j[:-1] + 1) * (j[:-1] + 2)) @ (a[:-1] * a[1:]))


def _density(z: float) -> float:
    return math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
