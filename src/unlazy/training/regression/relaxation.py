"""How a mean-field network in two time scales relaxes: one cloud of neurons far from equilibrium, one at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.data.plane_tasks import plane_tasks
from unlazy.observables.degrees_of_freedom import ridge_inverse
from unlazy.training.loop import evolve
from unlazy.training.regression.two_timescale import (
    State,
    build_step,
    hidden_layer,
    init,
    intrinsic_kernel,
    noise_penalty_value,
    objective,
)


class Relaxation(NamedTuple):
    """What is measured while the clouds become one."""

    objective_gap: Array
    """By how much the objective of the first cloud is above that of the second, (records,)."""
    oscillation: Array
    """Largest less smallest value of the objective's first variation at equilibrium, over the neurons of both."""


def first_variation(
    hidden: Array, labels: Array, ridge: ArrayLike, label_noise_variance: ArrayLike, columns: Array
) -> Array:
    """Of F + (v/n) DoF at the law of neurons with this hidden layer: ridge h.(v G^2 - G T G) h for columns h (n, k)."""
    seen = ridge_inverse(intrinsic_kernel(hidden), ridge) @ columns
    fits = labels.T @ seen
    square = jnp.asarray(label_noise_variance) * jnp.sum(seen**2, axis=0) - jnp.mean(fits**2, axis=0)
    return jnp.asarray(ridge) * square


def relax(
    key: Array,
    record_at: Sequence[int],
    *,
    time: ArrayLike,
    n: int,
    d: int,
    width: int,
    tasks: int,
    activation: str,
    start_scale: ArrayLike,
    temperature: ArrayLike,
    noise_variance: ArrayLike,
    label_noise_variance: ArrayLike,
    ridge: ArrayLike,
) -> Relaxation:
    """Neurons that start at N(0, s^2 I), s the `start_scale`, beside neurons at equilibrium.

    The objective is F + (v/n) DoF, of label noise of variance v, and the dynamics are those of `two_timescale` with a
    weight decay equal to the temperature: they minimise it plus temperature KL(mu | N(0, I)). All steps take `time`, in
    units of one over the temperature. The neurons at equilibrium made twice as many before, from N(0, I). From then on
    both see the same noise, so that their fluctuations cancel more and more as the clouds become one.
    """
    steps = record_at[-1]
    data_key, start_key, burn_key, step_key = jax.random.split(key, 4)
    data = plane_tasks(data_key, n, d, tasks, noise_variance, fresh=1)
    step = build_step(
        data.inputs,
        data.labels,
        ridge=ridge,
        step_size=jnp.asarray(time) / (steps * jnp.asarray(temperature)),
        weight_decay=temperature,
        temperature=temperature,
        label_noise_variance=label_noise_variance,
        activation=activation,
    )
    first = init(start_key, d, width)

    def burn(number: Array, state: State) -> State:
        return step(jax.random.fold_in(burn_key, number), state)

    def together(number: Array, state: State) -> State:
        return jax.vmap(step, (None, 0))(jax.random.fold_in(step_key, number), state)

    def hidden(layer: Array) -> Array:
        return hidden_layer(layer, data.inputs, activation)

    def measure(state: State) -> Array:
        far, still = (
            objective(each, data.labels, ridge) + noise_penalty_value(each, ridge, label_noise_variance)
            for each in map(hidden, state.first_layer)
        )
        return far - still

    still, _ = evolve(burn, first, 2 * steps)
    both = State(jnp.stack([jnp.asarray(start_scale) * first.first_layer, still.first_layer]))
    _, gap = evolve(together, both, steps, record=measure, record_at=record_at)
    columns = jnp.concatenate([hidden(layer) for layer in both.first_layer], axis=1)
    varied = first_variation(hidden(still.first_layer), data.labels, ridge, label_noise_variance, columns)
    return Relaxation(gap, varied.max() - varied.min())
