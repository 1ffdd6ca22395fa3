import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf

from unlazy.checks import InputError
from unlazy.functions.elementwise import ACTIVATIONS, as_activation, as_link
from unlazy.numerics.gaussian import normal_averages, normal_nodes

MEANS, DEVIATIONS = np.array([-3.0, 0.0, 0.2, 5.0]), np.array([0.7, 1.0, 2.5, 1.0])


def by_quad(function, mean, deviation, kink):
    def expected(f):
        breaks = [min(max((kink - mean) / deviation, -12), 12)]
        density = lambda z: f(z) * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)  # noqa: E731
        return quad(density, -12, 12, points=breaks, limit=500, epsabs=1e-13, epsrel=1e-12)[0]

    first = expected(lambda z: float(function(mean + deviation * z)))
    linear = expected(lambda z: z * float(function(mean + deviation * z)))
    rest = expected(lambda z: (float(function(mean + deviation * z)) - first - linear * z) ** 2)
    return first, linear, rest


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_averages_of_activations_are_those_of_adaptive_quadrature(name):
    found = normal_averages("activation", as_activation(name), MEANS, DEVIATIONS)
    for i, (mean, deviation) in enumerate(zip(MEANS, DEVIATIONS, strict=True)):
        expected = by_quad(ACTIVATIONS[name], mean, deviation, 0.0)
        scale = math.sqrt(expected[0] ** 2 + expected[1] ** 2 + expected[2])
        np.testing.assert_allclose([found.mean[i], found.linear[i]], expected[:2], rtol=1e-9, atol=1e-10 * scale)
        np.testing.assert_allclose(found.rest[i], expected[2], rtol=1e-9, atol=1e-10 * scale**2)


def test_closed_forms_agree_with_the_quadrature():
    for name in ("erf", "relu"):
        closed = as_activation(name)
        by_rule = normal_averages("activation", closed._replace(name="unknown"), MEANS[:, None], DEVIATIONS)
        by_formula = normal_averages("activation", closed, MEANS[:, None], DEVIATIONS)
        for a, b in zip(by_rule, by_formula, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def test_steep_functions_and_jumps_are_averaged():
    found = normal_averages("link", as_link("sign"), [0.3, 0.3], [1.0, 100.0])
    np.testing.assert_allclose(found.mean, erf(np.array([0.3, 0.003]) / math.sqrt(2)), rtol=1e-10)
    # a jump at 0 is found without being named, even where symmetric rules agree on a wrong number
    unnamed = normal_averages("link", as_link(np.sign), [0.3, 0.3], [1.0, 100.0])
    np.testing.assert_allclose(unnamed.mean, found.mean, rtol=1e-9)
    steep = normal_averages("link", as_link(lambda x: np.tanh(1000 * x)), 0.3, 1.0)
    np.testing.assert_allclose(steep.mean, found.mean[0], rtol=1e-5)


def test_without_deviation_there_is_only_the_value():
    for function in ("tanh", "relu", "relu2", "sign"):
        found = normal_averages("link", as_link(function), [0.3, -0.4], 0.0)
        np.testing.assert_allclose(found.mean, as_link(function)(np.array([0.3, -0.4])), atol=1e-15)
        np.testing.assert_allclose([found.linear, found.rest], 0, atol=1e-14)


@pytest.mark.parametrize("count", [5, 80, 81, 300])
def test_nodes_integrate_polynomials(count):
    points, weights = normal_nodes(count)
    np.testing.assert_allclose([weights @ points**k for k in (0, 2, 4, 6, 8)], [1, 1, 3, 15, 105], rtol=1e-10)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.floor(3 * x), "link must be square integrable and smooth between breakpoints"),
        (lambda x: np.exp(x**2), "link must be square integrable"),
        (lambda x: 1 / (x - x), "link must be finite, got inf"),
        (lambda x: x[:, :7], "link must return one number per point"),
        ("tahn", "link must be one of .*did you mean tanh"),
        (3.0, "link must be one of .* or a function of arrays, got 3.0"),
    ],
)
def test_what_has_no_average_is_refused(function, message):
    with pytest.raises(InputError, match=message):
        normal_averages("link", as_link(function), 0.1, 1.0)
