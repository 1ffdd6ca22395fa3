"""A cubic ReLU network on patches [y e_1, xi] with sparse noise xi, under optimisers that know the coordinates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.functions.elementwise import as_activation
from unlazy.random import normal
from unlazy.training.loop import train

RULES = {
    "gd": optax.identity,
    "adam": lambda: optax.scale_by_adam(b1=0.9, b2=0.99, eps=1e-12),
    "sign": optax.scale_by_sign,
}
EARLY = 10
"""The steps after which growth is measured: margins are still small."""


def sparse_patch_run(
    key: Array,
    *,
    optimiser: str,
    n: int,
    width: int,
    noise_coordinates: ArrayLike,
    largest_noise_coordinates: int,
    noise_norm: ArrayLike,
    adversary: Any,
    initial_reach: ArrayLike,
    relative_step_size: ArrayLike,
    steps: int,
    decay: str = "decoupled",
    weight_decay: ArrayLike = 0.0,
    fresh: int = 500,
) -> dict[str, Array]:
    """Train f = sum_r j_r [relu(<w_r, y e_1>)^3 + relu(<w_r, xi>)^3] on the logistic loss and measure what it learned.

    xi has -adversary y in the first coordinate, and N(0, noise_norm^2/s) in s = `noise_coordinates` others that no
    other sample has, nor a fresh one: random ones do not meet where d is large against s^2 n^2. A weight starts with
    the deviation sigma_0 = initial_reach/sqrt(s). The step size is `relative_step_size` times sigma_0, but for
    gradient descent. `decay` is "coupled", with (weight_decay/2) |W|^2 in the objective, or "decoupled". Without the
    former the coordinates of a sample move together, and one stands for all: Adam (but for its epsilon) and the sign
    rule move <w, xi> as they would one coordinate with the entry |xi|_1, gradient descent as one with |xi|_2. Errors
    are those on `fresh` samples.
    """
    entry_key, weight_key, noise_key = jax.random.split(key, 3)
    cube, size = as_activation("relu3"), largest_noise_coordinates
    initial_deviation = initial_reach / jnp.sqrt(noise_coordinates)
    present = jnp.arange(size) < noise_coordinates
    entries = noise_norm / jnp.sqrt(noise_coordinates) * present * normal(entry_key, (n, size))
    y = jnp.where(jnp.arange(n + fresh) % 2 == 0, 1.0, -1.0).astype(entries.dtype)
    readout = jnp.repeat(jnp.array([1.0, -1.0], entries.dtype), width)
    # What no sample of training has is read by the fresh ones alone.
    signal_key, block_key, unseen_key = jax.random.split(weight_key, 3)
    start = {
        "signal": initial_deviation * normal(signal_key, (2 * width,)),
        "noise": initial_deviation * normal(block_key, (2 * width, n, size if decay == "coupled" else 1)),
        "unseen": initial_deviation * normal(unseen_key, (2 * width,)),
    }
    if decay != "coupled":
        length = jnp.linalg.norm(entries, ord=2 if optimiser == "gd" else 1, axis=1)[:, None]
        start["noise"] *= jnp.linalg.norm(entries, axis=1)[:, None] / length
        entries = length

    def reads(weights: Any) -> Array:
        """<w_r, xi_i> without the first coordinate, (n, 2m)."""
        return jnp.einsum("rns,ns->nr", weights["noise"], entries)

    def margins(signal: Array, labels: Array, noise: Any) -> Array:
        """y f from the labels and the neurons' noise inputs (samples, 2m)."""
        along = labels[:, None] * signal
        return labels * ((cube(along) + cube(noise - adversary * along)) @ readout)

    def fit(weights: Any) -> Array:
        return jax.nn.softplus(-margins(weights["signal"], y[:n], reads(weights))).mean()

    def loss(weights: Any) -> Array:
        if decay != "coupled":
            return fit(weights)
        return fit(weights) + weight_decay / 2 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(weights))

    step_size = relative_step_size * (1.0 if optimiser == "gd" else initial_deviation)
    shrink = optax.identity() if decay == "coupled" else optax.add_decayed_weights(weight_decay)
    result = train(
        start,
        loss,
        optax.chain(RULES[optimiser](), shrink, optax.scale_by_learning_rate(step_size)),
        steps,
        trained=lambda weights: weights,
        record=lambda weights: (weights["signal"], reads(weights)),
        record_at=(0, EARLY, steps) if steps > EARLY else (0, steps),
    )
    weights: Any = result.model
    signal, noise = (jnp.asarray(record) for record in result.records)
    along, own = readout * signal, y[:n, None] * readout > 0
    grows = own & (noise[0] > adversary * y[:n, None] * signal[0])
    # Every fresh sample has coordinates of its own: its noise is independent of that of the others.
    deviation = noise_norm * jnp.sqrt(jnp.mean(weights["unseen"] ** 2))
    tested = margins(weights["signal"], y[n:], deviation * normal(noise_key, (fresh, 2 * width)))
    taken = EARLY if steps > EARLY else steps
    return {
        "test_error": jnp.where(tested == 0, 0.5, tested < 0).mean(),
        "training_loss": fit(weights),
        "kept_signal": (along[-1] > 0).mean(),
        "signal_preactivation": jnp.max(along[-1]),
        "noise_preactivation": jnp.max(jnp.where(own, noise[-1], -jnp.inf)),
        "noise_step": jnp.mean(noise[1] - noise[0], where=grows) / (taken * step_size),
        "diverged_at": result.diverged_at,
    }
