"""A cubic ReLU network on patches [y e_1, xi] with sparse noise xi, under optimisers that know the coordinates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.data.signal_tokens import draw_supports
from unlazy.functions.elementwise import as_activation
from unlazy.random import normal
from unlazy.training.loop import train
from unlazy.training.signal_noise.token_gram import paired_second_layer

RULES = {
    "gd": optax.identity,
    "adam": lambda: optax.scale_by_adam(b1=0.9, b2=0.99),
    "sign": optax.scale_by_sign,
}


def sparse_patch_run(
    key: Array,
    *,
    optimiser: str,
    n: int,
    d: int,
    width: ArrayLike,
    largest_width: int,
    noise_coordinates: int,
    noise_deviation: ArrayLike,
    adversary: Any,
    initial_deviation: ArrayLike,
    step_size: ArrayLike,
    steps: int,
    ridge: ArrayLike = 0.0,
    decoupled_weight_decay: ArrayLike = 0.0,
    fresh: int = 500,
) -> dict[str, Array]:
    """Train f = sum_r j_r [relu(<w_r, y e_1>)^3 + relu(<w_r, xi>)^3] on the logistic loss and measure what it learned.

    xi has `noise_coordinates` random coordinates, never the first, whose entry is -adversary y. Of as many neurons of
    each class as memory is kept for `width` are there. `optimiser` is one of `RULES`; the objective is the mean loss +
    (ridge/2) |W|^2; `decoupled_weight_decay` is times the step size. Errors are those on `fresh` samples.
    """
    support_key, noise_key, weight_key = jax.random.split(key, 3)
    samples, cube = n + fresh, as_activation("relu3")
    support = 1 + draw_supports(support_key, samples, d - 1, noise_coordinates)
    entries = noise_deviation * normal(noise_key, (samples, noise_coordinates))
    y = jnp.where(jnp.arange(samples) % 2 == 0, 1.0, -1.0).astype(entries.dtype)
    readout = jnp.sign(paired_second_layer(width, largest_width))
    initial = initial_deviation * normal(weight_key, (2 * largest_width, d))

    x = jnp.zeros((n, d), entries.dtype).at[jnp.arange(n)[:, None], support[:n]].set(entries[:n])
    x = x.at[:, 0].set(-adversary * y[:n])

    def margins(weights: Array, labels: Array, noise: Array) -> Array:
        """y f from the labels and the neurons' noise inputs (samples, 2m)."""
        return labels * ((cube(labels[:, None] * weights[:, 0]) + cube(noise)) @ readout)

    def fit(weights: Array) -> Array:
        return jax.nn.softplus(-margins(weights, y[:n], x @ weights.T)).mean()

    def loss(weights: Array) -> Array:
        return fit(weights) + ridge / 2 * jnp.sum(weights**2)

    decay, step = optax.add_decayed_weights(decoupled_weight_decay), optax.scale_by_learning_rate(step_size)
    result = train(initial, loss, optax.chain(RULES[optimiser](), decay, step), steps, trained=lambda weights: weights)
    weights: Any = result.model
    noise = jnp.einsum("nsr,ns->nr", weights.T[support[n:]], entries[n:])
    tested = margins(weights, y[n:], noise - adversary * y[n:, None] * weights[:, 0])
    return {
        "test_error": jnp.where(tested == 0, 0.5, tested < 0).mean(),
        "training_loss": fit(weights),
        "signal_preactivation": jnp.max(readout * weights[:, 0]),
        "noise_preactivation": jnp.max(jnp.where(y[:n, None] * readout > 0, x @ weights.T, -jnp.inf)),
        "diverged_at": result.diverged_at,
    }
