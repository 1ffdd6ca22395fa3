"""An attention layer trained on tokens of signal and noise, and what it attends to."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.data.signal_tokens import draw_tokens
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
    signal_coordinates: ArrayLike = 1,
    initial_score_scale: ArrayLike,
    initial_value_scale: ArrayLike,
    relative_step_size: ArrayLike,
    sign_step_size: ArrayLike = 0.0,
    by_sign: ArrayLike = False,
    steps: int,
    stop_loss: ArrayLike,
    fresh: int = 400,
) -> dict[str, Any]:
    """Train all of W_Q, W_K, W_V until the training loss is at most `stop_loss`, and measure what was learned.

    By gradient descent, or with `by_sign` (traced) by sign gradient descent. `signal_strength` is n SNR^2 = n |mu|^2/d;
    the scales of W_Q, W_K and of W_V are deviations times sqrt(d), the step size times d/n and the sign's times d.
    """
    data_key, network_key = jax.random.split(key)
    signal: dict[str, Any] = {
        "signal_norm": jnp.sqrt(signal_strength * d / n),
        "signal_coordinates": signal_coordinates,
    }
    x, y = draw_tokens(data_key, n + fresh, d, tokens, **signal)
    deviations = {"score_deviation": initial_score_scale / d**0.5, "value_deviation": initial_value_scale / d**0.5}
    initial = PatchAttention.random(network_key, d, width, **deviations)
    by_sign_size, size = sign_step_size / d, relative_step_size * n / d

    def change(gradient: Any, _: Any) -> Any:
        return jax.tree.map(lambda g: -jnp.where(by_sign, by_sign_size * jnp.sign(g), size * g), gradient)

    def loss(model: PatchAttention) -> Array:
        # Below the stop loss the gradient is 0, and descent and its sign variant alike stay where they are.
        value = logistic_loss(model(x[:n]), y[:n])
        return jnp.where(value > stop_loss, value, jax.lax.stop_gradient(value))

    result = train(
        initial,
        loss,
        optax.stateless(change),
        steps,
        trained=lambda model: (model.query, model.key, model.value),
        record=lambda model: model.direction(),
        record_at=(1, steps) if steps > 1 else (1,),
    )
    model: PatchAttention = result.model
    first = x[:n] @ (result.records[0] - initial.direction())
    outputs, attention, read = model(x), model.attention(x)[:, :, 0].mean(axis=1), x @ model.direction()
    wrong = jnp.where(outputs == 0, 0.5, y * outputs < 0)
    return {
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
