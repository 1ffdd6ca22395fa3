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
    most_neurons: int,
    sparsity: int,
    deviation: ArrayLike,
    adversary: Any,
    start: ArrayLike,
    learning_rate: ArrayLike,
    steps: int,
    coupled: ArrayLike = 0.0,
    decoupled: ArrayLike = 0.0,
    fresh: int = 500,
) -> dict[str, Array]:
    """Train f = sum_r j_r [relu(<w_r, y e_1>)^3 + relu(<w_r, xi>)^3] on the logistic loss and measure what it learned.

    xi has `sparsity` random coordinates N(0, deviation^2), never the first, whose entry is -adversary y. Of as many
    neurons of each class as memory is kept for `width` are there; w ~ N(0, start^2 I). `optimiser` is one of `RULES`,
    `coupled` the L2 penalty of the objective, `decoupled` the weight decay, times the learning rate. Errors are those
    on `fresh` samples.
    """
    support_key, noise_key, weight_key = jax.random.split(key, 3)
    samples, cube = n + fresh, as_activation("relu3")
    support = 1 + draw_supports(support_key, samples, sparsity, d - 1)
    entries = deviation * normal(noise_key, (samples, sparsity))
    y = jnp.where(jnp.arange(samples) % 2 == 0, 1.0, -1.0).astype(entries.dtype)
    readout = jnp.sign(paired_second_layer(width, most_neurons))
    initial = start * normal(weight_key, (2 * most_neurons, d))

    x = jnp.zeros((n, d), entries.dtype).at[jnp.arange(n)[:, None], support[:n]].set(entries[:n])
    x = x.at[:, 0].set(-adversary * y[:n])

    def margins(weights: Array, labels: Array, noise: Array) -> Array:
        """y f from the labels and the neurons' noise inputs (samples, 2m)."""
        return labels * ((cube(labels[:, None] * weights[:, 0]) + cube(noise)) @ readout)

    def fit(weights: Array) -> Array:
        return jax.nn.softplus(-margins(weights, y[:n], x @ weights.T)).mean()

    def loss(weights: Array) -> Array:
        return fit(weights) + coupled / 2 * jnp.sum(weights**2)

    decay, step = optax.add_decayed_weights(decoupled), optax.scale_by_learning_rate(learning_rate)
    result = train(initial, loss, optax.chain(RULES[optimiser](), decay, step), steps, trained=lambda weights: weights)
    weights: Any = result.model
    noise = jnp.einsum("nsr,ns->nr", weights.T[support[n:]], entries[n:])
    tested = margins(weights, y[n:], noise - adversary * y[n:, None] * weights[:, 0])
    return {
        "test_error": jnp.where(tested == 0, 0.5, tested < 0).mean(),
        "training_loss": fit(weights),
        "signal": jnp.max(readout * weights[:, 0]),
        "noise": jnp.max(jnp.where(y[:n, None] * readout > 0, x @ weights.T, -jnp.inf)),
        "diverged_at": result.diverged_at,
    }
