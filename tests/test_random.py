import jax
import jax.numpy as jnp
import numpy as np

from unlazy.random import normal


def test_drawing_flat_gives_the_numbers_of_a_direct_draw():
    flat, direct = jax.jit(lambda key: (normal(key, (5, 3, 2)), jax.random.normal(key, (5, 3, 2))))(jax.random.key(0))
    np.testing.assert_array_equal(flat, direct)


def test_precision_follows_jax_unless_it_is_named():
    def precision(dtype=None):
        return jax.eval_shape(lambda key: normal(key, (2,), dtype), jax.random.key(0)).dtype

    assert precision() == jnp.float32
    with jax.enable_x64(True):
        assert precision() == jnp.float64
        assert precision(jnp.float32) == jnp.float32


def test_an_empty_shape_is_one_number():
    assert jax.eval_shape(lambda key: normal(key, ()), jax.random.key(0)).shape == ()
