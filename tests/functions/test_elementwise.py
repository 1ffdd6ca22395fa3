"""Functions of one variable: values, derivatives, NumPy and JAX alike, and what a user may give instead of a name."""

import math
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import hermite_e

from unlazy.checks import InputError
from unlazy.functions.elementwise import ACTIVATIONS, LINKS, Link, as_activation, as_link, polynomial

POINTS = np.array([-30.0, -3.3, -1.0, -0.4, 0.2, 0.9, 2.7, 30.0])
NEAR = POINTS[1:-1]


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_hermite_links_are_the_orthonormal_polynomials(k):
    expected = hermite_e.hermeval(NEAR, [0] * k + [1]) / math.sqrt(math.factorial(k))
    np.testing.assert_allclose(as_link(f"He{k}")(NEAR), expected, rtol=1e-12)


@pytest.mark.parametrize("name", LINKS)
def test_derivatives_are_central_differences(name):
    found, step = as_link(name), 1e-6
    differences = (found(NEAR + step) - found(NEAR - step)) / (2 * step)
    np.testing.assert_allclose(found.slope(NEAR), differences, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", LINKS)
def test_jax_and_numpy_compute_the_same_function_and_derivative(name):
    found, points = as_link(name), np.append(POINTS, 0.0)
    with jax.enable_x64(True):
        x = jnp.asarray(points)
        assert isinstance(found(x), jax.Array)
        np.testing.assert_allclose(found(x), found(points), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.slope(x), found.slope(points), rtol=1e-12, atol=1e-14)
        if name in ACTIVATIONS:
            by_autodiff = jax.vmap(jax.grad(found.value))(x)
            np.testing.assert_allclose(by_autodiff, found.slope(points), rtol=1e-12, atol=1e-15)


def test_gaussian_second_moments_are_the_known_closed_forms():
    z = np.linspace(-10, 10, 4001)
    weight = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    known = {"identity": 1.0, "erf": 2 / np.pi * np.arcsin(2 / 3), "relu": 1 / 2, "relu2": 3 / 2, "relu3": 15 / 2}
    for name, expected in known.items():
        assert np.sum(weight * as_activation(name)(z) ** 2) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", LINKS)
def test_not_a_number_stays_not_a_number(name):
    with np.errstate(invalid="ignore"):
        assert np.isnan(as_link(name)(np.array([np.nan]))).all()


def test_python_numbers_are_accepted():
    assert as_activation("relu2")(3.0) == 9.0
    assert as_activation("erf")(0.0) == 0.0


def test_polynomial_adds_its_terms():
    mixed = polynomial([0.5, 0.0, -1.0, 2.0])
    expected = 0.5 - as_link("He2")(NEAR) + 2 * as_link("He3")(NEAR)
    np.testing.assert_allclose(mixed(NEAR), expected, rtol=1e-12)
    assert polynomial([1.0]).slope(NEAR).shape == NEAR.shape


@pytest.mark.parametrize("bad", [[], [[1.0]], [math.nan]])
def test_bad_coefficients_are_refused(bad):
    with pytest.raises(InputError, match="hermite"):
        polynomial(bad)


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(InputError, match=r"activation must be one of .*got 'tahn'.*mean tanh"):
        as_activation("tahn")
    with pytest.raises(InputError, match="He3"):
        as_link("He33")


def test_a_link_is_its_own_link():
    own = Link("own", np.exp, np.exp)
    assert as_link(own) is own
    with pytest.raises(InputError, match="breakpoints"):
        as_link(Link("own", np.exp, breakpoints=0.5))


def test_a_function_of_a_user_has_a_derivative():
    np.testing.assert_allclose(as_link(np.exp).slope(NEAR), np.exp(NEAR), rtol=1e-8)
    with jax.enable_x64(True):
        np.testing.assert_allclose(as_link(jnp.exp).slope(jnp.asarray(NEAR)), np.exp(NEAR), rtol=1e-14)
    assert pickle.loads(pickle.dumps(as_link(np.tanh)))(0.0) == 0.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (math.tanh, "link must be a function of NumPy arrays, but it raised"),
        (lambda x: 1.0 if x > 0 else 0.0, "link must be a function of NumPy arrays, but it raised"),
        (lambda x: x[:2], r"link must return one number per point, got shape \(2,\) for \(6,\)"),
    ],
)
def test_a_function_that_takes_no_arrays_is_refused_in_one_line(given, said):
    with pytest.raises(InputError, match=said) as refusal:
        as_link(given)(NEAR)
    assert "\n" not in str(refusal.value)


def test_a_numpy_function_in_compiled_code_is_refused_in_one_line():
    with pytest.raises(InputError, match="link must be a function of JAX arrays") as refusal:
        jax.jit(as_link(lambda x: np.tanh(np.asarray(x))).value)(jnp.ones(3))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("bad", [3.5, None, ["tanh"]])
def test_what_is_no_function_is_refused(bad):
    with pytest.raises(InputError, match=r"activation must be one of .* or a function of arrays, got"):
        as_activation(bad)


def test_numpy_users_load_neither_jax_nor_scipy():
    program = (
        "import sys, numpy as np; from unlazy.functions import as_activation; "
        "as_activation('tanh')(np.ones(2)); print([m for m in ('jax', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
