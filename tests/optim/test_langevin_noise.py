import doctest
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.checks import InputError
from unlazy.optim import langevin_noise

RATE, HEAT, CURVATURE = 0.1, 0.2, 0.5


def variance(optimiser, steps=100, size=40_000):
    def step(state, _):
        x, memory = state
        change, memory = optimiser.update(CURVATURE * x, memory, x)
        return (optax.apply_updates(x, change), memory), None

    def end():
        start = jnp.zeros(size)
        return jax.lax.scan(step, (start, optimiser.init(start)), length=steps)[0][0].var()

    return float(jax.jit(end)())


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("unlazy.optim.langevin_noise")).failed == 0


def test_the_stationary_variance_is_that_of_the_euler_scheme():
    exact = HEAT / (CURVATURE * (1 - RATE * CURVATURE / 2))
    assert exact == pytest.approx(0.41026, abs=1e-5)
    error = exact * np.sqrt(2 / 40_000)
    own = variance(optax.chain(optax.sgd(RATE), langevin_noise(HEAT, RATE)))
    assert abs(own - exact) < 4 * error


@pytest.mark.slow
def test_the_noise_of_optax_does_the_same_only_with_its_own_scale_and_no_annealing():
    exact = HEAT / (CURVATURE * (1 - RATE * CURVATURE / 2))
    error = exact * np.sqrt(2 / 40_000)
    same = variance(optax.noisy_sgd(RATE, eta=2 * HEAT / RATE, gamma=0.0, key=jax.random.key(1)))
    assert abs(same - exact) < 4 * error
    # as its documentation would have it used: far from any temperature of 0.2
    annealed = variance(optax.noisy_sgd(RATE, eta=2 * HEAT / RATE, key=jax.random.key(1)))
    assert annealed < 0.5 * exact


def test_a_schedule_scales_the_noise_by_the_root_of_the_rate():
    noise = langevin_noise(HEAT, lambda count: jnp.where(count < 1, 0.1, 0.4), seed=3)
    zero = {"a": jnp.zeros(20_000), "b": jnp.zeros((100, 200))}
    state, update = noise.init(zero), jax.jit(noise.update)
    for rate in (0.1, 0.4):
        change, state = update(zero, state)
        one, other = (np.asarray(leaf).ravel() for leaf in change.values())
        for leaf in (one, other):
            assert leaf.var() == pytest.approx(2 * HEAT * rate, rel=4 * np.sqrt(2 / 20_000))
        assert np.corrcoef(one, other)[0, 1] == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((-1.0, 0.1), "temperature"), ((0.2, -0.1), "step_size"), ((0.2, 0.1, 0.5), "seed")],
)
def test_wrong_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        langevin_noise(*arguments)
