"""Descent of wide features below attention, with a share of neurons that bounds the teacher's density under their law.

sigma = erf and x ~ N(0, I) in d = 2k dimensions, where all moments are known. Under the base law a neuron watches one
of the d coordinates and has a second layer a uniform on the unit sphere. Under the teacher's it watches one of the
first k, j, with a uniform on the half sphere a_j > 0: the features are f_j = (m/k) erf(x_j), m = E|a_1|, and rotated in
any way it has a density of at most 4 under the base law. If a share gamma of the neurons is fresh from the base law,
the teacher's density under the law of all of them is at most R = 4/gamma.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal
from unlazy.training.in_context.mean_field_attention import FeatureMoments, State, best_loss, gaussian_moments


class DescentRecords(NamedTuple):
    """Before every step of one run, (steps,) each; where neurons are redrawn, right after that."""

    losses: Array
    speeds: Array
    """-dL/dt = (1/N) sum_i |N dL/dtheta_i|^2."""
    slopes: Array
    """delta = 2 |Z G|_*, how steeply the loss falls towards the best rotated teacher."""
    longest: Array
    """What |h(x)| is at most: the mean |a|."""


def descend_towards_teacher(
    key: Array,
    features: ArrayLike,
    width: int,
    scale: ArrayLike,
    rebirth_probability: ArrayLike,
    step_sizes: Array,
    *,
    rebirth_every: int,
    largest_features: int,
) -> DescentRecords:
    """Euler steps of theta_i' = -N dL/dtheta_i, and every `rebirth_every` steps neurons are redrawn from the base law.

    The teacher's features are `scale` / k times erf(x_j), k of `largest_features` and traced. At the start a is in the
    direction of v + g, v the same for all neurons of one coordinate and both normal: without v, h would be 0 for
    infinitely many neurons.
    """
    most, dtype = largest_features, step_sizes.dtype
    k = jnp.asarray(features)
    present = (jnp.arange(most) < k).astype(dtype)
    both, absent = jnp.eye(2 * most, dtype=dtype), jnp.diag(1 - present)
    # the moments divide by the number of the teacher's rows, absent ones among them
    teacher = State(both[:most], most / k * scale * jnp.diag(present), absent)
    start_key, later = jax.random.split(key)
    watched = jnp.arange(width) % (2 * k)
    coordinates = both[watched]
    drawn = normal(start_key, (2 * most + width, most), dtype) * present
    first = _unit(drawn[: 2 * most][watched] + drawn[2 * most :])

    def loss(state: State) -> tuple[Array, FeatureMoments]:
        moments = gaussian_moments(state, teacher)
        moments = moments._replace(covariance=moments.covariance + absent)
        return best_loss(moments), moments

    def step(state: State, given: tuple[Array, Array]) -> tuple[State, DescentRecords]:
        number, step_size = given
        draws = normal(jax.random.fold_in(later, number), (width, most + 1), dtype)
        reborn = (jax.scipy.special.ndtr(draws[:, :1]) < rebirth_probability) & (number % rebirth_every == 0)
        weights = jnp.where(reborn, coordinates, state.weights)
        outputs = jnp.where(reborn, _unit(draws[:, 1:] * present), state.outputs)
        state = state._replace(weights=weights, outputs=outputs)
        (value, moments), gradient = jax.value_and_grad(loss, has_aux=True)(state)
        fit = jnp.linalg.solve(moments.covariance, moments.cross.T).T
        missed = moments.power / k * jnp.diag(present) - fit @ moments.cross.T
        records = DescentRecords(
            losses=value,
            speeds=width * (jnp.sum(gradient.weights**2) + jnp.sum(gradient.outputs**2)),
            slopes=2 * jnp.linalg.svd(missed @ fit, compute_uv=False).sum(),
            longest=jnp.linalg.norm(outputs, axis=1).mean(),
        )
        moved = weights - step_size * width * gradient.weights, outputs - step_size * width * gradient.outputs
        return state._replace(weights=moved[0], outputs=moved[1]), records

    start = State(coordinates, first, absent)
    return jax.lax.scan(step, start, (jnp.arange(len(step_sizes)), step_sizes))[1]


def _unit(rows: Array) -> Array:
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)


def first_time(times: Array, condition: Array) -> Array:
    """The first time at which a condition holds, NaN if there is none."""
    return jnp.where(condition.any(), times[jnp.argmax(condition)], jnp.nan)


def fitted_power(x: Array, y: Array, kept: Array) -> Array:
    """The least-squares slope of log(y) against log(x) where `kept`."""
    weights = kept.astype(y.dtype)
    logs = [jnp.log(jnp.where(kept, values, 1.0)) for values in (x, y)]
    centred = weights * (logs[0] - (weights * logs[0]).sum() / weights.sum())
    return (centred * logs[1]).sum() / (centred * logs[0]).sum()
