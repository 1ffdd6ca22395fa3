"""The patch network f_i = sum_p sum_r a_r act(<w_r, x_ip>), its losses, and its gradient in token coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import check_array
from unlazy.functions.elementwise import ACTIVATIONS, Activation
from unlazy.training.signal_noise.token_gram.problem import Patch, PatchDesign, PatchProblem
from unlazy.training.signal_noise.token_gram.views import Mixing, SeenBatch
from unlazy.training.signal_noise.token_gram.weights import Weights


class PatchLoss(NamedTuple):
    """A loss l(f, y) of an output and a label, and minus its derivative in f."""

    name: str
    value: Callable[[Any, Any], Any]
    pull: Callable[[Any, Any], Any]


LOGISTIC = PatchLoss("logistic", lambda f, y: jax.nn.softplus(-y * f), lambda f, y: y * jax.nn.sigmoid(-y * f))
"""log(1 + exp(-y f))"""
SQUARED = PatchLoss("squared", lambda f, y: (y - f) ** 2 / 2, lambda f, y: y - f)
"""(y - f)^2 / 2"""


@dataclass(frozen=True)
class Network:
    """What is computed from pre-activations: an activation with its derivative, and a loss. Not traced."""

    activation: Activation
    loss: PatchLoss = LOGISTIC


def relu_power(power: float) -> Activation:
    """max(z, 0)^q for a fixed number q >= 1, with slope 0 at 0."""
    q = float(check_array("power", power, ndim=0, low=1))
    relu = ACTIVATIONS["relu"]
    if q == 1:
        return relu
    # Products, not `pow`, where the power is whole: several times faster, and differentiable at 0.
    exponent = int(q) if q == int(q) else q
    return Activation(f"relu^{q:g}", lambda z: relu(z) ** exponent, lambda z: q * relu(z) ** (exponent - 1))


def relu_or_square(power: ArrayLike) -> Activation:
    """max(z, 0)^q for a traced q, 1 or 2: one program serves both."""
    relu = ACTIVATIONS["relu"]
    return Activation(
        "relu or relu^2",
        lambda z: jnp.where(power == 1, relu(z), relu(z) ** 2),
        lambda z: jnp.where(power == 1, relu.slope(z), 2 * relu(z)),
    )


CUBE = Activation("cube", lambda z: z * z * z, lambda z: 3 * z * z)
"""The odd activation z^3."""


def outputs(problem: PatchProblem, network: Network, preactivations: Array) -> Array:
    """f on the training samples, (n,), from the pre-activations of the tokens, (R, K)."""
    return _read_out(problem, network, patch_preactivations(problem.design, preactivations))


def mean_loss(batch: SeenBatch, network: Network, values: Array) -> Array:
    """The batch's loss at outputs f; a sample of weight 0 adds nothing, whatever its output is."""
    losses = network.loss.value(values, batch.labels)
    return jnp.sum(jnp.where(batch.weights > 0, batch.weights * losses, 0.0))


def gradient(
    problem: PatchProblem, network: Network, batch: SeenBatch, preactivations: Array, values: Array | None = None
) -> Weights:
    """The gradient of the batch's loss at weights with these pre-activations of the tokens.

    `values` are the outputs on the unmixed samples if they are known. The only large product is with the Gram matrix.
    """
    inputs = patch_preactivations(problem.design, preactivations)
    if batch.mixing is not None:
        inputs = mix(batch.mixing, inputs)
        values = None
    if values is None:
        values = _read_out(problem, network, inputs)
    push = -jnp.sum(batch.weights * network.loss.pull(values, batch.labels), axis=0)
    slopes = [network.activation.slope(z) * problem.second_layer[:, None] * push for z in inputs]
    if batch.mixing is not None:
        slopes = _unmix(batch.mixing, slopes)
    coefficients = _token_sums(problem.design, slopes)
    return Weights(coefficients, jnp.zeros((), coefficients.dtype), coefficients @ problem.gram)


def patch_preactivations(design: PatchDesign, preactivations: Array) -> list[Array]:
    """Pre-activations (R, n) of each patch from those of the tokens, (R, K): sparse sums, no matrix product."""
    samples, features, noises = len(design.labels), design.features, design.noises
    own = preactivations[:, features:].reshape(-1, samples, noises)

    def of_patch(patch: Patch) -> Array:
        terms = []
        if patch.shared is not None:
            terms += [preactivations[:, s, None] * patch.shared[:, s] for s in range(features)]
        if patch.own is not None:
            terms += [own[:, :, q] * patch.own[:, q] for q in range(noises)]
        return sum(terms[1:], start=terms[0])

    return [of_patch(patch) for patch in design.patches]


def mix(mixing: Mixing, inputs: list[Array]) -> list[Array]:
    """Pre-activations of mixed patches: they are linear in the patches."""
    stay, take = _shares(mixing, inputs)
    return [stay[p] * z + take[p] * z[:, mixing.partner] for p, z in enumerate(inputs)]


def _unmix(mixing: Mixing, slopes: list[Array]) -> list[Array]:
    """The transpose of `mix`."""
    stay, take = _shares(mixing, slopes)
    taken_by = jnp.argsort(mixing.partner)
    return [stay[p] * z + (take[p] * z)[:, taken_by] for p, z in enumerate(slopes)]


def _shares(mixing: Mixing, inputs: list[Array]) -> tuple[Array, Array]:
    shape = (len(inputs), inputs[0].shape[1])
    return jnp.broadcast_to(mixing.stay, shape), jnp.broadcast_to(mixing.take, shape)


def _read_out(problem: PatchProblem, network: Network, inputs: list[Array]) -> Array:
    hidden = [network.activation(z) for z in inputs]
    return problem.second_layer @ sum(hidden[1:], start=hidden[0])


def _token_sums(design: PatchDesign, slopes: list[Array]) -> Array:
    """The transpose of `patch_preactivations`, (R, K)."""
    shared = [z @ patch.shared for z, patch in zip(slopes, design.patches, strict=True) if patch.shared is not None]
    own = [z[:, :, None] * patch.own for z, patch in zip(slopes, design.patches, strict=True) if patch.own is not None]
    parts = [sum(terms[1:], start=terms[0]) for terms in (shared, own) if terms]
    return jnp.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
