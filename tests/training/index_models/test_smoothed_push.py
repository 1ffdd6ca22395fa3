"""The push of one example on a smoothed loss is the gradient of that loss in all dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.functions.elementwise import as_link
from unlazy.theory.index_models import smoothed_drift
from unlazy.training.index_models.overlap_chain import Rule
from unlazy.training.index_models.smoothed_push import smoothed_push


@pytest.mark.parametrize("degree", [3, 4, 5])
def test_a_push_is_the_gradient_of_the_averaged_loss(degree):
    rng, d, radius = np.random.default_rng(degree), 7, 1.3
    w, x = rng.standard_normal((2, d))
    w = w / np.linalg.norm(w)
    draws = rng.standard_normal((20_000, d))
    # minus e, and e with x mirrored in the sphere: the mean over t is less noisy
    draws = jnp.array(np.concatenate([draws, -draws]))

    def loss(w):
        w = w / jnp.linalg.norm(w)
        e = draws - (draws @ w)[:, None] * w
        e = e / jnp.linalg.norm(e, axis=1, keepdims=True)
        return as_link(f"He{degree}")((w + radius * e) @ x / np.sqrt(1 + radius**2)).reshape(40, -1).mean(1)

    slopes = np.array(jax.jacobian(loss)(jnp.array(w)))
    u = w @ x
    across = x - u * w
    push = smoothed_push(degree, radius, float(d))
    found = push(Rule(1.0), None, jnp.array(u), jnp.array(1.0), jnp.array(across @ across / d))
    error = 5 * slopes.std(0) / np.sqrt(40) + 1e-5
    assert (np.abs(slopes.mean(0) - float(found) * across) < error).all()
    assert (np.abs(slopes.mean(0) - 0.5 * float(found) * across) > error).any()


@pytest.mark.parametrize("degree", [3, 4])
def test_pushes_have_the_squares_of_the_theory(degree):
    rng, d, radius, m, count = np.random.default_rng(0), 30, 2.0, 0.2, 1_000_000
    u, v = rng.standard_normal((2, count))
    square = v**2 + rng.chisquare(d - 2, count)
    label = as_link(f"He{degree}")(m * u + np.sqrt(1 - m**2) * v)
    given = (jnp.array(each, jnp.float32) for each in (u, label, square / d))
    psi = np.array(smoothed_push(degree, radius, float(d))(Rule(1.0), None, *given), float)
    expected = smoothed_drift(degree, m, d, radius)
    for each, wanted in ((psi * v * np.sqrt(1 - m**2), expected.pull), (psi**2 * square / d, expected.update_square)):
        assert abs(each.mean() - wanted) < 5 * each.std() / np.sqrt(count)
