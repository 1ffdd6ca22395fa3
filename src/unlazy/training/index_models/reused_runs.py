"""Neurons that see each example once or twice: a whole network, and what is recorded of neurons and chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.functions.elementwise import as_link
from unlazy.random import normal
from unlazy.training.index_models import online_index, overlap_chain
from unlazy.training.index_models.traced_links import hermite_link


def network_run(
    key: Array,
    name: str,
    stops: Sequence[int],
    quantiles: Sequence[float],
    *,
    d: int,
    neurons: int,
    step: ArrayLike,
    strength: ArrayLike,
    reuse: ArrayLike,
    bias: ArrayLike,
    noise: ArrayLike,
) -> dict[str, Array]:
    """Quantiles of |overlap| over neurons at the stops, then the error of a fitted second layer over the variance.

    Phase I in single precision, the regression in that of the caller.
    """
    start_key, neuron_key, train_key, fit_key = jax.random.split(key, 4)
    teacher = as_link(name)
    signs, biases = normal(neuron_key, (2, neurons))
    rule = overlap_chain.Rule(step, strength, reuse, jnp.sign(signs), bias * biases, noise)
    rule = overlap_chain.Rule(*(jnp.asarray(number, jnp.float32) for number in rule))
    start = online_index.init(start_key, neurons, d, jnp.float32)
    run = online_index.train(train_key, start, rule, stops[-1], teacher=teacher, record_at=stops)
    fit = online_index.fit_second_layer(fit_key, run.weights, noise, teacher=teacher)
    overlaps = jnp.quantile(jnp.abs(run.overlaps), jnp.asarray(quantiles), axis=1).T
    return {"overlaps": overlaps, "relative_error": fit.relative_error}


def mean_overlaps(
    key: Array,
    times: Sequence[int],
    places: Any,
    *,
    chain: bool,
    degree: ArrayLike,
    start: ArrayLike,
    d: ArrayLike,
    size: int,
    group: int,
    **rule: ArrayLike,
) -> dict[str, Array]:
    """The mean overlap of a group of chains, or of neurons that share their examples, and the drift at `places`.

    Times are examples over the dimension, `d` that of the chains and `size` that of the network.
    """
    teacher, given = hermite_link(degree), overlap_chain.Rule(**rule)
    train_key, start_key, drift_key = jax.random.split(key, 3)
    if chain:
        ends = (jnp.asarray(times) * d).astype(jnp.int32)
        overlaps = overlap_chain.train(train_key, jnp.full(group, 1.0) * start, d, given, ends, teacher=teacher)
    else:
        weights, stops = online_index.planted(start_key, group, size, start), [time * size for time in times]
        run = online_index.train(train_key, weights, given, stops[-1], teacher=teacher, record_at=stops)
        overlaps = run.overlaps
    signal = overlap_chain.measured_drift(drift_key, given, places, teacher=teacher)
    return {"overlap": overlaps.mean(1), "signal": signal}
