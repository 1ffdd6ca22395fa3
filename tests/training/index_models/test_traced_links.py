import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.functions.elementwise import LINKS
from unlazy.training.index_models.traced_links import chosen_link, hermite_link


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_the_traced_link_is_the_named_one(degree):
    z = jnp.linspace(-3, 3, 31)
    named = LINKS[f"He{degree}"]
    for kind in ("value", "derivative"):
        found = jax.jit(lambda k, kind=kind: getattr(hermite_link(k), kind)(z))(degree)
        np.testing.assert_allclose(found, getattr(named, kind)(z), rtol=1e-5, atol=1e-5)
        for matched, expected in ((0, LINKS["relu"]), (1, named)):
            chosen = jax.jit(
                lambda m, kind=kind: getattr(chosen_link((LINKS["relu"], hermite_link(degree)), m), kind)(z)
            )(matched)
            np.testing.assert_allclose(chosen, getattr(expected, kind)(z), rtol=1e-5, atol=1e-5)
