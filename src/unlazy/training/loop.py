"""The one training loop."""

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

    A pure function of its arrays, for jit and vmap. The step and `record` are compiled once, however many
    records there are. Training goes on after a divergence, so the records show it too.
    """
    stops = record_steps(steps, record_at)
    ends = stops if stops[-1] == steps else (*stops, steps)
    starts = (0, *ends[:-1])

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

    def segment(state: tuple[Any, Any, Array], bounds: Array) -> tuple[tuple[Any, Any, Array], Any]:
        state = jax.lax.fori_loop(bounds[0], bounds[1], update, state)
        return state, record(with_parameters(state[0])) if record else None

    parameters = jax.tree.map(jnp.asarray, trained(model))
    bounds = jnp.asarray(np.stack([starts, ends], axis=1), jnp.int32)
    state = (parameters, optimiser.init(parameters), jnp.int32(-1))
    (parameters, _, diverged_at), records = jax.lax.scan(segment, state, bounds)

    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(parameters)]).all()
    return Training(
        model=with_parameters(parameters),
        records=jax.tree.map(lambda values: values[: len(stops)], records),
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
