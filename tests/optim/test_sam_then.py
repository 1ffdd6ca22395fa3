import doctest
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.checks import InputError
from unlazy.optim import sam_then


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), np.where(np.arange(12) % 2, 1.0, -1.0)
START = {"w": RNG.normal(size=(3, 5)), "a": RNG.normal(size=5)}


def loss(params):
    return jnp.mean(jnp.logaddexp(0, -Y * (jnp.tanh(X @ params["w"]) @ params["a"])))


def gradient_of(params):
    """In NumPy."""
    hidden = np.tanh(X @ params["w"])
    slope = -Y / (1 + np.exp(Y * (hidden @ params["a"]))) / len(Y)
    return {"w": X.T @ (slope[:, None] * params["a"] * (1 - hidden**2)), "a": hidden.T @ slope}


def moved(params, direction, length):
    return {name: params[name] + length * direction[name] for name in params}


def by_hand(rate, radius, sam_steps, steps, momentum=0.0):
    """The path of SAM, then SGD."""
    params, path, velocity = START, [], dict.fromkeys(START, 0.0)
    for step in range(steps):
        gradient = gradient_of(params)
        if step < sam_steps:
            norm = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in gradient.values()))
            gradient = gradient_of(moved(params, gradient, radius / norm))
        velocity = {name: momentum * velocity[name] + gradient[name] for name in params}
        params = moved(params, velocity, -rate)
        path.append(params)
    return path


def run(optimiser, calls, opaque=False):
    extra = {"grad_fn": lambda params, _: jax.grad(loss)(params)} if opaque else {}

    @jax.jit
    def call(params, state):
        change, state = optimiser.update(jax.grad(loss)(params), state, params, **extra)
        return optax.apply_updates(params, change), state

    params, path, counts = jax.tree.map(jnp.asarray, START), [], []
    state = optimiser.init(params)
    for _ in range(calls):
        params, state = call(params, state)
        path.append(params)
        counts.append(int(getattr(state, "steps", 0)))
    return path, counts


def same(one, other, **tolerance):
    for name in one:
        np.testing.assert_allclose(one[name], other[name], **tolerance)


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("unlazy.optim.sam_then")).failed == 0


