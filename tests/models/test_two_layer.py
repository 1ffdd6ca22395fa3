import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.models.two_layer import TwoLayer


def test_output_is_the_scaled_sum_over_neurons():
    rng = np.random.default_rng(0)
    w, a, x = rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=(4, 3))
    network = TwoLayer(jnp.asarray(w), jnp.asarray(a), jnp.asarray(0.3), "tanh")
    expected = [0.3 * sum(a[i] * np.tanh(w[:, i] @ row) for i in range(5)) for row in x]
    np.testing.assert_allclose(network(jnp.asarray(x)), expected, rtol=1e-5, atol=1e-6)


def test_antisymmetric_network_vanishes_at_the_start():
    draw = jax.jit(lambda key: TwoLayer.antisymmetric(key, 6, 40, second_layer="normal"))
    network = draw(jax.random.key(0))
    x = jnp.asarray(np.random.default_rng(1).normal(size=(9, 6)))
    np.testing.assert_allclose(network(x), 0, atol=1e-5)
    assert np.abs(network.features(x)).max() > 0.5
    w, a = np.asarray(network.first_layer), np.asarray(network.second_layer)
    np.testing.assert_array_equal(w[:, :20], w[:, 20:])
    np.testing.assert_array_equal(a[:20], -a[20:])


def test_signs_are_fair_and_neurons_have_mean_squared_norm_one():
    d, width = 20, 5000
    network = jax.jit(lambda key: TwoLayer.random(key, d, width))(jax.random.key(2))
    signs = np.asarray(network.second_layer)
    assert set(signs) == {-1.0, 1.0}
    assert abs(signs.mean()) < 4 / np.sqrt(width)
    squared_norms = np.sum(np.asarray(network.first_layer) ** 2, axis=0)
    assert abs(squared_norms.mean() - 1) < 4 * np.sqrt(2 / (d * width))


def test_wide_networks_have_the_arcsine_variance():
    """Williams 1997: if sigma = erf and q = |x|^2/d, then E[sigma(w.x)^2] = (2/pi) arcsin(2q / (1 + 2q))."""
    d, width, networks = 4, 32, 4000
    x = jnp.array([[0.5, -1.0, 2.0, 0.3]])
    q = float(jnp.sum(x**2)) / d

    def output(key):
        return TwoLayer.random(key, d, width, activation="erf", scale=width**-0.5)(x)[0]

    squared = np.asarray(jax.jit(jax.vmap(output))(jax.random.split(jax.random.key(3), networks))) ** 2
    expected = 2 / np.pi * np.arcsin(2 * q / (1 + 2 * q))
    standard_error = squared.std() / np.sqrt(networks)
    assert abs(squared.mean() - expected) < 4 * standard_error
    assert expected > 20 * standard_error


def test_scale_may_be_traced():
    w, a, x = jnp.ones((3, 4)), jnp.ones(4), jnp.ones((2, 3))
    scales = jnp.array([0.5, 0.25])
    outputs = jax.jit(jax.vmap(lambda scale: TwoLayer(w, a, scale, "tanh")(x)))(scales)
    np.testing.assert_allclose(outputs, np.outer(scales, 4 * np.tanh([3.0, 3.0])), rtol=1e-6)


def test_weights_have_the_precision_of_the_context():
    with jax.enable_x64(True):
        shapes = jax.eval_shape(lambda key: TwoLayer.antisymmetric(key, 3, 4, scale=0.5), jax.random.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {jnp.dtype("float64")}


def test_wrong_choices_are_refused():
    with pytest.raises(InputError, match="width must be even"):
        TwoLayer.antisymmetric(jax.random.key(0), 3, 5)
    with pytest.raises(InputError, match="mean signs"):
        TwoLayer.random(jax.random.key(0), 3, 4, second_layer="sign")
