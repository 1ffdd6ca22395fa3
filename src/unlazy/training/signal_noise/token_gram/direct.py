"""The same network with explicit weights in d dimensions: the reference, and home of rules that see coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import check_known
from unlazy.training.loop import Training, train
from unlazy.training.signal_noise.token_gram.network import Network, mean_loss
from unlazy.training.signal_noise.token_gram.problem import Design, Patch, check_vectors
from unlazy.training.signal_noise.token_gram.views import Batch, View, full_batch


class Vectors(NamedTuple):
    """Explicit patches (P, n, d), first layer (R, d) and second layer (R,)."""

    patches: Array
    first_layer: Array
    second_layer: Array


def explicit(
    design: Design, shared_tokens: ArrayLike, own_tokens: ArrayLike, initial_weights: ArrayLike, second_layer: ArrayLike
) -> Vectors:
    """Patches from shared tokens (S, d) and own tokens (n, Q, d); the same arguments as `from_vectors`."""
    features, own = jnp.asarray(shared_tokens, float), jnp.asarray(own_tokens, float)
    weights, second = jnp.asarray(initial_weights, float), jnp.asarray(second_layer, float)
    check_vectors(design, features, own, weights, second)

    def of_patch(patch: Patch) -> Array:
        parts = [] if patch.shared is None else [patch.shared @ features]
        parts += [] if patch.own is None else [jnp.einsum("nq,nqd->nd", patch.own, own)]
        return sum(parts[1:], start=parts[0])

    return Vectors(jnp.stack([of_patch(patch) for patch in design.patches]), weights, second)


def direct_outputs(vectors: Vectors, network: Network, patches: Array | None = None) -> Array:
    """f on the training patches, or on others (P, n, d): (n,)."""
    seen = vectors.patches if patches is None else patches
    return network.activation(seen @ vectors.first_layer.T).sum(0) @ vectors.second_layer


def direct_loss(vectors: Vectors, network: Network, batch: Batch) -> Array:
    """The batch's loss."""
    patches, mixing = vectors.patches, batch.mixing
    if mixing is not None:
        patches = mixing.stay[..., None] * patches + mixing.take[..., None] * patches[:, mixing.partner]
    return mean_loss(batch, network, direct_outputs(vectors, network, patches))


def train_direct(
    key: Array,
    vectors: Vectors,
    design: Design,
    network: Network,
    optimiser: optax.GradientTransformation,
    steps: int,
    *,
    view: View = full_batch,
    radius: ArrayLike | None = None,
    record: Callable[[Vectors], Any] | None = None,
    record_at: Sequence[int] | None = None,
) -> Training:
    """Train the first layer by any optax optimiser and automatic differentiation, with the engine's views and SAM.

    The update after t others draws from `fold_in(key, t)`, as in the engine, so both see the same batches, flips and
    mixtures. It is the one training loop: a run that diverges is reported, and goes on.
    """
    check_known("steps", steps, whole=True, ndim=0, low=0)
    if radius is not None:
        check_known("radius", radius, ndim=0, low=0)

    def loss(model: Vectors, step_key: Array) -> Array:
        batch = view(step_key, design)
        if radius is None:
            return direct_loss(model, network, batch)
        slope = jax.grad(lambda first: direct_loss(model._replace(first_layer=first), network, batch))(
            model.first_layer
        )
        norm = jnp.linalg.norm(slope)
        uphill = jnp.where(norm > 0, radius / jnp.where(norm > 0, norm, 1.0), 0.0) * slope
        # The gradient at the shifted point, with the shift held fixed.
        shifted = model.first_layer + jax.lax.stop_gradient(uphill)
        return direct_loss(model._replace(first_layer=shifted), network, batch)

    return train(
        vectors,
        loss,
        optimiser,
        steps,
        trained=lambda model: model.first_layer,
        key=key,
        record=record,
        record_at=record_at,
    )
