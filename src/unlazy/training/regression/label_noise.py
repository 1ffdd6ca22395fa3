"""Two-time-scale training with label noise beside the penalties that it amounts to, on the same randomness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.data.plane_tasks import PlaneTasks
from unlazy.observables.degrees_of_freedom import degrees_of_freedom
from unlazy.training.loop import evolve
from unlazy.training.regression.two_timescale import (
    State,
    build_step,
    hidden_layer,
    intrinsic_kernel,
    label_noise,
    objective,
    second_layer,
)


def train_variants(
    key: Array,
    start: State,
    data: PlaneTasks,
    variants: Sequence[Mapping[str, str]],
    record_at: Sequence[int],
    *,
    label_noise_variance: ArrayLike,
    ridge: ArrayLike,
    activation: str,
    **options: Any,
) -> tuple[State, Mapping[str, Array]]:
    """Train every variant with noise or a penalty of this variance; the last states, and records (variant, record).

    A variant has the `gradient` through which noise acts, an exact `noise_penalty` in place of noise, or neither. The
    records are degrees of freedom, objective without noise and risk of the second layer at its ridge
    optimum for the labels. `options` are those of `build_step`.
    """

    def measure(state: State) -> dict[str, Array]:
        hidden = hidden_layer(state.first_layer, data.inputs, activation)
        fitted = second_layer(hidden, data.labels, ridge)
        outputs = hidden_layer(state.first_layer, data.fresh_inputs, activation) @ fitted / len(fitted)
        return {
            "degrees_of_freedom": degrees_of_freedom(intrinsic_kernel(hidden), ridge),
            "clean_objective": objective(hidden, data.labels, ridge),
            "risk": jnp.mean((outputs - data.fresh_values) ** 2),
        }

    def numbers(variant: Mapping[str, str]) -> dict[str, Array]:
        gradient, penalty = variant.get("gradient"), variant.get("noise_penalty")
        return {
            "label_noise_variance": jnp.where(gradient is None, 0.0, label_noise_variance),
            "frozen": jnp.asarray(gradient == "frozen", float),
            "freedom_variance": jnp.where(penalty == "degrees_of_freedom", label_noise_variance, 0.0),
            "frozen_variance": jnp.where(penalty == "frozen", label_noise_variance, 0.0),
        }

    def evolved(variant: dict[str, Array]) -> tuple[State, Mapping[str, Array]]:
        step = build_step(data.inputs, data.labels, ridge=ridge, activation=activation, **options, **variant)

        def one(number: Array, state: State) -> State:
            # variants that evolve with one key see the same randomness
            return step(jax.random.fold_in(key, number), state)

        return evolve(one, start, record_at[-1], record=measure, record_at=record_at)

    return jax.lax.map(evolved, jax.tree.map(lambda *each: jnp.stack(each), *map(numbers, variants)))


def uniform_noise_gap(
    key: Array, hidden: Array, labels: Array, ridge: ArrayLike, label_noise_variance: ArrayLike, draws: int
) -> Array:
    """The mean of G - F of `objective` over so many draws of uniform label noise for every task."""
    repeated = jnp.tile(labels, draws)
    noisy = repeated + label_noise(key, repeated.shape, label_noise_variance)
    return objective(hidden, repeated, ridge, fitted_labels=noisy) - objective(hidden, labels, ridge)
