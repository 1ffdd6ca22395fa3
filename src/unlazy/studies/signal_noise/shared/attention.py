"""What the studies of attention share: the data, the training and what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unlazy.lab import DIVERGED_AT, Output, Source

if TYPE_CHECKING:
    import optax
    from jax import Array

    from unlazy.models.patch_attention import PatchAttention

JIANG = Source(
    "jiang2024",
    "Jiang, Jiarui and Huang, Wei and Zhang, Miao and Suzuki, Taiji and Nie, Liqiang",
    2024,
    "Unveil benign overfitting for transformer in vision: Training dynamics, convergence, and generalization",
    "Advances in Neural Information Processing Systems 37",
    kind="inproceedings",
)
LI = Source(
    "li2025signgd",
    "Li, Bingrui and Huang, Wei and Han, Andi and Zhou, Zhanpeng and Suzuki, Taiji and Zhu, Jun and Chen, Jianfei",
    2025,
    "On the optimization and generalization of two-layer transformers with sign gradient descent",
    "International Conference on Learning Representations",
    kind="inproceedings",
)
FRESH = 400
"""Fresh samples on which the test loss is measured."""


class Tokens(NamedTuple):
    """Samples of L tokens, of which the first is y mu and the others are N(0, I_d): `x` (n, L, d), `y` (n,)."""

    x: Array
    y: Array


def draw_tokens(key: Array, samples: int, length: int, d: int, norm: Any, support: Any = 1) -> Tokens:
    """Samples with alternating labels; mu has length `norm` and `support` equal entries, its first ones."""
    import jax.numpy as jnp

    from unlazy.random import normal

    noise = normal(key, (samples, length - 1, d))
    y = jnp.where(jnp.arange(samples) % 2 == 0, 1.0, -1.0).astype(noise.dtype)
    mu = jnp.where(jnp.arange(d) < support, norm / jnp.sqrt(jnp.asarray(support, noise.dtype)), 0.0)
    signal = y[:, None, None] * mu
    return Tokens(jnp.concatenate([signal.astype(noise.dtype), noise], axis=1), y)


def logistic_loss(outputs: Array, y: Array) -> Array:
    """The mean over samples of log(1 + exp(-y f))."""
    import jax

    return jax.nn.softplus(-y * outputs).mean()


def attention_run(
    key: Array,
    optimiser: optax.GradientTransformation,
    *,
    n: int,
    length: int,
    d: int,
    width: int,
    strength: Any,
    support: Any = 1,
    score_deviation: Any,
    value_deviation: Any,
    steps: int,
    target: Any,
) -> dict[str, Any]:
    """Train all of W_Q, W_K, W_V until the training loss is at most `target`, and measure what was learned.

    `strength` is n SNR^2 = n |mu|^2/d.
    """
    import jax
    import jax.numpy as jnp

    from unlazy.models.patch_attention import PatchAttention
    from unlazy.training.loop import train

    data_key, network_key = jax.random.split(key)
    norm = jnp.sqrt(strength * d / n)
    x, y = draw_tokens(data_key, n + FRESH, length, d, norm, support)
    initial = PatchAttention.random(
        network_key, d, width, score_deviation=score_deviation, value_deviation=value_deviation
    )

    def loss(model: PatchAttention) -> Array:
        # Below the target the gradient is 0, and descent and its sign variant alike stay where they are.
        value = logistic_loss(model(x[:n]), y[:n])
        return jnp.where(value > target, value, jax.lax.stop_gradient(value))

    result = train(
        initial,
        loss,
        optimiser,
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
        "signal": y[0] * read[0, 0],
        "noise": jnp.abs(read[:n, 1:]).mean(),
        "balance": y[0] * read[0, 0] / jnp.abs(read[:n, 1:]).mean(),
        "first_balance": y[0] * first[0, 0] / (y[:n, None] * first[:, 1:]).mean(),
        "diverged_at": result.diverged_at,
    }


OUTPUTS = {
    "training_loss": Output("training loss", "L_S", scale="log"),
    "test_loss": Output("test loss", "L_D", scale="log"),
    "test_error": Output("test error"),
    "attention": Output("attention to the signal, training samples", short="attention to the signal"),
    "fresh_attention": Output("attention to the signal, fresh samples"),
    "signal": Output("signal in the value direction", r"\langle v,\mu\rangle"),
    "noise": Output("mean noise in the value direction", r"|\langle v,\xi\rangle|"),
    "balance": Output(
        "signal over noise in the value direction",
        r"\langle v,\mu\rangle/|\langle v,\xi\rangle|",
        scale="log",
        short="signal over noise",
    ),
    "first_balance": Output("signal over noise in the first step of the value direction", scale="log"),
    "diverged_at": DIVERGED_AT,
}
