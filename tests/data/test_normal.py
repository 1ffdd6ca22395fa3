import jax
import jax.numpy as jnp
import numpy as np

from unlazy.data.normal import normal


def test_drawing_flat_gives_the_numbers_of_a_direct_draw():
    key = jax.random.key(0)
    np.testing.assert_array_equal(normal(key, (5, 3, 2)), jax.random.normal(key, (5, 3, 2)))


def test_precision_follows_jax_unless_it_is_named():
    key = jax.random.key(0)
    assert normal(key, (2,)).dtype == jnp.float32
    with jax.enable_x64(True):
        assert normal(key, (2,)).dtype == jnp.float64
        assert normal(key, (2,), jnp.float32).dtype == jnp.float32


def test_an_empty_shape_is_one_number():
    assert normal(jax.random.key(0), ()).shape == ()
