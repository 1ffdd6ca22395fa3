import doctest
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.checks import InputError
from unlazy.optim import stop_at_margin


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("unlazy.optim.stop_at_margin")).failed == 0


@pytest.mark.parametrize(("share", "expected"), [(0.3, 1), (0.31, 3), (0.7, 3), (1.0, -1)])
def test_it_stops_for_good_at_the_first_step_with_enough_large_margins(share, expected):
    # 10 samples: 3 have margin 1 at step 1, none at step 2, 7 from step 3 on
    counts = jnp.array([0, 3, 0, 7, 7, 0])
    optimiser = stop_at_margin(optax.adam(0.1), 1.0, share)
    plain = optax.adam(0.1)

    def step(carry, count):
        w, state, v, other = carry
        margins = jnp.where(jnp.arange(10) < count, 1.0, 0.5)
        change, state = optimiser.update(jnp.cos(w), state, w, margins=margins)
        ordinary, other = plain.update(jnp.cos(v), other, v)
        w, v = optax.apply_updates(w, change), optax.apply_updates(v, ordinary)
        return (w, state, v, other), (w, v)

    start = jnp.arange(3.0)
    carry = (start, optimiser.init(start), start, plain.init(start))
    (_, state, _, _), (ours, theirs) = jax.lax.scan(step, carry, counts)
    assert int(state.stopped_at) == expected
    until = 6 if expected < 0 else expected
    np.testing.assert_allclose(ours[:until], theirs[:until], rtol=1e-5)
    for row in range(until, 6):
        np.testing.assert_array_equal(ours[row], ours[until - 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((optax.sgd(0.1), float("nan")), "margin must be finite, got nan"),
        ((optax.sgd(0.1), 1.0, 0.0), "fitted_share must be > 0 and <= 1, got 0"),
        ((optax.sgd(0.1), 1.0, 1.2), "fitted_share must be > 0 and <= 1, got 1.2"),
        (("sgd", 1.0), "optimizer must be an optax.GradientTransformation, got 'sgd'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        stop_at_margin(*arguments)


def test_missing_margins_are_named():
    optimiser = stop_at_margin(optax.sgd(0.1), 1.0)
    with pytest.raises(InputError, match="update must be given margins"):
        optimiser.update(jnp.ones(2), optimiser.init(jnp.ones(2)), jnp.ones(2))
