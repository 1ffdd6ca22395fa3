"""Contrastive learning of ReLU embeddings in token coordinates, and a linear probe of what they learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jax import Array

LABELLED, FRESH = 200, 400
"""Fresh samples on which the probe is fitted, and others on which it is tested."""


class Modality(NamedTuple):
    """The tokens mu, xi_1..n, eps_1..n of a modality as rows (1 + 2n, d), and an encoder's initial weights (m, d)."""

    tokens: Array
    weights: Array


class Encoder(NamedTuple):
    """An encoder W = W0 + C Z: the pre-activations W Z^T of all tokens (m, 1 + 2n), and C on mu and the xi_i."""

    preactivations: Array
    coefficients: Array


class Learned(NamedTuple):
    """What contrastive learning left; `early` are the largest |<w, mu>| and |<w, xi_i>| at the steps `RATE_BETWEEN`."""

    encoder: Encoder
    loss: Array
    early: tuple[Array, Array]
    diverged_at: Array


RATE_BETWEEN = (20, 30)
"""The steps between which early growth is measured."""


def draw_modality(key: Array, n: int, d: int, neurons: int, norm: Any, width: Any, start: Any) -> Modality:
    """mu = `norm` e_1, noise orthogonal to it, w ~ N(0, start^2 I_d); the first `width` neurons are present."""
    import jax.numpy as jnp

    from unlazy.random import normal

    drawn = normal(key, (2 * n + neurons, d))
    noise, weights = drawn[: 2 * n].at[:, 0].set(0.0), drawn[2 * n :]
    mu = jnp.zeros((1, d), drawn.dtype).at[0, 0].set(norm)
    # A neuron that is 0 has embedding and gradient 0: it is not there.
    present = jnp.where(jnp.arange(neurons) < width, start, 0.0)[:, None]
    return Modality(jnp.concatenate([mu, noise]), present * weights)


def embed(preactivations: Array, y: Array, augmentation: Any = 0.0) -> tuple[Array, Array]:
    """The embeddings (n, m) of the patches [y mu, xi + augmentation eps]."""
    from unlazy.functions.activations import activation

    relu, n = activation("relu"), len(y)
    signal = relu(y[:, None] * preactivations[:, 0])
    return signal, relu(preactivations[:, 1 : n + 1] + augmentation * preactivations[:, n + 1 :]).T


def contrast(first: tuple[Array, Array], second: tuple[Array, Array], y: Array) -> Array:
    """The mean of -log(e^{S_ii} / (e^{S_ii} + sum_j e^{S_ij})), j of the other class, S the patchwise similarity."""
    import jax
    import jax.numpy as jnp

    similarity = first[0] @ second[0].T + first[1] @ second[1].T
    positive = jnp.diagonal(similarity)
    used = (y[:, None] != y) | jnp.eye(len(y), dtype=bool)
    return (jax.nn.logsumexp(jnp.where(used, similarity, -jnp.inf), axis=1) - positive).mean()


def learn(
    first: Modality,
    second: Modality,
    y: Array,
    *,
    two: Any,
    augmentation: Any,
    learning_rate: Any,
    steps: int,
    target: Any,
) -> Learned:
    """Gradient descent on the contrastive loss until it is at most `target`, with the second argument held fixed.

    If `two`, each modality's encoder is contrasted with the other's, and both are trained; else the first encoder with
    itself on augmented samples. W Z^T =: H moves by G times the derivative of the loss in H: dL/dW = (dL/dH) Z.
    """
    import jax
    import jax.numpy as jnp
    import optax

    from unlazy.training.loop import train

    trained_tokens = len(y) + 1
    grams = [modality.tokens[:trained_tokens] @ modality.tokens.T for modality in (first, second)]
    start = tuple(
        Encoder(
            modality.weights @ modality.tokens.T,
            jnp.zeros((len(modality.weights), trained_tokens), modality.weights.dtype),
        )
        for modality in (first, second)
    )
    fixed = jax.lax.stop_gradient

    def losses(encoders: tuple[Encoder, Encoder]) -> tuple[Array, Array]:
        """The loss of the first modality, and the other's."""
        one, other = (embed(encoder.preactivations, y) for encoder in encoders)
        augmented = embed(encoders[0].preactivations, y, augmentation)
        partner = jax.tree.map(lambda a, b: jnp.where(two, a, b), other, augmented)
        return contrast(one, fixed(partner), y), contrast(other, fixed(one), y)

    def objective(encoders: tuple[Encoder, Encoder]) -> Array:
        mine, others = losses(encoders)
        total = mine + jnp.where(two, others, 0.0)
        return jnp.where(mine > target, total, fixed(total))

    def change(gradient: Any, _: Any) -> Any:
        slopes = [encoder.preactivations[:, :trained_tokens] for encoder in gradient]
        return tuple(
            Encoder(-learning_rate * slope @ gram, -learning_rate * slope)
            for slope, gram in zip(slopes, grams, strict=True)
        )

    result = train(
        start,
        objective,
        optax.stateless(change),
        steps,
        trained=lambda encoders: encoders,
        record=lambda encoders: largest(encoders[0], len(y)),
        record_at=(*(step for step in RATE_BETWEEN if step < steps), steps),
    )
    return Learned(result.model[0], losses(result.model)[0], result.records, result.diverged_at)


def largest(encoder: Encoder, n: int) -> tuple[Array, Array]:
    """The largest |<w_r, mu>| and |<w_r, xi_i>|."""
    import jax.numpy as jnp

    sizes = jnp.abs(encoder.preactivations)
    return sizes[:, 0].max(), sizes[:, 1 : n + 1].max()


def probe_error(key: Array, modality: Modality, encoder: Encoder, n: int) -> Array:
    """The test error of a ridge probe on h(x) = relu(W x_1) + relu(W x_2), fitted to fresh labelled samples."""
    import jax.numpy as jnp

    from unlazy.functions.activations import activation
    from unlazy.random import normal

    relu = activation("relu")
    weights = modality.weights + encoder.coefficients @ modality.tokens[: n + 1]
    # W xi of fresh noise is normal with this covariance: no need to draw xi.
    squares, vectors = jnp.linalg.eigh(weights[:, 1:] @ weights[:, 1:].T)
    root = vectors * jnp.sqrt(jnp.maximum(squares, 0.0))
    inputs = normal(key, (LABELLED + FRESH, len(root))) @ root.T
    y = jnp.where(jnp.arange(len(inputs)) % 2 == 0, 1.0, -1.0).astype(inputs.dtype)
    features = relu(y[:, None] * encoder.preactivations[:, 0]) + relu(inputs)
    features = features - features[:LABELLED].mean(axis=0)
    features = features / jnp.sqrt(jnp.mean(features[:LABELLED] ** 2))
    known = features[:LABELLED]
    moment = known.T @ known / LABELLED + 1e-4 * jnp.eye(len(root), dtype=inputs.dtype)
    read = features[LABELLED:] @ jnp.linalg.solve(moment, known.T @ y[:LABELLED] / LABELLED)
    margin = y[LABELLED:] * read
    return jnp.where(margin == 0, 0.5, margin < 0).mean()
