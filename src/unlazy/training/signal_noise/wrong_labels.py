"""A two-layer ReLU classifier trained on classes of which some are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal
from unlazy.training.loop import train


def wrong_label_run(
    key: Array,
    inputs: Array,
    classes: Array,
    *,
    n: int,
    width: int,
    flip_probability: ArrayLike,
    held_out: int,
    step_size: ArrayLike,
    steps: int,
    record_at: Sequence[int],
    class_count: int = 10,
    initial_deviation: float = 0.05,
) -> dict[str, Any]:
    """Train both layers by Adam on random samples, a share `flip_probability` of them with a random wrong class.

    Recorded are the shares of right and wrong labels that are fitted, that of the wrongly labelled samples which are
    given their true class, and the accuracy on `held_out` others.
    """
    order_key, flip_key, first_key, second_key = jax.random.split(key, 4)
    order = jax.random.permutation(order_key, len(inputs))
    known, fresh = order[:n], order[-held_out:]
    x, truth = inputs[known], classes[known]
    # The order is random, so that the first samples are a random part.
    wrong = jnp.arange(n) < jnp.round(flip_probability * n)
    moved = truth + jax.random.randint(flip_key, truth.shape, 1, class_count)
    labels = jnp.where(wrong, moved % class_count, truth)
    start = {
        "first": initial_deviation * normal(first_key, (inputs.shape[1], width)),
        "second": initial_deviation * normal(second_key, (width, class_count)),
    }

    def network(weights: Any, inputs: Array) -> Array:
        return jax.nn.relu(inputs @ weights["first"]) @ weights["second"]

    def loss(weights: Any) -> Array:
        return optax.softmax_cross_entropy_with_integer_labels(network(weights, x), labels).mean()

    def share(hits: Array, among: Array) -> Array:
        return jnp.sum(hits & among) / jnp.sum(among)

    def record(weights: Any) -> dict[str, Array]:
        guess = network(weights, x).argmax(1)
        return {
            "clean_fit": share(guess == labels, ~wrong),
            "flipped_fit": share(guess == labels, wrong),
            "flipped_recovered": share(guess == truth, wrong),
            "held_out_accuracy": jnp.mean(network(weights, inputs[fresh]).argmax(1) == classes[fresh]),
            "training_loss": loss(weights),
        }

    optimiser = optax.adam(step_size)
    run = train(start, loss, optimiser, steps, trained=lambda weights: weights, record=record, record_at=record_at)
    return {**run.records, "diverged_at": run.diverged_at}
