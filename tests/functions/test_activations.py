import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.activations import ACTIVATIONS, activation

NAMES = sorted(ACTIVATIONS)
POINTS = np.array([-30.0, -3.0, -0.7, -0.1, 0.2, 1.3, 4.0, 30.0])


@pytest.mark.parametrize("name", NAMES)
def test_derivative_agrees_with_a_central_difference(name):
    sigma, step = activation(name), 1e-5
    difference = (sigma(POINTS + step) - sigma(POINTS - step)) / (2 * step)
    np.testing.assert_allclose(sigma.derivative(POINTS), difference, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_jax_and_numpy_compute_the_same_function_and_derivative(name):
    sigma, points = activation(name), np.append(POINTS, 0.0)
    with jax.enable_x64(True):
        x = jnp.asarray(points)
        assert isinstance(sigma(x), jax.Array)
        np.testing.assert_allclose(sigma(x), sigma(points), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(sigma.derivative(x), sigma.derivative(points), rtol=1e-12, atol=1e-15)
        by_autodiff = jax.vmap(jax.grad(sigma.value))(x)
        np.testing.assert_allclose(by_autodiff, sigma.derivative(points), rtol=1e-12, atol=1e-15)


def test_gaussian_second_moments_are_the_known_closed_forms():
    z = np.linspace(-10, 10, 4001)
    weight = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    closed_forms = {
        "identity": 1.0,
        "erf": 2 / np.pi * np.arcsin(2 / 3),
        "relu": 1 / 2,
        "relu2": 3 / 2,
        "relu3": 15 / 2,
    }
    for name, expected in closed_forms.items():
        assert np.sum(weight * activation(name)(z) ** 2) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_not_a_number_stays_not_a_number(name):
    with np.errstate(invalid="ignore"):
        assert np.isnan(activation(name)(np.array([np.nan]))).all()


def test_python_numbers_are_accepted():
    assert activation("relu2")(3.0) == 9.0
    assert activation("erf")(0.0) == 0.0


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(InputError, match=r"activation must be one of .*got 'tahn'.*mean tanh"):
        activation("tahn")


def test_numpy_users_load_neither_jax_nor_scipy():
    program = (
        "import sys, numpy as np; from unlazy.functions.activations import activation; "
        "activation('tanh')(np.ones(2)); print([m for m in ('jax', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
