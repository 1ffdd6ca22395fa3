"""Algorithm 1 with random activations and a step size that falls: directions, and then the second layer.

Examples come in segments of equal length. In the first one each is used twice at the strength that weak recovery needs;
in segment i = 1, 2, ... both step sizes are gamma/(1 + i), so that the interpolation step does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.functions.elementwise import LINKS, Link
from unlazy.random import normal
from unlazy.training.index_models import online_index, overlap_chain

CLIP = 0.3
"""Largest |update| times d^(1/2)."""
_RIDGES = tuple(10.0**-k for k in range(1, 10))


def random_activations(key: Array, count: int, sizes: Sequence[float]) -> Link:
    """sum_i +-sizes[i-1] h_i, i = 1, 2, 3, with signs of its own for each of so many neurons, along the last axis."""
    signs = jnp.sign(normal(key, (3, count), jnp.float32))
    first, second, third = (sign * size for sign, size in zip(signs, sizes, strict=True))

    def value(u: Any) -> Any:
        return first * u + second * LINKS["He2"](u) + third * LINKS["He3"](u)

    def slope(u: Any) -> Any:
        return first + math.sqrt(2) * second * u + math.sqrt(3) * third * LINKS["He2"](u)

    return Link("random", value, slope)


def rules(
    segments: int, signs: Array, step_size: ArrayLike, reuse_step_size: ArrayLike, noise_variance: ArrayLike
) -> overlap_chain.Rule:
    """The rule of every segment, stacked along a first axis, in single precision, as all of phase I."""
    place = jnp.arange(segments)
    sizes = step_size / (1.0 + place)
    reused = jnp.where(place == 0, reuse_step_size, sizes)
    ones, every = jnp.ones(segments), jnp.broadcast_to(signs, (segments, signs.size))
    found = sizes, reused, ones, every, 0 * ones, noise_variance * ones, CLIP * ones
    return overlap_chain.Rule(*(jnp.asarray(each, jnp.float32) for each in found))


def chain_overlaps(
    key: Array, chains: int, d: ArrayLike, samples: ArrayLike, rule: overlap_chain.Rule, activation: Link, link: Link
) -> Array:
    """Overlaps (segments, chains) at the ends of segments of so many examples, from uniform starts on the sphere."""
    start_key, train_key = jax.random.split(key)
    d = jnp.asarray(d, jnp.float32)
    # one coordinate of a normal vector, and the square of the d - 1 others
    along, _, rest, _ = overlap_chain.draw(start_key, (1, chains), d + 1.0, jnp.float32, noisy=False)
    start = along[0] / jnp.sqrt(along[0] ** 2 + rest[0])
    return _segments(
        lambda number, m, one: overlap_chain.train(
            jax.random.fold_in(train_key, number),
            m,
            d,
            one,
            jnp.asarray(samples, jnp.int32)[None],
            link=link,
            activation=activation,
        )[0],
        start,
        rule,
    )


def network_weights(
    key: Array, width: int, d: int, samples: int, rule: overlap_chain.Rule, activation: Link, link: Link
) -> Array:
    """First layers (segments, width, d) at the ends of segments, all neurons on the same examples."""
    start_key, train_key = jax.random.split(key)

    def segment(number: Array, weights: Array, one: overlap_chain.Rule) -> Array:
        given = jax.random.fold_in(train_key, number), weights, one, samples
        return online_index.train(*given, link=link, activation=activation).weights

    return _segments(segment, online_index.init(start_key, width, d, jnp.float32), rule)


def absolute_errors(
    key: Array, weights: Array, noise_variance: ArrayLike, activation: Link, link: Link, reach: float = 1.0
) -> Array:
    """E|f - f*| of networks with these first layers (stages, width, d) and fitted second ones."""

    def fitted(own: Array, layer: Array) -> Array:
        options: dict[str, Any] = {"reach": reach, "samples_per_neuron": 40, "ridges": _RIDGES}
        found = online_index.fit_second_layer(own, layer, noise_variance, link=link, activation=activation, **options)
        return found.absolute_error

    return jax.vmap(fitted)(jax.random.split(key, len(weights)), weights)


def _segments(segment: Any, start: Array, rule: overlap_chain.Rule) -> Array:
    def body(state: Array, given: tuple[Array, overlap_chain.Rule]) -> tuple[Array, Array]:
        state = segment(given[0], state, given[1])
        return state, state

    return jax.lax.scan(body, start, (jnp.arange(len(jnp.atleast_1d(rule.step_size))), rule))[1]
