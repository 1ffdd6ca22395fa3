"""Contrastive learning of ReLU embeddings in token coordinates, and a linear probe of what they learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.functions.elementwise import as_activation
from unlazy.random import normal
from unlazy.training.loop import train


class Modality(NamedTuple):
    """The tokens mu, xi_1..n, eps_1..n of a modality as rows (1 + 2n, d), and an encoder's initial weights (m, d)."""

    tokens: Array
    weights: Array


class Encoder(NamedTuple):
    """An encoder W = W0 + C Z: the pre-activations W Z^T of all tokens (m, 1 + 2n), and C on mu and the xi_i."""

    preactivations: Array
    coefficients: Array


class LearnedEncoder(NamedTuple):
    """What contrastive learning left."""

    encoder: Encoder
    loss: Array
    growth: tuple[Array, Array]
    """The factors by which the largest |<w, mu>| and |<w, xi_i>| grow per step, early."""
    diverged_at: Array


def draw_modality(
    key: Array,
    n: int,
    d: int,
    width: ArrayLike,
    *,
    signal_norm: ArrayLike,
    initial_deviation: ArrayLike,
    largest_width: int,
) -> Modality:
    """mu = `signal_norm` e_1, noise orthogonal to it, normal w; of `largest_width` neurons the first `width` exist."""
    drawn = normal(key, (2 * n + largest_width, d))
    noise, weights = drawn[: 2 * n].at[:, 0].set(0.0), drawn[2 * n :]
    mu = jnp.zeros((1, d), drawn.dtype).at[0, 0].set(signal_norm)
    # A neuron that is 0 has embedding and gradient 0: it is not there.
    present = jnp.where(jnp.arange(largest_width) < width, initial_deviation, 0.0)[:, None]
    return Modality(jnp.concatenate([mu, noise]), present * weights)


def embed(preactivations: Array, y: Array, augmentation_deviation: ArrayLike = 0.0) -> tuple[Array, Array]:
    """The embeddings (n, m) of the patches [y mu, xi + augmentation eps]."""
    relu, n = as_activation("relu"), len(y)
    signal = relu(y[:, None] * preactivations[:, 0])
    return signal, relu(preactivations[:, 1 : n + 1] + augmentation_deviation * preactivations[:, n + 1 :]).T


def contrast(first: tuple[Array, Array], second: tuple[Array, Array], y: Array) -> Array:
    """The mean of -log(e^{S_ii} / (e^{S_ii} + sum_j e^{S_ij})), j of the other class, S the patchwise similarity."""
    similarity = first[0] @ second[0].T + first[1] @ second[1].T
    positive = jnp.diagonal(similarity)
    used = (y[:, None] != y) | jnp.eye(len(y), dtype=bool)
    return (jax.nn.logsumexp(jnp.where(used, similarity, -jnp.inf), axis=1) - positive).mean()


def largest(encoder: Encoder, n: int) -> tuple[Array, Array]:
    """The largest |<w_r, mu>| and |<w_r, xi_i>|."""
    sizes = jnp.abs(encoder.preactivations)
    return sizes[:, 0].max(), sizes[:, 1 : n + 1].max()


def learn(
    first: Modality,
    second: Modality,
    y: Array,
    *,
    two: ArrayLike,
    augmentation_deviation: ArrayLike,
    step_size: Any,
    steps: int,
    stop_loss: ArrayLike,
    early: tuple[int, int],
) -> LearnedEncoder:
    """Gradient descent on the contrastive loss until it is at most `stop_loss`, with the second argument held fixed.

    If `two`, each modality's encoder is contrasted with the other's, and both are trained; else the first encoder with
    itself on augmented samples. W Z^T =: H moves by G times the derivative of the loss in H: dL/dW = (dL/dH) Z. Growth
    is measured between the steps `early`.
    """
    trained_tokens = len(y) + 1
    grams = [modality.tokens[:trained_tokens] @ modality.tokens.T for modality in (first, second)]

    def at_start(modality: Modality) -> Encoder:
        none = jnp.zeros((len(modality.weights), trained_tokens), modality.weights.dtype)
        return Encoder(modality.weights @ modality.tokens.T, none)

    fixed = jax.lax.stop_gradient

    def losses(encoders: tuple[Encoder, Encoder]) -> tuple[Array, Array]:
        """The loss of the first modality, and the other's."""
        one, other = (embed(encoder.preactivations, y) for encoder in encoders)
        augmented = embed(encoders[0].preactivations, y, augmentation_deviation)
        partner = jax.tree.map(lambda a, b: jnp.where(two, a, b), other, augmented)
        return contrast(one, fixed(partner), y), contrast(other, fixed(one), y)

    def objective(encoders: tuple[Encoder, Encoder]) -> Array:
        mine, others = losses(encoders)
        total = mine + jnp.where(two, others, 0.0)
        return jnp.where(mine > stop_loss, total, fixed(total))

    def change(gradient: Any, _: Any) -> Any:
        slopes = [encoder.preactivations[:, :trained_tokens] for encoder in gradient]
        pairs = zip(slopes, grams, strict=True)
        return tuple(Encoder(-step_size * slope @ gram, -step_size * slope) for slope, gram in pairs)

    result = train(
        (at_start(first), at_start(second)),
        objective,
        optax.stateless(change),
        steps,
        trained=lambda encoders: encoders,
        record=lambda encoders: largest(encoders[0], len(y)),
        record_at=(*(step for step in early if step < steps), steps),
    )
    signal, noise = ((sizes[1] / sizes[0]) ** (1 / (early[1] - early[0])) for sizes in result.records)
    return LearnedEncoder(result.model[0], losses(result.model)[0], (signal, noise), result.diverged_at)


