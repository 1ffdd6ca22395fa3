import jax
import jax.numpy as jnp
import numpy as np

from unlazy.training.in_context.attention_descent import descend_towards_teacher, first_time, fitted_power


def run(features, probability=0.0, steps=4, largest=3, size=0.5):
    sizes = jnp.full(steps, size, jnp.float32)
    return descend_towards_teacher(
        jax.random.key(0), features, 48, 0.6, probability, sizes, rebirth_every=2, largest_features=largest
    )


def test_room_for_more_features_changes_nothing():
    """The loss of k features is at most k r with r = E f_j^2 = (scale/k)^2 E erf(z)^2, and positive."""
    found = run(2)
    strength = (0.6 / 2) ** 2 * 2 / np.pi * np.arcsin(2 / 3)
    assert 0 < found.losses[0] <= 2 * strength * (1 + 1e-5)
    np.testing.assert_allclose(found.longest[0], 1.0, rtol=1e-5)


def test_the_speed_is_the_rate_at_which_the_loss_falls():
    found = run(2, steps=2, size=1e-2)
    np.testing.assert_allclose((found.losses[0] - found.losses[1]) / 1e-2, found.speeds[0], rtol=0.05)


def test_redrawn_neurons_raise_the_loss_only_when_they_are_redrawn():
    plain, reborn = run(2), run(2, probability=0.5)
    assert (np.diff(plain.losses) < 0).all()
    assert reborn.losses[0] != plain.losses[0]


def test_powers_and_first_times_are_those_of_a_power_law():
    x = jnp.arange(1.0, 9.0)
    np.testing.assert_allclose(fitted_power(x, 3 * x**-1.5, x > 2), -1.5, rtol=1e-4)
    assert first_time(x, x > 4) == 5
    assert np.isnan(first_time(x, x > 40))
