"""An attention layer trained on tokens of signal and noise, and what it attends to."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.data.signal_tokens import draw_sparse_tokens, draw_tokens
from unlazy.models.patch_attention import PatchAttention
from unlazy.training.loop import train


def logistic_loss(outputs: Array, y: Array) -> Array:
    """The mean over samples of log(1 + exp(-y f))."""
    return jax.nn.softplus(-y * outputs).mean()


def attention_run(
    key: Array,
    *,
    n: int,
    tokens: int,
    d: int,
    width: int,
    signal_strength: ArrayLike,
    initial_score_scale: ArrayLike,
    initial_value_scale: ArrayLike,
    relative_step_size: ArrayLike,
    steps: int,
    stop_loss: ArrayLike,
    fresh: int = 400,
) -> dict[str, Any]:
    """Train all of W_Q, W_K, W_V by gradient descent on dense noise, and measure what was learned.

    `signal_strength` is n SNR^2 = n |mu|^2/d; the scales of W_Q, W_K and of W_V are deviations times sqrt(d), the step
    size is times d/n.
    """
    data_key, network_key = jax.random.split(key)
    x, y = draw_tokens(data_key, n + fresh, d, tokens, signal_norm=jnp.sqrt(signal_strength * d / n))
    deviations = {"score_deviation": initial_score_scale / d**0.5, "value_deviation": initial_value_scale / d**0.5}
    initial = PatchAttention.random(network_key, d, width, **deviations)
    _, found = _trained(initial, x, y, n, lambda g: relative_step_size * n / d * g, steps, stop_loss, early_steps=1)
    return found


def sparse_attention_run(
    key: Array,
    *,
    n: int,
    width: int,
    signal_to_noise: ArrayLike,
    signal_coordinates: ArrayLike,
    noise_coordinates: ArrayLike,
    largest_noise_coordinates: int,
    initial_deviation: ArrayLike,
    relative_step_size: ArrayLike,
    value_growth: ArrayLike,
    by_sign: ArrayLike,
    early_steps: int,
    steps: int,
    stop_loss: ArrayLike,
    fresh: int = 400,
) -> dict[str, Any]:
    """The same on tokens (y mu, xi) with sparse noises of length about 1 that do not meet, with `by_sign` (traced) by
    sign gradient descent.

    The step size of gradient descent is `relative_step_size` times n; that of its signs moves <v, xi> by about
    `value_growth`, v = W_V w_o. After `early_steps` the noise token's attention is measured.
    """
    data_key, network_key = jax.random.split(key)
    x, y = draw_sparse_tokens(
        data_key,
        n,
        fresh,
        signal_norm=signal_to_noise,
        signal_coordinates=signal_coordinates,
        noise_coordinates=noise_coordinates,
        largest_noise_coordinates=largest_noise_coordinates,
    )
    initial = PatchAttention.random(
        network_key, x.shape[-1], width, score_deviation=initial_deviation, value_deviation=initial_deviation
    )
    size = value_growth / jnp.sqrt(2 * width * noise_coordinates / jnp.pi)

    def change(gradient: Array) -> Array:
        return jnp.where(by_sign, size * jnp.sign(gradient), relative_step_size * n * gradient)

    early, found = _trained(initial, x, y, n, change, steps, stop_loss, early_steps)
    del found["first_balance"]
    return found | {
        "early_value_noise": (y[:n] * (x[:n, 1] @ early.direction())).mean(),
        "noise_attention": early.attention(x[:n])[:, 1, 0].mean(),
    }


def _trained(
    initial: PatchAttention,
    x: Array,
    y: Array,
    n: int,
    change: Any,
    steps: int,
    stop_loss: ArrayLike,
    early_steps: int,
) -> tuple[PatchAttention, dict[str, Any]]:
    """The network after early steps, and what is measured of the one at the end: the first n samples are learned."""

    def loss(model: PatchAttention) -> Array:
        # Below the stop loss the gradient is 0, and descent and its sign variant alike stay where they are.
        value = logistic_loss(model(x[:n]), y[:n])
        return jnp.where(value > stop_loss, value, jax.lax.stop_gradient(value))

    result = train(
        initial,
        loss,
        optax.stateless(lambda gradient, _: jax.tree.map(lambda g: -change(g), gradient)),
        steps,
        trained=lambda model: (model.query, model.key, model.value),
        record=lambda model: model,
        record_at=(early_steps, steps) if steps > early_steps else (steps,),
    )
    model, early = result.model, jax.tree.map(lambda leaf: leaf[0], result.records)
    first = x[:n] @ (early.direction() - initial.direction())
    outputs, attention, read = model(x), model.attention(x)[:, :, 0].mean(axis=1), x @ model.direction()
    wrong = jnp.where(outputs == 0, 0.5, y * outputs < 0)
    return early, {
        "training_loss": logistic_loss(outputs[:n], y[:n]),
        "test_loss": logistic_loss(outputs[n:], y[n:]),
        "test_error": wrong[n:].mean(),
        "attention": attention[:n].mean(),
        "fresh_attention": attention[n:].mean(),
        "value_signal": y[0] * read[0, 0],
        "value_noise": jnp.abs(read[:n, 1:]).mean(),
        "balance": y[0] * read[0, 0] / jnp.abs(read[:n, 1:]).mean(),
        "first_balance": y[0] * first[0, 0] / (y[:n, None] * first[:, 1:]).mean(),
        "diverged_at": result.diverged_at,
    }
