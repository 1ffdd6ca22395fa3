"""The one loop: `evolve` makes steps and measures on the way, `train` makes the steps of an optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.checks import InputError


class Training(NamedTuple):
    """What training leaves behind.

    `records` is the tree that `record` returns with a leading axis, one entry per step of `record_at`.
    `diverged_at` is the first step at which the loss (or, after the last step, a trained weight) was not
    finite, -1 if there was none.
    """

    model: Any
    records: Any
    diverged_at: Array


def evolve(
    step: Callable[[Array, Any], Any],
    state: Any,
    steps: int,
    *,
    record: Callable[[Any], Any] | None = None,
    record_at: Sequence[int] | None = None,
    stop: Callable[[Any], Array] | None = None,
) -> tuple[Any, Any]:
    """The state after `steps` steps `state = step(number, state)`, and what `record` saw after those of `record_at`.

    The steps have the numbers 0, 1, ...; the state is any tree, and `record(state)` any tree of arrays, stacked along a
    first axis with one entry per step of `record_at` (increasing, from 0 to `steps`; by default the end alone). From
    the first state with `stop(state)` on, which must stay true, no more steps are made, and records see that state.

    A pure function of its arrays, for jit and vmap. The step and `record` are compiled once, however many records there
    are.
    """
    stops = record_steps(steps, record_at)
    ends = stops if stops[-1] == steps else (*stops, steps)

    def segment(state: Any, bounds: Array) -> tuple[Any, Any]:
        if stop is None:
            state = jax.lax.fori_loop(bounds[0], bounds[1], step, state)
        else:

            def goes_on(current: tuple[Array, Any]) -> Array:
                return (current[0] < bounds[1]) & ~stop(current[1])

            def advance(current: tuple[Array, Any]) -> tuple[Array, Any]:
                return current[0] + 1, step(*current)

            _, state = jax.lax.while_loop(goes_on, advance, (bounds[0], state))
        return state, record(state) if record else None

    bounds = jnp.asarray(np.stack([(0, *ends[:-1]), ends], axis=1), jnp.int32)
    state, records = jax.lax.scan(segment, state, bounds)
    return state, jax.tree.map(lambda values: values[: len(stops)], records)


def train(
    model: Any,
    loss: Callable[..., Array],
    optimiser: optax.GradientTransformation,
    steps: int,
    *,
    trained: Callable[[Any], Any],
    key: Array | None = None,
    record: Callable[[Any], Any] | None = None,
    record_at: Sequence[int] | None = None,
) -> Training:
    """Train the selected leaves of a model by `steps` updates of an optax optimiser, measuring on the way.

    `trained` selects what is trained, and the optimiser sees that tree and nothing else:
    `lambda model: model.first_layer`, or `lambda model: (model.first_layer, model.second_layer)`, for which
    `optax.multi_transform` gives each its own rate. The loss is `loss(model)`; with a `key` it is
    `loss(model, step_key)`, which draws a mini-batch or fresh data from a key of its own at every step.

    `record(model)` is any tree of arrays, evaluated after each number of updates in `record_at` (increasing,
    from 0 to `steps`; by default the end alone).

    A pure function of its arrays, for jit and vmap. Training goes on after a divergence, so the records show it too.
    """

    def with_parameters(parameters: Any) -> Any:
        return eqx.tree_at(trained, model, parameters)

    def objective(parameters: Any, step: Array) -> Array:
        current = with_parameters(parameters)
        return loss(current) if key is None else loss(current, jax.random.fold_in(key, step))

    def update(step: Array, state: tuple[Any, Any, Array]) -> tuple[Any, Any, Array]:
        parameters, optimiser_state, diverged_at = state
        value, gradient = jax.value_and_grad(objective)(parameters, step)
        change, optimiser_state = optimiser.update(gradient, optimiser_state, parameters)
        diverged_at = _first_failure(diverged_at, jnp.isfinite(value), step)
        return optax.apply_updates(parameters, change), optimiser_state, diverged_at

    parameters = jax.tree.map(jnp.asarray, trained(model))
    state = (parameters, optimiser.init(parameters), jnp.int32(-1))
    seen = None if record is None else lambda state: record(with_parameters(state[0]))
    (parameters, _, diverged_at), records = evolve(update, state, steps, record=seen, record_at=record_at)
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(parameters)]).all()
    return Training(
        model=with_parameters(parameters),
        records=records,
        diverged_at=_first_failure(diverged_at, finite, jnp.int32(steps)),
    )


def _first_failure(failed_at: Array, fine: Array, step: Array) -> Array:
    return jnp.where((failed_at < 0) & ~fine, step, failed_at)


def record_steps(steps: int, record_at: Sequence[int] | None) -> tuple[int, ...]:
    """The checked steps at which to record; the last one alone by default."""
    if steps < 0:
        raise InputError(f"steps must be >= 0, got {steps}")
    stops = (steps,) if record_at is None else tuple(int(step) for step in record_at)
    if not stops or stops[0] < 0 or stops[-1] > steps or any(np.diff(stops) <= 0):
        raise InputError(f"record_at must be increasing steps from 0 to {steps}, got {stops}")
    return stops
