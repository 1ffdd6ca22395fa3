import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.models.image_networks import ImageMLP, SmallVGG, convolved


@pytest.mark.parametrize("size", [3, 5])
def test_a_convolution_is_that_of_xla(size):
    keys = jax.random.split(jax.random.key(0))
    images, kernel = jax.random.normal(keys[0], (2, 7, 6, 3)), jax.random.normal(keys[1], (size, size, 3, 4))
    wanted = jax.lax.conv_general_dilated(
        images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )
    np.testing.assert_allclose(convolved(images, kernel), wanted, rtol=1e-4, atol=1e-4)


def test_scores_start_at_0_and_filters_have_the_shape_of_what_they_see():
    images = jax.random.normal(jax.random.key(1), (4, 14, 14, 3))
    whole = ImageMLP.random(jax.random.key(0), (14, 14, 3), 5, 10)
    local = SmallVGG.random(jax.random.key(0), (14, 14, 3), 2, 10, filter_size=5)
    assert whole.filters.shape == (14, 14, 3, 5)
    assert local.filters.shape == (5, 5, 3, 2)
    for network in (whole, local):
        np.testing.assert_array_equal(network(images), np.zeros((4, 10)))


def test_a_hidden_layer_sees_the_whole_image():
    network = ImageMLP(jnp.ones((2, 2, 1, 1)), jnp.zeros(1), jnp.ones((1, 2)), jnp.array([0.0, 1.0]))
    images = jnp.arange(8.0).reshape(2, 2, 2, 1)
    np.testing.assert_allclose(network(images), [[6, 7], [22, 23]])


def test_an_image_that_three_maxima_would_leave_nothing_of_is_refused():
    with pytest.raises(InputError, match="at least 8 pixels a side, got 7 x 9"):
        SmallVGG.random(jax.random.key(0), (7, 9, 1), 2, 10)
