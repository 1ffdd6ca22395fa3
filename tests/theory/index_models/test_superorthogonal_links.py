"""Superorthogonal polynomials against exact arithmetic and other quadratures."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.functions.elementwise import polynomial
from unlazy.theory.index_models.exponents.exponents import information_exponent, monomial_exponents
from unlazy.theory.index_models.superorthogonal_links import (
    NotConverged,
    exact_even_series,
    moment_residual,
    superorthogonal,
)


def test_the_exact_series_is_the_published_one():
    series = exact_even_series()
    expected = (
        "1", "-4/15", "11/280", "-19/4725", "311/997920", "-719/37837800", "14297/15567552000",
        "-35369/1042053012000", "35369/41682120480000",
    )  # fmt: skip
    assert series.rational[4::2] == tuple(map(Fraction, expected))
    assert all(a == 0 for a in (*series.rational[:4], *series.rational[5::2]))
    assert series.surd**2 * series.radicand == Fraction(11163552839, 38) / 83364240960000**2


def test_the_exact_series_is_superorthogonal_in_exact_arithmetic():
    # numbers p + q sqrt(r) as pairs; E[g^2 He_2] from E[He_j He_k He_2] by linearisation
    series = exact_even_series()
    radicand = series.radicand
    values = [(a, Fraction(0)) for a in series.rational]
    values[-1] = (series.rational[-1], series.surd)

    def times(x, y):
        return (x[0] * y[0] + x[1] * y[1] * radicand, x[0] * y[1] + x[1] * y[0])

    total = (Fraction(0), Fraction(0))
    for j, a in enumerate(values):
        for k, b in enumerate(values):
            if (j + k) % 2 or abs(j - k) > 2 or j + k < 2:
                continue
            half = (j + k + 2) // 2
            triple = Fraction(
                math.factorial(j) * math.factorial(k) * 2,
                math.factorial(half - j) * math.factorial(half - k) * math.factorial(half - 2),
            )
            term = times(a, b)
            total = (total[0] + triple * term[0], total[1] + triple * term[1])
    assert total == (0, 0)


@pytest.mark.parametrize(
    ("largest_order", "largest_power", "parity", "degree"),
    [
        (2, 2, "even", 20),
        (2, 2, "odd", 17),
        (3, 2, "even", 20),
        (2, 3, "odd", 19),
        (3, 3, "even", 22),
        (4, 2, "odd", 25),
    ],
)
def test_moments_vanish_by_another_quadrature(largest_order, largest_power, parity, degree):
    found = superorthogonal(largest_order, largest_power, parity, degree=degree)
    hermite = np.array(found.link.hermite_coefficients)
    assert hermite.size == degree + 1
    assert hermite @ hermite == pytest.approx(1)
    assert found.moment_residual < 1e-10
    power = np.polynomial.hermite_e.herme2poly([a / math.sqrt(math.factorial(k)) for k, a in enumerate(hermite)])
    evaluate = np.polynomial.polynomial.polyval
    for i in range(1, largest_power + 1):
        size = integrate.quad(lambda z: abs(evaluate(z, power)) ** i * norm.pdf(z), -20, 20, limit=2000)[0]  # noqa: B023
        for k in range(1, largest_order + 1):
            he = [0.0] * k + [1 / math.sqrt(math.factorial(k))]
            moment = integrate.quad(
                lambda z: evaluate(z, power) ** i * np.polynomial.hermite_e.hermeval(z, he) * norm.pdf(z),  # noqa: B023
                -20, 20, limit=2000,
            )[0]  # fmt: skip
            assert abs(moment) < 1e-7 * size


def test_powers_keep_a_large_information_exponent():
    found = superorthogonal(2, 2)
    assert information_exponent(found.link, largest_degree=21).exponent == 4
    assert monomial_exponents(found.link, [1, 2], largest_degree=6).exponents.tolist() == [4, 4]
    # the next power gives it away
    assert monomial_exponents(found.link, [3], largest_degree=6).exponents.tolist() == [2]


def test_one_power_needs_a_single_hermite_polynomial():
    assert superorthogonal(3, 1, "even").link.hermite_coefficients == (0, 0, 0, 0, 1)
    assert superorthogonal(3, 1, "odd").link.hermite_coefficients == (0, 0, 0, 0, 0, 1)


def test_the_check_sees_a_wrong_coefficient():
    found = superorthogonal(2, 2)
    wrong = np.array(found.link.hermite_coefficients)
    # the truncated series of two point masses at zeros of h_2 is stationary in all but the last coefficient
    wrong[20] *= 1 + 1e-6
    assert moment_residual(found.link, 2, 2) < 1e-13
    assert moment_residual(polynomial(wrong), 2, 2) > 1e-9


def test_the_sign_of_the_moments_does_not_matter():
    rng = np.random.default_rng(0)
    hermite = np.zeros(6)
    hermite[[3, 5]] = rng.standard_normal(2)
    assert moment_residual(polynomial(-3 * hermite), 2, 2) == pytest.approx(moment_residual(polynomial(hermite), 2, 2))


@pytest.mark.parametrize(
    ("largest_order", "largest_power", "degree"), [(2, 4, 20), (2, 4, 28), (4, 3, 22), (4, 3, 30), (2, 2, 6)]
)
def test_what_is_not_found_is_refused(largest_order, largest_power, degree):
    # (2, 2) at degree 6 has E[g^2 h_2] as a definite quadratic form: there is none
    with pytest.raises(NotConverged, match=r"was found: the best of 12 starts per degree leaves .* = \d"):
        superorthogonal(largest_order, largest_power, "even", degree=degree)


def test_bad_input_is_refused():
    for arguments in ((0, 2), (2, 0), (7, 1), (2, 7), (1.5, 2)):
        with pytest.raises(InputError, match=r"hidden_(degree|power) must be"):
            superorthogonal(*arguments)
    with pytest.raises(InputError, match="parity"):
        superorthogonal(2, 2, "both")
    with pytest.raises(InputError, match="degree must be even"):
        superorthogonal(2, 2, "even", degree=21)
    with pytest.raises(InputError, match="degree"):
        superorthogonal(2, 2, "even", degree=2)
    with pytest.raises(InputError, match="other than 0"):
        moment_residual(polynomial([0.0, 0.0, 0.0]), 2, 2)