def probe_error(
    key: Array, modality: Modality, encoder: Encoder, n: int, *, labelled: int = 200, fresh: int = 400
) -> Array:
    """The test error of a ridge probe on h(x) = relu(W x_1) + relu(W x_2), fitted to labelled samples, not those of W.

    It is tested on `fresh` others.
    """
    relu = as_activation("relu")
    weights = modality.weights + encoder.coefficients @ modality.tokens[: n + 1]
    # W xi of fresh noise is normal with this covariance: no need to draw xi.
    squares, vectors = jnp.linalg.eigh(weights[:, 1:] @ weights[:, 1:].T)
    root = vectors * jnp.sqrt(jnp.maximum(squares, 0.0))
    inputs = normal(key, (labelled + fresh, len(root))) @ root.T
    y = jnp.where(jnp.arange(len(inputs)) % 2 == 0, 1.0, -1.0).astype(inputs.dtype)
    features = relu(y[:, None] * encoder.preactivations[:, 0]) + relu(inputs)
    features = features - features[:labelled].mean(axis=0)
    features = features / jnp.sqrt(jnp.mean(features[:labelled] ** 2))
    known = features[:labelled]
    moment = known.T @ known / labelled + 1e-4 * jnp.eye(len(root), dtype=inputs.dtype)
    read = features[labelled:] @ jnp.linalg.solve(moment, known.T @ y[:labelled] / labelled)
    margin = y[labelled:] * read
    return jnp.where(margin == 0, 0.5, margin < 0).mean()


def contrastive_run(
    key: Array,
    *,
    modalities: ArrayLike,
    signal_gain: ArrayLike,
    signal_strength: ArrayLike,
    width: ArrayLike,
    initial_deviation: ArrayLike,
    largest_width: int,
    n: int,
    d: int,
    augmentation_deviation: ArrayLike,
    relative_step_size: ArrayLike,
    steps: int,
    stop_loss: ArrayLike,
    early: tuple[int, int],
) -> dict[str, Array]:
    """Draw two modalities, learn an encoder of the first with one or both, and measure what it learned.

    `signal_strength` is n SNR^2 of the first modality, the second has `signal_gain` times its signal; the step size is
    times d/n.
    """
    keys = jax.random.split(key, 3)
    norm = jnp.sqrt(signal_strength * d / n)
    sizes: dict[str, Any] = {"initial_deviation": initial_deviation, "largest_width": largest_width}
    first, second = (
        draw_modality(k, n, d, width, signal_norm=length, **sizes)
        for k, length in zip(keys[:2], (norm, signal_gain * norm), strict=True)
    )
    y = jnp.where(jnp.arange(n) % 2 == 0, 1.0, -1.0).astype(first.tokens.dtype)
    step_size, two = relative_step_size * n / d, modalities == 2
    options: dict[str, Any] = {"steps": steps, "stop_loss": stop_loss, "early": early}
    options |= {"augmentation_deviation": augmentation_deviation, "step_size": step_size}
    learned = learn(first, second, y, two=two, **options)
    signal, noise = largest(learned.encoder, n)
    return {
        "balance": signal / noise,
        "probe_error": probe_error(keys[2], first, learned.encoder, n),
        "contrastive_loss": learned.loss,
        "signal_growth_factor": learned.growth[0],
        "noise_growth_factor": learned.growth[1],
        "diverged_at": learned.diverged_at,
    }
