import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.models.two_layer import TwoLayer
from unlazy.observables.kernels import (
    conjugate_kernel,
    first_layer_tangent_kernel,
    relative_change,
)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def network_and_inputs(activation="tanh"):
    rng = np.random.default_rng(0)
    w, a, x = (jnp.asarray(rng.normal(size=size)) for size in ((3, 8), 8, (5, 3)))
    return TwoLayer(w, a, jnp.asarray(0.4), activation), x


def jacobian(network, x, where):
    jacobian = jax.jacobian(lambda leaf: eqx.tree_at(where, network, leaf)(x))(where(network))
    return np.asarray(jacobian).reshape(len(x), -1)


def test_conjugate_kernel_is_the_mean_of_products_over_neurons():
    network, x = network_and_inputs()
    w = np.asarray(network.first_layer)
    expected = [[np.mean(np.tanh(w.T @ p) * np.tanh(w.T @ q)) for q in np.asarray(x)] for p in np.asarray(x)]
    np.testing.assert_allclose(conjugate_kernel(network, x), expected, rtol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "erf", "relu"])
def test_closed_form_of_the_tangent_kernel_equals_the_gram_matrix_of_the_jacobian(activation):
    network, x = network_and_inputs(activation)
    rows = jacobian(network, x, lambda model: model.first_layer)
    np.testing.assert_allclose(first_layer_tangent_kernel(network, x), rows @ rows.T, rtol=1e-11, atol=1e-14)


def test_tangent_kernel_is_the_speed_of_gradient_descent_in_function_space():
    """A step h changes the outputs by -h K (f - y) + O(h^2) for the loss |f - y|^2 / 2."""
    network, x = network_and_inputs()
    y = jnp.arange(5.0)

    def error(h):
        gradient = jax.grad(lambda w: jnp.sum((eqx.tree_at(lambda m: m.first_layer, network, w)(x) - y) ** 2) / 2)(
            network.first_layer
        )
        moved = eqx.tree_at(lambda m: m.first_layer, network, network.first_layer - h * gradient)
        linear = -h * first_layer_tangent_kernel(network, x) @ (network(x) - y)
        return float(jnp.linalg.norm(moved(x) - network(x) - linear))

    assert error(1e-3) / error(1e-4) == pytest.approx(100, rel=0.1)


def test_relative_change_of_a_rescaled_kernel_is_the_factor_minus_one():
    kernel = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    assert float(relative_change(kernel, 1.25 * kernel)) == pytest.approx(0.25)
    assert float(relative_change(kernel, kernel)) == 0.0
