"""The drift of a neuron that takes several steps on each example: closed forms, simulation, another solver."""

import math

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.stats import norm

from unlazy.functions.elementwise import as_link
from unlazy.functions.orthogonal import Hermite
from unlazy.theory.index_models.hidden_squares import light_polynomial, two_sizes
from unlazy.theory.index_models.repeated_uses import repeated_drift, repeated_time


def activation_coefficient(k):
    """E[relu(u)^2 h_k(u)]."""
    return quad(lambda u: u**2 * Hermite().values(u, k)[k] * norm.pdf(u), 0, 12)[0]


@pytest.mark.parametrize(("link", "coefficients"), [("He3", {3: 1.0}), ("He1", {1: 1.0}), (light_polynomial(), None)])
def test_one_use_has_the_drift_of_the_hermite_series(link, coefficients):
    link, m = as_link(link), np.array([-0.4, 0.0, 0.2, 0.6])
    coefficients = coefficients or {k: a for k, a in enumerate(link.hermite_coefficients) if a}
    series = sum(k * a * activation_coefficient(k) * m ** (k - 1) for k, a in coefficients.items())
    found = repeated_drift(link, m, 1, 0.2)
    np.testing.assert_allclose(found.pull, (1 - m**2) * series, atol=1e-3)
    assert found.update_square[1] == pytest.approx(2, rel=1e-3)


def test_two_uses_add_the_square_and_three_the_cube_of_the_label():
    # labels of two sizes are never below -1/(2 s), and the square shows no h_2
    s = 0.3
    link = two_sizes()
    cube = quad(lambda z: float(link(np.array(z))) ** 3 * z * norm.pdf(z), -12, 12, points=link.breakpoints)[0]
    one, two = (repeated_drift(link, [0.0, 0.3], uses, s).pull for uses in (1, 2))
    np.testing.assert_allclose(one, two, atol=1e-6)
    expected = 4 * s**2 / 3 * cube * activation_coefficient(1)
    assert repeated_drift(link, 0.0, 3, s).pull == pytest.approx(expected, rel=1e-4)
    # for labels of size below 1/(2 s), y + s y^2 of the generic polynomial shows h_2 in proportion to m
    s, generic = 0.01, light_polynomial(2.0)
    square = quad(lambda z: float(generic(np.array(z))) ** 2 * (z**2 - 1) * norm.pdf(z), -5.5, 5.5, limit=200)[0]
    gain = repeated_drift(generic, 1e-3, 2, s).pull - repeated_drift(generic, 1e-3, 1, s).pull
    assert gain == pytest.approx(s * square / math.sqrt(2) * 2 * activation_coefficient(2) * 1e-3, rel=0.01)


@pytest.mark.parametrize("uses", [2, 3])
def test_the_averages_are_those_of_drawn_examples(uses):
    # s is so large that some labels are below -1/(2 s)
    rng, m, s, count = np.random.default_rng(uses), 0.4, 0.4, 1_000_000
    u, v = rng.standard_normal((2, count))
    z = m * u + math.sqrt(1 - m**2) * v
    label, place, psi = two_sizes()(z), u, 0.0
    for _ in range(uses):
        gradient = 2 * label * np.maximum(place, 0)
        psi, place = psi + gradient / uses, place + s * gradient
    found = repeated_drift(two_sizes(), m, uses, s)
    for drawn, expected in ((psi * (z - m * u), found.pull), (psi**2, found.update_square)):
        error = drawn.std() / math.sqrt(count)
        assert abs(drawn.mean() - expected) < 4 * error
        assert abs(drawn.mean() - 1.2 * expected) > 4 * error


def test_the_time_is_that_of_the_equation_and_infinite_where_noise_wins():
    link, gamma = light_polynomial(), 0.02

    def velocity(_, m):
        drift = repeated_drift(link, m, 2, 0.2)
        return gamma * drift.pull - gamma**2 * m * drift.update_square / 2

    time = repeated_time(link, gamma, 2, 0.2, 0.2, 0.8)
    run = solve_ivp(velocity, (0, time), [0.2], rtol=1e-8)
    assert run.y[0, -1] == pytest.approx(0.8, abs=1e-4)
    assert math.isinf(repeated_time(link, 1.0, 2, 0.2, 0.2, 0.8))
