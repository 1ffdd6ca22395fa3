import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.elementwise import as_activation, as_link
from unlazy.functions.orthogonal import Gegenbauer, Hermite, Krawtchouk, coefficients

RELU = as_activation("relu")
FAMILIES = [
    Hermite(),
    Gegenbauer(3),
    Gegenbauer(30),
    Gegenbauer(10**6),
    Krawtchouk(20),
    Krawtchouk(21),
    Krawtchouk(10**6),
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_polynomials_are_orthonormal(family):
    t, weights = family.grid(1)
    q = family.values(t, 9)
    np.testing.assert_allclose((q * weights) @ q.T, np.eye(10), atol=1e-13)


def test_hermite_and_sphere_polynomials_are_those_of_scipy():
    special = pytest.importorskip("scipy.special")
    t = np.linspace(-3, 3, 7)
    q = Hermite().values(t, 8)
    for k in range(9):
        np.testing.assert_allclose(q[k], special.eval_hermitenorm(k, t) / math.sqrt(math.factorial(k)), rtol=1e-12)
    d, u = 7, np.linspace(-1, 1, 9)
    family = Gegenbauer(d)
    for k, values in enumerate(family.values(math.sqrt(d) * u, 8)):
        shape = special.eval_gegenbauer(k, d / 2 - 1, u) / special.eval_gegenbauer(k, d / 2 - 1, 1.0)
        np.testing.assert_allclose(values, shape * math.sqrt(family.multiplicity(k)), atol=1e-12)


def test_hypercube_polynomials_are_elementary_symmetric_functions():
    d = 8
    signs = np.array(np.meshgrid(*[[-1, 1]] * d)).reshape(d, -1)
    q = Krawtchouk(d).values(signs.sum(axis=0) / math.sqrt(d), d)
    for k in range(d + 1):
        # the elementary symmetric function of degree k is a coefficient of the product of (1 + x s_i)
        elementary = np.array([np.polynomial.polynomial.polyfromroots(-column)[d - k] for column in signs.T])
        np.testing.assert_allclose(q[k] * math.sqrt(math.comb(d, k)), elementary, atol=1e-9)


@pytest.mark.parametrize("family", [Gegenbauer(3), Gegenbauer(30), Krawtchouk(12)], ids=str)
def test_polynomials_at_equal_points_are_the_roots_of_multiplicities(family):
    np.testing.assert_allclose(family.values(math.sqrt(family.d), 6) ** 2, family.multiplicities(6), rtol=1e-11)


def test_multiplicities_are_exact_whole_numbers():
    assert Gegenbauer(30).multiplicities(5) == [1, 30, 464, 4930, 40455, 273296]
    assert Gegenbauer(3).multiplicities(4) == [1, 3, 5, 7, 9]
    # all polynomials of degree <= k on the sphere: C(d+k-1, k) + C(d+k-2, k-1)
    d = 10**12
    assert sum(Gegenbauer(d).multiplicities(6)) == math.comb(d + 5, 6) + math.comb(d + 4, 5)
    assert Krawtchouk(5).multiplicities(7) == [1, 5, 10, 10, 5, 1, 0, 0]


def test_large_dimension_is_gaussian():
    t = np.linspace(-4, 4, 9)
    for family in (Gegenbauer(10**9), Krawtchouk(10**9)):
        np.testing.assert_allclose(family.values(t, 6), Hermite().values(t, 6), atol=1e-5)


@pytest.mark.parametrize(
    ("function", "family", "breakpoints", "expected"),
    [
        (RELU, Hermite(), (0,), {0: 0.3989422804, 1: 0.5, 2: 0.2820947918, 3: 0, 4: -0.08143375198}),
        (
            RELU,
            Gegenbauer(30),
            (0,),
            {0: 0.4022800701478, 1: 0.5, 2: 0.2795283195318, 3: 0, 4: -0.0790931707492, 6: 0.0423976976659},
        ),
        (np.tanh, Hermite(), (), {1: 0.6057055096022, 3: -0.1484371907873, 5: 0.0625475237527, 2: 0}),
        (np.tanh, Gegenbauer(30), (), {1: 0.6121257119016, 3: -0.1459636525645, 5: 0.0568890978759}),
        (np.sign, Gegenbauer(30), (0,), {1: 0.8045601402955, 3: -0.3327052479478}),
    ],
)
def test_coefficients_have_their_independently_computed_values(function, family, breakpoints, expected):
    found = coefficients(function, family, 6, breakpoints)
    for k, value in expected.items():
        np.testing.assert_allclose(
            found.polynomial_coefficients[k], value, atol=6e-11 if family == Hermite() and function is RELU else 6e-14
        )


def test_second_moments_and_tails_obey_parseval():
    relu = coefficients(RELU, Hermite(), 4, (0,))
    np.testing.assert_allclose(relu.second_moment, 0.5, rtol=1e-14)
    # a_0^2 + a_1^2 + a_2^2 + a_4^2 of relu in closed form
    np.testing.assert_allclose(relu.tail, 0.25 - 1 / (2 * np.pi) - 1 / (4 * np.pi) - 1 / (48 * np.pi), rtol=1e-12)
    np.testing.assert_allclose(coefficients(np.tanh, Hermite(), 1).second_moment, 0.3942944903979, rtol=1e-12)
    for family in FAMILIES:
        long, short = coefficients(np.tanh, family, 12), coefficients(np.tanh, family, 3)
        np.testing.assert_allclose(short.tail, long.tail + np.sum(long.polynomial_coefficients[4:] ** 2), rtol=1e-10)


def test_a_link_brings_its_own_breakpoints():
    for name in ("relu", "sign", "abs"):
        link = as_link(name)
        named = coefficients(link.value, Hermite(), 6, link.breakpoints)
        np.testing.assert_array_equal(
            coefficients(link, Hermite(), 6).polynomial_coefficients, named.polynomial_coefficients
        )


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_polynomial_has_its_coefficients_and_no_tail(family):
    wanted = np.array([0.3, -1.0, 0.0, 2.0, 0.0])
    found = coefficients(lambda t: wanted @ family.values(t, 4), family, 4)
    np.testing.assert_allclose(found.polynomial_coefficients, wanted, atol=1e-13)
    assert found.tail == 0
    np.testing.assert_allclose(found.second_moment, wanted @ wanted, rtol=1e-13)


def test_constants_and_singular_functions_are_expanded():
    assert coefficients(lambda t: 2.0, Gegenbauer(5), 3).polynomial_coefficients[0] == pytest.approx(2)
    # E |t| and E log(t)^2 of a normal t
    root = coefficients(lambda t: np.abs(t) ** 0.5, Hermite(), 2, (0,))
    np.testing.assert_allclose(root.second_moment, math.sqrt(2 / math.pi), rtol=1e-12)
    logarithm = coefficients(lambda t: np.log(np.abs(t)), Hermite(), 2, (0,))
    euler_gamma = 0.5772156649015329
    np.testing.assert_allclose(logarithm.polynomial_coefficients[0], -(euler_gamma + math.log(2)) / 2, rtol=1e-11)


def test_many_degrees_and_a_shifted_kink_keep_their_digits():
    # E[e^{st} q_k] = e^{s^2/2} s^k / sqrt(k!)
    found = coefficients(lambda t: np.exp(0.5 * t), Hermite(), 60)
    expected = [math.exp(0.125) * 0.5**k / math.sqrt(math.factorial(k)) for k in range(61)]
    np.testing.assert_allclose(found.polynomial_coefficients, expected, atol=1e-13)
    # E |t - c| = 2 phi(c) + c (2 Phi(c) - 1)
    c = 0.7
    mean = 2 * math.exp(-(c**2) / 2) / math.sqrt(2 * math.pi) + c * math.erf(c / math.sqrt(2))
    np.testing.assert_allclose(
        coefficients(lambda t: np.abs(t - c), Hermite(), 1, (c,)).polynomial_coefficients[0], mean, rtol=1e-13
    )


def test_jax_arrays_give_the_same_polynomials():
    jax = pytest.importorskip("jax")
    t = np.linspace(-2, 2, 5)
    for family in (Hermite(), Gegenbauer(8), Krawtchouk(8)):
        with jax.enable_x64(True):
            traced = jax.jit(lambda t, f=family: f.values(t, 6, xp=jax.numpy))(t)
        np.testing.assert_allclose(traced, family.values(t, 6), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("function", "breakpoints"),
    [
        (lambda t: np.abs(t) ** -0.5, (0,)),
        (lambda t: np.exp(t**2 / 4), ()),
        (lambda t: np.abs(t - 0.3), ()),
    ],
)
def test_what_does_not_converge_is_refused(function, breakpoints):
    with pytest.raises(InputError, match=r"function must be square integrable and smooth between breakpoints"):
        coefficients(function, Hermite(), 3, breakpoints)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Gegenbauer(2), "d must be an integer >= 3, got 2"),
        (lambda: Gegenbauer(4.5), "d must be an integer >= 3, got 4.5"),
        (lambda: Krawtchouk(0), "d must be an integer >= 1, got 0"),
        (lambda: Krawtchouk(4).values(0.0, 5), "degree must be an integer >= 0 and <= 4, got 5"),
        (lambda: Hermite().values(0.0, -1), "degree must be an integer >= 0 and <= 1000, got -1"),
        (lambda: coefficients(lambda t: t * np.nan, Hermite(), 2), "function must be a number, got nan"),
        (lambda: coefficients(lambda t: np.exp(t**2), Hermite(), 2), "function must be finite and square integrable"),
        (lambda: coefficients(np.tanh, Hermite(), 2, (np.nan,)), "breakpoints must be finite, got nan"),
        (lambda: coefficients(lambda t: t[:3], Hermite(), 2), r"function must return one number for each .* \(3,\)"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