@pytest.mark.parametrize("sam_steps", [0, 1, 4, 7])
def test_opaque_steps_are_those_written_by_hand(sam_steps):
    optimiser = sam_then(optax.sgd(0.3), 0.5, sam_steps, opaque_mode=True)
    path, counts = run(optimiser, 7, opaque=True)
    assert counts == [1, 2, 3, 4, 5, 6, 7]
    for one, other in zip(path, by_hand(0.3, 0.5, sam_steps, 7), strict=True):
        same(one, other, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("sam_steps", [0, 1, 4, 7])
def test_two_calls_are_a_step_until_the_switch_and_one_call_after_it(sam_steps):
    calls = 2 * sam_steps + (7 - sam_steps)
    path, counts = run(sam_then(optax.sgd(0.3), 0.5, sam_steps), calls)
    assert counts == [call // 2 for call in range(1, 2 * sam_steps + 1)] + list(range(sam_steps + 1, 8))
    ends = [path[counts.index(step)] for step in range(1, 8)]
    for one, other in zip(ends, by_hand(0.3, 0.5, sam_steps, 7), strict=True):
        same(one, other, rtol=1e-12, atol=1e-14)
    if sam_steps:
        # between the calls the parameters are the perturbed ones, at distance radius
        shift = sum(np.sum(np.square(path[0][name] - START[name])) for name in START)
        np.testing.assert_allclose(shift, 0.5**2, rtol=1e-12)


def test_radius_0_is_the_optimiser_alone():
    path, _ = run(sam_then(optax.sgd(0.3), 0.0, 5), 10)
    same(path[-1], by_hand(0.3, 0.0, 0, 5)[-1], rtol=1e-12)


def test_momentum_is_carried_over_the_switch():
    path, _ = run(sam_then(optax.sgd(0.3, momentum=0.9), 0.5, 3, opaque_mode=True), 6, opaque=True)
    same(path[-1], by_hand(0.3, 0.5, 3, 6, momentum=0.9)[-1], rtol=1e-12)
    assert np.abs(path[-1]["w"] - by_hand(0.3, 0.5, 3, 6)[-1]["w"]).max() > 1e-3


@pytest.mark.parametrize("outer", [optax.sgd(0.3), optax.adam(0.1), optax.sgd(optax.linear_schedule(0.3, 0.0, 9))])
def test_without_a_switch_it_is_the_sam_of_optax(outer):
    ours, _ = run(sam_then(outer, 0.5, 100), 14)
    theirs, _ = run(optax.contrib.sam(outer, optax.chain(optax.contrib.normalize(), optax.sgd(0.5))), 14)
    same(ours[-1], theirs[-1], rtol=1e-11, atol=1e-14)


def test_a_scan_mapped_over_radii_and_switches_gives_the_single_runs():
    def final(radius, switch):
        optimiser = sam_then(optax.adam(0.1), radius, switch, opaque_mode=True)

        def step(carry, _):
            params, state = carry
            change, state = optimiser.update(
                jax.grad(loss)(params), state, params, grad_fn=lambda other, _: jax.grad(loss)(other)
            )
            return (optax.apply_updates(params, change), state), None

        start = jax.tree.map(jnp.asarray, START)
        return jax.lax.scan(step, (start, optimiser.init(start)), length=6)[0][0]

    radii, switches = jnp.array([0.1, 0.5, 0.5]), jnp.array([3, 3, 6])
    mapped = jax.jit(jax.vmap(final))(radii, switches)
    for index, (radius, switch) in enumerate(zip(radii.tolist(), switches.tolist(), strict=True)):
        optimiser = sam_then(optax.adam(0.1), radius, switch, opaque_mode=True)
        path, _ = run(optimiser, 6, opaque=True)
        same({name: mapped[name][index] for name in mapped}, path[-1], rtol=1e-9)
    assert np.abs(mapped["w"][0] - mapped["w"][1]).max() > 1e-3


def test_it_trains_in_a_chain_with_single_precision():
    params = {"w": jnp.ones((2, 2), jnp.float32)}
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), sam_then(optax.adam(0.1), np.float64(0.1), 2))
    state = optimiser.init(params)
    for _ in range(6):
        change, state = optimiser.update(params, state, params, margins=1.0)
        params = optax.apply_updates(params, change)
    assert params["w"].dtype == np.float32
    assert np.isfinite(params["w"]).all()


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e200])
def test_gradients_of_any_size_give_an_ascent_of_the_radius_and_no_nan(size):
    optimiser = sam_then(optax.sgd(1.0), 0.5, 3)
    params = jnp.zeros(4)
    change, _ = optimiser.update(size * jnp.array([1.0, -1.0, 1.0, 1.0]), optimiser.init(params), params)
    np.testing.assert_allclose(change, 0.25 * np.array([1, -1, 1, 1]) * (size > 0), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((optax.sgd(0.1), -1.0, 3), "radius must be >= 0, got -1"),
        ((optax.sgd(0.1), float("inf"), 3), "radius must be finite and >= 0, got inf"),
        ((optax.sgd(0.1), 0.1, -2), "switch_step must be >= 0 and <= 2.14748e\\+09, got -2"),
        ((optax.sgd(0.1), 0.1, 2.5), "switch_step must be whole and >= 0 and <= .*, got 2.5"),
        ((0.1, 0.1, 2), "optimizer must be an optax.GradientTransformation, got 0.1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        sam_then(*arguments)


def test_missing_arguments_of_update_are_named():
    optimiser = sam_then(optax.sgd(0.1), 0.1, 3, opaque_mode=True)
    state = optimiser.init(START)
    with pytest.raises(InputError, match="update must be given params"):
        optimiser.update(START, state)
    with pytest.raises(InputError, match="update must be given grad_fn"):
        optimiser.update(START, state, START)


@pytest.mark.parametrize("opaque", [True, False])
def test_further_arguments_reach_the_optimiser(opaque):
    """Steps of a length given at each call, before and after the switch."""

    def update(gradient, state, params=None, *, length=0.0, **_):
        return jax.tree.map(lambda leaf: -length * leaf, gradient), state

    inner = optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)
    optimiser = sam_then(inner, 0.1, 2, opaque_mode=opaque)
    extra = {"grad_fn": lambda params, _: jax.grad(loss)(params)} if opaque else {}
    params, calls = jax.tree.map(jnp.asarray, START), 4 if opaque else 6
    state = optimiser.init(params)
    for _ in range(calls):
        change, state = optimiser.update(jax.grad(loss)(params), state, params, length=0.3, **extra)
        params = optax.apply_updates(params, change)
    same(params, by_hand(0.3, 0.1, 2, 4)[-1], rtol=1e-9)
