"""Leaving an exact saddle of the attention landscape: six ways to perturb it, side by side.

sigma = erf and x ~ N(0, I), where all moments are known: nothing is sampled but the perturbations. All are Euler steps
of theta_i' = -N dL/dtheta_i from `mean_field_attention.saddle`. The first three differ in how the start is perturbed,
the others start at the saddle itself and are perturbed on the way.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal
from unlazy.training.in_context.mean_field_attention import (
    NeuronLaw,
    State,
    best_loss,
    gaussian_moments,
    rebirth,
    saddle,
)

_KICKED, _REBORN = (0, 0, 0, 1, 0, 1), (0, 0, 0, 0, 1, 1)


def escape_losses(
    key: Array,
    features: int,
    missing: ArrayLike,
    neurons_per_slot: int,
    *,
    perturbation_deviation: ArrayLike,
    stagger: float,
    kick_size: ArrayLike,
    rebirth_probability: ArrayLike,
    step_size: float,
    record_every: int,
    records: int,
    kick_every: int,
    births_end: int,
    near: float = 1e-5,
) -> Array:
    """The losses over strength of all ways, (ways, records + 1), one every `record_every` steps.

    The ways, in this order: "no noise"; "noise" adds noise of `perturbation_deviation` to all coordinates; "staggered
    noise" turns each idle slot towards a missing feature of its own, every next one by `stagger` times as much; "kicks"
    move by `kick_size` H v / rms(H v), H v by differences of gradients at distance `near`, after the first of every
    `kick_every` steps; "birth-death" redraws each neuron with `rebirth_probability` after each of the first
    `births_end` records; "modified" has both.
    """
    k, width, d = features, neurons_per_slot * features, 2 * features
    at_saddle, teacher = saddle(k, missing, width, d)
    strength = 2 / jnp.pi * jnp.arcsin(2 / 3)

    def loss(state: State) -> Array:
        return best_loss(gaussian_moments(state, teacher))

    # one draw for everything: XLA compiles every separate draw for half a second
    numbers, periods = width * (d + k), records * record_every // kick_every
    parts = [d * k, numbers, k, periods * numbers, births_end * (width + numbers)]
    readout, rows, sizes, pushes, reborn = jnp.split(normal(key, (sum(parts),)), np.cumsum(parts)[:-1])
    pushes, reborn = pushes.reshape(periods, width, d + k), reborn.reshape(births_end, -1)
    law = NeuronLaw(readout.reshape(d, k), d**0.5, 0.5, 1.0)
    behind = jnp.maximum(jnp.arange(k) - (k - jnp.asarray(missing)), 0)
    own = jnp.eye(k, d + k) * (perturbation_deviation * stagger**behind * sizes)[:, None]
    moves = jnp.asarray(perturbation_deviation) * rows.reshape(width, d + k), jnp.repeat(own, neurons_per_slot, axis=0)
    starts = [at_saddle, *(_moved(at_saddle, move) for move in moves), *[at_saddle] * 3]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    kicks, births = kick_size * jnp.asarray(_KICKED, float), rebirth_probability * jnp.asarray(_REBORN, float)

    def tick(index: Array, carried: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        """A step, or one of the two gradients of a kick: one gradient in the program, which compiles slowly.

        In each period the first step is followed by the kick, then by the other steps; losses are recorded, and after
        that neurons redrawn, every `record_every` steps.
        """
        states, losses, ahead = carried
        period, phase = index // (kick_every + 2), index % (kick_every + 2)
        side = jnp.where(phase == 1, 1.0, jnp.where(phase == 2, -1.0, 0.0))
        push = pushes[period]
        at = jax.vmap(lambda state: _moved(state, side * near * push))(states)
        values, slopes = jax.vmap(jax.value_and_grad(loss))(at)
        slopes = jnp.concatenate([slopes.weights, slopes.outputs], axis=2)
        bent = (ahead - slopes) / (2 * near)
        root = jnp.sqrt(jnp.mean(bent**2, axis=(1, 2), keepdims=True))
        kicked = kicks[:, None, None] * jnp.where(root > 0, bent / jnp.where(root > 0, root, 1.0), 0.0)
        move = jnp.where(side == 0, -step_size * width * slopes, jnp.where(phase == 2, kicked, 0.0))
        states = jax.vmap(_moved)(states, move)

        taken = period * kick_every + jnp.where(phase == 0, 0, phase - 2)
        recorded = (side == 0) & (taken % record_every == 0)
        place = taken // record_every
        losses = jnp.where(recorded, losses.at[place].set(values / strength), losses)
        draws = reborn[jnp.minimum(place, births_end - 1)]
        chances = jnp.where(recorded & (place < births_end), births, 0.0)
        states = jax.vmap(lambda state, chance: rebirth(draws, state, law, chance))(states, chances)
        return states, losses, slopes

    first = jnp.zeros((records + 1, len(_KICKED))), jnp.zeros((len(_KICKED), width, d + k))
    return jax.lax.fori_loop(0, periods * (kick_every + 2) + 1, tick, (states, *first))[1].T


def _moved(state: State, rows: Array) -> State:
    """The state with its neurons moved by the given rows."""
    d = state.weights.shape[1]
    return state._replace(weights=state.weights + rows[:, :d], outputs=state.outputs + rows[:, d:])


class Pauses(NamedTuple):
    """Where losses hardly fall."""

    distance: Array
    """The largest distance of each run from an integer there, (...)."""
    visited: Array
    """Which of the integers 0, 1, ... each run is near there, (..., integers)."""


def pauses(losses: Array, spacing: float, slow: float, integers: int) -> Pauses:
    """Of losses (..., records): where they fall by less than `slow` per time; records are `spacing` apart."""
    speed = (losses[..., :-2] - losses[..., 2:]) / (2 * spacing)
    inner = losses[..., 1:-1]
    nearest = jnp.round(inner)
    paused = jnp.abs(speed) < slow
    distance = jnp.where(paused, jnp.abs(inner - nearest), 0.0)
    visited = (paused[..., None] & (nearest[..., None] == jnp.arange(integers))).any(axis=-2)
    return Pauses(distance.max(axis=-1), visited)


def log_slope(gap: Array, times: Array, low: float, high: float) -> Array:
    """The least-squares slope in time of log(gap) over the first records with the gap between `low` and `high`."""
    before = jnp.cumsum(gap > high) == 0
    inside = (before & (gap > low)).astype(gap.dtype)
    count = inside.sum()
    logs = jnp.log(jnp.where(inside > 0, gap, 1.0))
    centred = inside * (times - (inside * times).sum() / count)
    return (centred * logs).sum() / (centred * times).sum()
