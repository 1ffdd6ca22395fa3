"""Networks of ReLU and its square on two patches [y mu, xi], with right or wrong labels: what is watched on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.training.signal_noise import token_gram as engine


def wrong_label_run(
    key: Array,
    n: int,
    record_at: Sequence[int],
    *,
    signal_strength: ArrayLike,
    flip_probability: ArrayLike,
    relative_step_size: ArrayLike,
    d: ArrayLike,
    width: ArrayLike,
    **sizes: Any,
) -> dict[str, Array]:
    """Errors, fits and mean coefficients of clean and flipped samples at the recorded steps, the last of which ends.

    `relative_step_size` is eta sigma^2 d/(nm), `signal_strength` n SNR^2. `leading_pairs` is the fraction of pairs of a
    sample and a neuron of its label in which the neuron's signal coefficient is larger than the noise coefficient.
    """

    def measure(problem: Any, state: Any, test: Any) -> dict[str, Any]:
        own = engine.own_pairs(problem)
        noise = engine.noise_coefficients(problem, state.weights)[:, :, 0]
        leading = own & (engine.signal_coefficients(problem, state.weights) > noise)
        return {
            "test_error": test(state).error[0],
            "training_loss": state.loss,
            "mean_signal_coefficient": engine.mean_signal(problem, state.weights),
            "leading_pairs": jnp.sum(leading) / jnp.sum(own),
            "active_fraction": engine.active_fraction(problem, state.weights),
            **engine.clean_and_flipped(problem, state),
        }

    design = engine.signal_noise_design(n, flip_probability=flip_probability)
    signal = jnp.reshape(jnp.sqrt(signal_strength * d / n), (1,))
    rule, network = engine.gradient_descent(relative_step_size * n * width / d), engine.Network(engine.relu_power(1))
    measures: dict[str, Any] = {"record": measure, "record_at": record_at, "draws": 300, "d": d, "width": width}
    run = engine.patch_run(key, design, signal, network, rule, record_at[-1], **sizes, **measures)
    return {**run.records, "diverged_at": run.state.diverged_at}


def memorising_run(
    key: Array,
    n: ArrayLike,
    record_at: Sequence[int],
    *,
    signal_level: ArrayLike,
    relative_step_size: ArrayLike,
    stop_loss: ArrayLike,
    steps: int,
    largest_n: int,
    d: ArrayLike,
    width: ArrayLike,
    **sizes: Any,
) -> dict[str, Array]:
    """Training to a loss, at n |mu|^4/(sigma^4 d) = `signal_level`: errors at the end, mean coefficients on the way."""
    design = engine.signal_noise_design(n, largest_n=largest_n)
    length = jnp.reshape((signal_level * d / n) ** 0.25, (1,))
    rule, network = engine.gradient_descent(relative_step_size * n * width / d), engine.Network(engine.relu_power(1))
    measures: dict[str, Any] = {"record": engine.mean_coefficients, "record_at": record_at, "draws": 4000}
    measures |= {"stop_loss": stop_loss, "d": d, "width": width}
    run = engine.patch_run(key, design, length, network, rule, steps, **sizes, **measures)
    problem, state, (signal, noise), fresh = run
    tested = {"test_error": fresh.error[0], "test_loss": fresh.loss[0], "training_loss": state.loss}
    return tested | {
        "active_fraction": engine.active_fraction(problem, state.weights),
        "mean_signal_coefficient": signal,
        "mean_noise_coefficient": noise,
        "diverged_at": state.diverged_at,
    }


def sharpness_aware_run(
    key: Array,
    n: int,
    *,
    signal_norm: ArrayLike,
    sam_time: ArrayLike,
    relative_radius: ArrayLike,
    batch_size: ArrayLike,
    relative_step_size: ArrayLike,
    d: ArrayLike,
    width: int,
    initial_scale: ArrayLike,
    stop_loss: ArrayLike,
    steps: int,
) -> dict[str, Array]:
    """SAM for a time t eta sqrt(d/n)/m, then descent, to a training loss; noise that is not orthogonal to the signal.

    The radius is in units of eta sqrt(d/(m B))/2, the `deactivating_radius` of the theory.
    `switch_signal` is the mean signal coefficient after SAM, `switch_noise` the largest noise coefficient.
    """
    draw_key, sam_key, plain_key, test_key = jax.random.split(key, 4)
    sizes: dict[str, Any] = {"n": n, "d": d, "width": width, "signal_norm": signal_norm}
    start = initial_scale / jnp.sqrt(jnp.asarray(d, float))
    problem = engine.draw_signal_noise(draw_key, **sizes, initial_deviation=start, orthogonal=False)
    network, view = engine.Network(engine.relu_power(1)), engine.mini_batch(batch_size)
    step_size = relative_step_size * n * width / d
    radius = relative_radius * step_size * jnp.sqrt(d / (width * batch_size)) / 2
    sam = engine.gradient_descent(step_size, view=view, radius=radius)
    updates = jnp.round(sam_time * jnp.sqrt(d / n) / relative_step_size)
    state = engine.train(sam_key, problem, network, sam, steps, stop_loss=stop_loss, updates=updates).state
    plain = engine.gradient_descent(step_size, view=view)
    last = engine.train(plain_key, problem, network, plain, steps, stop_loss=stop_loss, state=state).state
    return {
        "test_error": engine.fresh_error(test_key, problem, last.weights, network, draws=1000).error,
        "training_loss": last.loss,
        "switch_signal": engine.mean_signal(problem, state.weights),
        "switch_noise": jnp.max(engine.noise_coefficients(problem, state.weights)),
        "noise_coefficient": jnp.max(engine.noise_coefficients(problem, last.weights)),
        "updates": last.step,
        "diverged_at": last.diverged_at,
    }


def flipping_run(
    key: Array,
    n: int,
    record_at: Sequence[int],
    *,
    signal_strength: ArrayLike,
    flip_probability: ArrayLike,
    relative_step_size: ArrayLike,
    d: ArrayLike,
    width: ArrayLike,
    **sizes: Any,
) -> dict[str, Array]:
    """ReLU^2 on labels that are flipped anew at every step: error, loss and largest coefficients at recorded steps.

    `relative_step_size` is eta sigma^2 d/(nm).
    """

    def measure(problem: Any, state: Any, test: Any) -> dict[str, Any]:
        memorised = engine.noise_coefficients(problem, state.weights)[:, :, 0]
        noise = jnp.where(engine.own_pairs(problem), memorised, 0.0)
        signal = jnp.max(engine.signal_coefficients(problem, state.weights))
        found = {"test_error": test(state).error[0], "training_loss": state.loss, "signal_coefficient": signal}
        return found | {"noise_coefficient": jnp.max(noise)}

    signal = jnp.reshape(jnp.sqrt(signal_strength * d / n), (1,))
    rule = engine.gradient_descent(relative_step_size * n * width / d, view=engine.label_flips(flip_probability))
    network, design = engine.Network(engine.relu_power(2)), engine.signal_noise_design(n)
    measures: dict[str, Any] = {"record": measure, "record_at": record_at, "draws": 300, "d": d, "width": width}
    run = engine.patch_run(key, design, signal, network, rule, record_at[-1], **sizes, **measures)
    return {**run.records, "diverged_at": run.state.diverged_at}
