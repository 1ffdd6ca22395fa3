"""Superorthogonal polynomials: links whose first powers show nothing of the direction in low Hermite degrees."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError, check_choice, check_whole
from unlazy.functions.elementwise import Link, as_link, polynomial
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import hermite_rule
from unlazy.numerics.roots import ConvergenceError

_LARGEST, _MOST = 6, 60
_LARGEST_DEGREE = 40
_DEFAULT_DEGREES = 16
_EXACT_DEGREE = 20
_STARTS = 12
_ITERATIONS = 150
_SETTLED = 1e-12
_ACCEPTED = 1e-10
_SEED = 20_240


class NotConverged(ConvergenceError):
    """The search found no polynomial that passes the check, which does not prove that there is none."""


class ExactSeries(NamedTuple):
    """sum_j rational[j] He_j(z) + surd sqrt(radicand) He_degree(z) with the unnormalised He_j."""

    rational: tuple[Fraction, ...]
    surd: Fraction
    radicand: Fraction


class SuperOrthogonal(NamedTuple):
    """g = sum_j a_j h_j with E[g^i h_k] = 0 for 1 <= k <= K and 1 <= i <= I, and variance 1."""

    link: Link
    moment_residual: float
    """max |E[g^i h_k]| / E|g|^i by a quadrature that the search did not use."""
    exact_series: ExactSeries | None
    """The same polynomial, up to a factor, in exact numbers; None where it was found by search."""


def superorthogonal(
    hidden_degree: int, hidden_power: int, parity: str = "even", *, degree: int | None = None
) -> SuperOrthogonal:
    """A polynomial g whose powers up to I = `hidden_power` hide its argument up to degree K = `hidden_degree`.

        E[g(z)^i h_k(z)] = 0,     1 <= i <= I, 1 <= k <= K

    so that polynomial transforms of the label of degree at most I leave the information exponent above K (Oko et al.
    2024, proposition on superorthogonal polynomials). I = 1: h_{K+1} or h_{K+2}. K = I = 2, even, degree 20: the
    Hermite series of delta_1 + delta_{-1} up to degree 18 and a last coefficient that solves a quadratic, exact in
    rational numbers and one root (`exact_series`). Otherwise Levenberg-Marquardt from fixed random starts, at `degree`
    or at degrees from 2 to 30 above the lowest of this parity beyond K; what does not pass the independent check max
    |E[g^i h_k]| / E|g|^i < 1e-10 is never returned but refused with `NotConverged`. K and I are at most 6, `parity` is
    even or odd.

    >>> found = superorthogonal(hidden_degree=2, hidden_power=2, parity="even", degree=20)
    >>> from unlazy.theory import monomial_exponents
    >>> print(monomial_exponents(found.link, [1, 2, 3]).exponents)
    [4 4 2]
    """
    largest_k = check_whole("hidden_degree", hidden_degree, 1, _LARGEST)
    largest_i = check_whole("hidden_power", hidden_power, 1, _LARGEST)
    odd = check_choice("parity", parity, ("even", "odd")) == "odd"
    start = largest_k + 1 if (largest_k + 1) % 2 == odd else largest_k + 2
    if degree is not None:
        degree = check_whole("degree", degree, start, _LARGEST_DEGREE)
        if degree % 2 != odd:
            raise InputError(f"degree must be {parity} for parity {parity}, got {degree}")
    if largest_i == 1:
        hermite = np.zeros((degree or start) + 1)
        hermite[-1] = 1.0
        return _checked(hermite, largest_k, largest_i, _monomial(hermite.size - 1))
    if (largest_k, largest_i, odd) == (2, 2, False) and degree in (None, _EXACT_DEGREE):
        series = exact_even_series()
        return _checked(_normalised(series), largest_k, largest_i, series)
    degrees = [degree] if degree is not None else [start + 2 * step for step in range(1, _DEFAULT_DEGREES)]
    rng = np.random.default_rng(_SEED)
    best = math.inf
    for last in degrees:
        found, residual = _search(largest_k, largest_i, start, last, rng)
        best = min(best, residual)
        if residual <= _SETTLED and _residual(found, largest_k, largest_i) < _ACCEPTED:
            return _checked(found, largest_k, largest_i, None)
    raise NotConverged(
        f"no {parity} polynomial of degree {degrees[0]}{'' if degree else f' to {degrees[-1]}'} with hidden_degree "
        f"{largest_k} and hidden_power {largest_i} was found: the best of {_STARTS} starts per degree leaves max "
        f"|E[g^i h_k]| / E|g|^i = {best:.2g}"
    )


def exact_even_series() -> ExactSeries:
    """The K = I = 2 example of degree 20: a_j = -12 He_j(1)/j!, j = 4, ..., 18, and a_20 from E[g^2 He_2] = 0.

    E[g^2 He_2] = sum_j 2 j j! a_j^2 + 2 sum_j (j+2)! a_j a_{j+2}, a quadratic in a_20 whose larger root is taken.
    """
    last = _EXACT_DEGREE
    values = [1, 1]
    for j in range(1, last):
        values.append(values[j] - j * values[j - 1])
    rational = [Fraction(0)] * (last + 1)
    for j in range(4, last, 2):
        rational[j] = Fraction(-12 * values[j], math.factorial(j))
    constant = sum(
        2 * j * math.factorial(j) * rational[j] ** 2 + 2 * math.factorial(j + 2) * rational[j] * rational[j + 2]
        for j in range(4, last, 2)
    )
    linear = 2 * math.factorial(last) * rational[last - 2]
    square = 2 * last * math.factorial(last)
    rational[last] = -Fraction(linear) / (2 * square)
    radicand = rational[last] ** 2 - Fraction(constant) / square
    return ExactSeries(tuple(rational), Fraction(1), radicand)


def moment_residual(link: str | Link, hidden_degree: int, hidden_power: int) -> float:
    """max |E[g^i h_k]| / E|g|^i over 1 <= k <= K, 1 <= i <= I of a polynomial g, on an equidistant grid.

    K = `hidden_degree`, I = `hidden_power`, at most 60. Its half width 2 sqrt(I degree) + 12 is beyond all zeros of
    g^I h_K, where the trapezoidal rule is exact to rounding.

    >>> print(round(moment_residual("He3", hidden_degree=2, hidden_power=2), 3))
    4.243
    """
    largest_k = check_whole("hidden_degree", hidden_degree, 1, _MOST)
    largest_i = check_whole("hidden_power", hidden_power, 1, _MOST)
    found = as_link(link)
    if found.hermite_coefficients is None:
        raise InputError(f"link must be a polynomial such as He3, got {found.name!r}")
    hermite = np.trim_zeros(np.array(found.hermite_coefficients), "b")
    if not hermite.size:
        raise InputError("link must be a polynomial other than 0")
    return _residual(hermite / np.abs(hermite).max(), largest_k, largest_i)


def _residual(coefficients: np.ndarray, K: int, I: int) -> float:  # noqa: E741
    size = 2 * math.sqrt(I * (coefficients.size - 1)) + 12
    z = np.linspace(-size, size, 20_001)
    # each factor carries its share of the Gaussian weight, so that none overflows
    share = np.exp(-(z**2) / (4 * I))
    g = (Hermite().values(z, coefficients.size - 1) * share).T @ coefficients
    # E[g^i h_k] / E|g|^i does not change with g
    g = g / np.abs(g).max()
    worst = 0.0
    for i in range(1, I + 1):
        rest = np.exp(-(z**2) / 2 * (1 - i / (2 * I)))
        low = Hermite().values(z, K)[1:] * rest
        worst = max(worst, float(np.abs(low @ g**i).max()) / float(np.abs(g) ** i @ rest))
    return worst


def _monomial(degree: int) -> ExactSeries:
    return ExactSeries((*(Fraction(0),) * degree, Fraction(1)), Fraction(0), Fraction(0))


def _normalised(series: ExactSeries) -> np.ndarray:
    values = [float(a) for a in series.rational]
    values[-1] += float(series.surd) * math.sqrt(series.radicand)
    hermite = np.array([a * math.sqrt(math.factorial(j)) for j, a in enumerate(values)])
    return hermite / np.linalg.norm(hermite)


def _checked(hermite: np.ndarray, K: int, I: int, exact: ExactSeries | None) -> SuperOrthogonal:  # noqa: E741
    residual = _residual(hermite, K, I)
    if not residual < _ACCEPTED:
        raise NotConverged(f"the check max |E[g^i h_k]| / E|g|^i < {_ACCEPTED:g} failed with {residual:.2g}")
    name = f"superorthogonal({K}, {I})"
    return SuperOrthogonal(polynomial(hermite.tolist(), name), residual, exact)


def _search(K: int, I: int, start: int, last: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:  # noqa: E741
    """The best of several Levenberg-Marquardt runs on the unit sphere, as coefficients and largest residual."""
    degrees = np.arange(start, last + 1, 2)
    best, least = np.zeros(last + 1), math.inf
    for _ in range(_STARTS):
        damping = rng.uniform(0.3, 1.0)
        free = rng.standard_normal(degrees.size) * damping ** np.arange(degrees.size)
        found, residual = _descend(free / np.linalg.norm(free), degrees, K, I)
        if residual < least:
            best = np.zeros(last + 1)
            best[degrees], least = found, residual
        if least <= _SETTLED:
            break
    return best, least


def _descend(free: np.ndarray, degrees: np.ndarray, K: int, I: int) -> tuple[np.ndarray, float]:  # noqa: E741
    odd = int(degrees[0]) % 2
    equations = [(i, k) for i in range(2, I + 1) for k in range(1, K + 1) if (i * odd + k) % 2 == 0]
    if not equations:
        return free, 0.0
    points, weights = hermite_rule((I * int(degrees[-1]) + K) // 2 + 2)
    basis = Hermite().values(points, max(int(degrees[-1]), K))
    features, low = basis[degrees], basis[: K + 1]

    def residuals(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        g = b @ features
        values, slopes = np.empty(len(equations)), np.empty((len(equations), b.size))
        for row, (i, k) in enumerate(equations):
            total = weights @ np.abs(g) ** i
            weighted = weights * g ** (i - 1)
            values[row] = (weighted * g) @ low[k] / total
            # the total changes too: its slope is i E[|g|^(i-1) sign(g) h_j]
            own = i * features @ (weighted * low[k]) / total
            slopes[row] = own - values[row] * i * features @ (weights * np.abs(g) ** (i - 1) * np.sign(g)) / total
        return values, slopes

    values, slopes = residuals(free)
    damping = 1e-2
    for _ in range(_ITERATIONS):
        error = float(np.abs(values).max())
        if error <= _SETTLED / 10:
            break
        gram = slopes @ slopes.T
        step = -slopes.T @ np.linalg.solve(gram + damping * np.trace(gram) * np.eye(len(gram)), values)
        trial = free + step
        trial = trial / np.linalg.norm(trial)
        trial_values, trial_slopes = residuals(trial)
        if trial_values @ trial_values < values @ values:
            free, values, slopes, damping = trial, trial_values, trial_slopes, damping / 8
        else:
            damping *= 5
        if damping > 1e8:
            break
    return free, float(np.abs(values).max())
