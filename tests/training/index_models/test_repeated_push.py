"""Several steps on one example, in all dimensions and as one push."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.functions.elementwise import LINKS
from unlazy.training.index_models.overlap_chain import Rule, push
from unlazy.training.index_models.repeated_push import repeated_push


@pytest.mark.parametrize("uses", [1, 2, 3])
@pytest.mark.parametrize("activation", ["relu2", "tanh"])
def test_a_push_is_the_mean_gradient_of_steps_in_all_dimensions(uses, activation):
    rng, d = np.random.default_rng(uses), 6
    w, x = rng.standard_normal((2, d))
    w /= np.linalg.norm(w)
    label, s, neuron = -0.7, 0.4, LINKS[activation]
    across = x - (w @ x) * w
    moved, gradients = w.copy(), []
    for _ in range(uses):
        gradients.append(label * float(neuron.slope(np.array(moved @ x + 0.1))))
        moved = moved + s * gradients[-1] / (across @ across) * across
    rule = Rule(1.0, reuse_step_size=s, bias=0.1)
    with jax.enable_x64(True):
        found = repeated_push(uses)(
            rule, neuron.slope, jnp.array(w @ x), jnp.array(label), jnp.array(across @ across / d)
        )
        assert float(found) == pytest.approx(np.mean(gradients), abs=1e-12)


def test_one_use_is_a_step_without_reuse_and_two_are_that_of_the_chain_where_inputs_have_their_mean_length():
    u, label = jnp.linspace(-2, 2, 9), jnp.linspace(1, -1, 9)
    rule = Rule(1.0, reuse_step_size=0.3, sign=-1.0)
    for uses in (1, 2):
        expected = push(rule._replace(reuse=uses - 1.0), LINKS["relu2"].slope, u, label, jnp.ones(9))
        found = repeated_push(jnp.asarray(uses))(rule, LINKS["relu2"].slope, u, label, jnp.ones(9))
        np.testing.assert_allclose(uses * found, expected, rtol=1e-5, atol=1e-6)
