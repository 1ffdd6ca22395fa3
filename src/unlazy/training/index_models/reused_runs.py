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
    link: str,
    stops: Sequence[int],
    quantiles: Sequence[float],
    *,
    d: int,
    width: int,
    step_size: ArrayLike,
    reuse_step_size: ArrayLike,
    reuse: ArrayLike,
    bias_deviation: ArrayLike,
    noise_variance: ArrayLike,
) -> dict[str, Array]:
    """Quantiles of |overlap| over neurons at the stops, then the error of a fitted second layer over the variance.

    Phase I in single precision, the regression in that of the caller.
    """
    start_key, neuron_key, train_key, fit_key = jax.random.split(key, 4)
    target = as_link(link)
    signs, biases = normal(neuron_key, (2, width))
    rule = overlap_chain.Rule(
        step_size, reuse_step_size, reuse, jnp.sign(signs), bias_deviation * biases, noise_variance
    )
    rule = overlap_chain.Rule(*(jnp.asarray(number, jnp.float32) for number in rule))
    start = online_index.init(start_key, width, d, jnp.float32)
    run = online_index.train(train_key, start, rule, stops[-1], link=target, record_at=stops)
    fit = online_index.fit_second_layer(fit_key, run.weights, noise_variance, link=target)
    overlaps = jnp.quantile(jnp.abs(run.overlaps), jnp.asarray(quantiles), axis=1).T
    return {"overlap_quantiles": overlaps, "relative_risk": fit.relative_risk}


def mean_overlaps(
    key: Array,
    samples_per_dimension: Sequence[int],
    places: Any,
    *,
    chain: bool,
    degree: ArrayLike,
    start_overlap: ArrayLike,
    d: ArrayLike,
    network_d: int,
    chains: int,
    **rule: ArrayLike,
) -> dict[str, Array]:
    """The mean overlap of a group of chains, or of neurons that share their examples, and the drift at `places`.

    `d` is the dimension of the chains and `network_d` that of the network.
    """
    link, given = hermite_link(degree), overlap_chain.Rule(**rule)
    train_key, start_key, drift_key = jax.random.split(key, 3)
    if chain:
        ends = (jnp.asarray(samples_per_dimension) * d).astype(jnp.int32)
        overlaps = overlap_chain.train(train_key, jnp.full(chains, 1.0) * start_overlap, d, given, ends, link=link)
    else:
        weights = online_index.planted(start_key, chains, network_d, start_overlap)
        stops = [each * network_d for each in samples_per_dimension]
        run = online_index.train(train_key, weights, given, stops[-1], link=link, record_at=stops)
        overlaps = run.overlaps
    pull = overlap_chain.measured_drift(drift_key, given, places, link=link)
    return {"overlap": overlaps.mean(1), "pull": pull}
